/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "tests/lib/test_main.h"

typedef int take_fn(const uint8_t *data, size_t size);

static int replay_file(take_fn *take, const char *path)
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
	take(data, size);
	free(data);
	return 1;
}

static int replay(take_fn *take, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int n = 0;

	if (!dir)
		return replay_file(take, path);
	while ((entry = readdir(dir))) {
		char *child;

		if (entry->d_name[0] == '.')
			continue;
		child = xasprintf("%s/%s", path, entry->d_name);
		n += replay(take, child);
		free(child);
	}
	closedir(dir);
	return n;
}

int replay_corpus(take_fn *take, int argc, char **argv)
{
	int n = 0;

	take(NULL, 0);
	for (int i = 1; i < argc; i++)
		n += replay(take, argv[i]);
	printf("%d inputs replayed\n", n);
	return n ? 0 : 1;
}
