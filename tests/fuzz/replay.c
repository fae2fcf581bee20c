/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over every file named on the command line, or in the folders named there. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	struct stat st;
	FILE *f = fopen(path, "rb");
	uint8_t *data;
	size_t size;

	if (!f || fstat(fileno(f), &st)) {
		perror(path);
		exit(1);
	}
	data = xmalloc((size_t)st.st_size);
	size = fread(data, 1, (size_t)st.st_size, f);
	fclose(f);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 1;
}

static int replay(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int n = 0;

	if (!dir)
		return replay_file(path);
	while ((entry = readdir(dir))) {
		char *child;

		if (entry->d_name[0] == '.')
			continue;
		child = xasprintf("%s/%s", path, entry->d_name);
		n += replay(child);
		free(child);
	}
	closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	int n = 0;

	LLVMFuzzerTestOneInput(NULL, 0);
	for (int i = 1; i < argc; i++)
		n += replay(argv[i]);
	printf("%d inputs replayed\n", n);
	return n ? 0 : 1;
}
