/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/test_main.h"

#include <stdio.h>
#include <string.h>

static int run(const struct test_entry *t, int argc, char **argv)
{
	if (t->take)
		return replay_corpus(t->take, argc, argv);
	return t->run_with ? t->run_with(argc, argv) : t->run();
}

int main(int argc, char **argv)
{
	for (const struct test_entry *t = test_entries; t->name; t++) {
		if (argc > 1 && !strcmp(argv[1], t->name))
			return run(t, argc - 1, argv + 1);
	}
	fprintf(stderr, "usage: %s TEST [arguments]; the tests:\n", argv[0]);
	for (const struct test_entry *t = test_entries; t->name; t++)
		fprintf(stderr, "  %s\n", t->name);
	return 2;
}
