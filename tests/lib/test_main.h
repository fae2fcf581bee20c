/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that holds all tests of a room: its first argument names the one to run, the others are that test's own.
 * Each test is a file with a main() of its own; cmake/testing.cmake renames it, and makes the table.
 */
#ifndef TESTS_TEST_MAIN_H
#define TESTS_TEST_MAIN_H

#include <stddef.h>
#include <stdint.h>

/* One of the three is set. */
struct test_entry {
	const char *name; /* NULL ends the table */
	int (*run)(void);
	int (*run_with)(int argc, char **argv);
	int (*take)(const uint8_t *data,
		    size_t size); /* a fuzz target: gets each file of the folders in argv */
};

extern const struct test_entry test_entries[];

/* Gives the target each file that is named, or is in a folder that is; 1 if there was none. */
int replay_corpus(int (*take)(const uint8_t *data, size_t size), int argc, char **argv);

#endif
