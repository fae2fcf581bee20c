/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An XSpace as text, to compare whole or to search:
 *
 *   plane /host:CPU
 *    clock_bound_ns=1000 session="s1" rate=0.5f size=3u options=[2]
 *   main #1 @5000: step 0-1.5 {pid=7 name="x"} mark 2-2
 *   error TEXT
 *   warning TEXT
 *   host host-a
 *
 * One text line per XLine: its name, its id, its timestamp in ns (left out if it is 0), its events from-to in ms
 * after that, exact to the picosecond. An aggregate event is NAME xOCCURRENCES. Of stats, an int is plain, a uint ends
 * with u, a double with f, text is quoted (references are followed), bytes are their number in brackets.
 */
#ifndef TESTS_XSPACE_TEXT_H
#define TESTS_XSPACE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The caller frees it. A failed CHECK if this is no XSpace. */
char *xspace_text(const void *data, size_t len);
char *xspace_text_of_file(const char *path);

/* Only the lines, "NAME @NS: EVENTS", without ids and stats. */
char *xspace_lines(const void *data, size_t len);

/* How often `part` occurs. */
size_t text_count(const char *text, const char *part);

/* The number behind the first `key`, which must be there: text_number(t, "clock_bound_ns="). */
int64_t text_number(const char *text, const char *key);

/* Of the first event of the line of this name, and of its last: timestamp plus offset, in ns. */
int64_t text_first_ns(const char *text, const char *line);
int64_t text_last_ns(const char *text, const char *line);

#endif
