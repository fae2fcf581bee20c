/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows log files by path or pattern. Those that are there at the first look are read from their end on, those that
 * come later from their beginning. A file is known by its inode: a renamed file (rotation) is read to its end, together
 * with the new one of that name; a file that became shorter, or has other bytes before the place where reading ended
 * (truncation), is read again from its beginning. Sizes are compared at each reading: that costs 0.3 us a file and, unlike
 * inotify, works on every file system.
 *
 * For a worker, one at a time.
 */
#ifndef AGENT_TRACER_LOGS_FILES_H
#define AGENT_TRACER_LOGS_FILES_H

#include <stddef.h>

#include "agent/tracer/logs/reading.h"

#define FILES_MAX     512 /* followed at once */
#define FILES_WAIT_NS NS_PER_S /* a last line without a line feed is complete after this time */
/* With more unread bytes of a file than FILES_BACKLOG, all but the last FILES_BACKLOG_KEPT are skipped, and their lines
 * count as lost. */
#define FILES_BACKLOG	   (1 << 20)
#define FILES_BACKLOG_KEPT (64 << 10)
#define FILES_GONE_NS \
	(10 * NS_PER_S) /* a file that lost its name is closed when it is quiet for so long */

struct files;

/* The patterns, as of glob(3) with braces, are copied. */
struct files *files_new(const char *const *patterns, size_t n);
void files_free(struct files *f); /* NULL is fine */

/* Finds the files that the patterns match now. */
void files_look(struct files *f);

/* Adds the lines that the files got. What the reading may still take is divided equally among the files; those with the
 * least to read come first, and leave the rest of their share to the others. */
void files_read(struct files *f, struct reading *r);

size_t files_count(const struct files *f);

/* Why not all of them are followed, with the fix; "" if they are. Borrowed until files_look(). */
const char *files_problem(const struct files *f);
int files_error(const struct files *f); /* its errno; 0 = it has none */

#endif
