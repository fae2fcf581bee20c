/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A temporary directory of this test, removed with all that is in it at exit(), also after a failed CHECK.
 *
 * Its name has the process's id, so that the next test that makes one removes what a killed test left behind.
 */
#ifndef TESTS_TEMP_DIR_H
#define TESTS_TEMP_DIR_H

/* "/tmp/tutti-test-PID-XXXXXX", or below $TMPDIR; the text is valid until temp_dir_remove() or exit(). A test may make several. */
const char *temp_dir(void);

/* The same below `base`: "BASE/PREFIX-PID-XXXXXX". */
const char *temp_dir_in(const char *base, const char *prefix);

/* rm -rf; follows no links. */
void remove_tree(const char *path);

/* Removes it now. */
void temp_dir_remove(const char *path);

#endif
