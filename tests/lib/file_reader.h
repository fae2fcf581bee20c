/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the processes that read files for this test (agent/proc/file_keeper.h), to stop one as a file system does. */
#ifndef TESTS_FILE_READER_H
#define TESTS_FILE_READER_H

#include <stddef.h>
#include <sys/types.h>

/* A reader that none of the n known ones is; 0 if there is none. */
pid_t file_reader(const pid_t *known, size_t n);

pid_t file_reader_keeper(pid_t reader);

#endif
