/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other processes, as those processes see them: opened below /proc/PID/root. Symbolic links
 * cannot lead out of that root, and only regular files are opened: pipes and devices are not touched. For workers: may block.
 */
#ifndef AGENT_PROC_FOREIGN_FILE_H
#define AGENT_PROC_FOREIGN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

/* Returns a descriptor, which the caller closes, and fills `st`; or a negative code. */
MUST_CHECK int foreign_open(uint32_t pid, const char *path, struct stat *st, struct err *e);

/* The same for a file that the process has mapped, with the path and the inode that /proc/PID/maps has; the path of a process in
 * a chroot does not begin at the process's root. If the process has ended, the agent's own file at that path is taken; if the
 * file was removed or replaced, what /proc/PID still opens: the program itself, and its libraries with
 * CAP_CHECKPOINT_RESTORE. ERR_NOT_FOUND: none of these has that inode. */
MUST_CHECK int foreign_open_mapped(uint32_t pid, const char *path, uint64_t inode, struct stat *st,
				   struct err *e);

/* ERR_DENIED if no file of the process can be opened for lack of a permission. Does not block. */
MUST_CHECK int foreign_check(uint32_t pid, struct err *e);

/* The same as foreign_open() in the agent's own root. */
MUST_CHECK int foreign_open_here(const char *path, struct stat *st, struct err *e);

/* Removes the file `name` from `folder`, as the process sees it, if it is a regular file of user `uid`. No
 * link leads out of the process's root. If the process has ended, uses that folder of the agent's own root.
 * True if there was such a file. */
bool foreign_remove(uint32_t pid, const char *folder, const char *name, uint32_t uid);

/* Puts the names of the folder's entries into `out`, each with its NUL, from entry number `from` on, as many as fit. Returns how
 * many bytes; 0 at the end, or if the folder cannot be read. */
size_t foreign_list(uint32_t pid, const char *folder, uint64_t from, char *out, size_t size);

/* Whether errno, after a call on a process's folder in /proc or a file in it, means that a capability is missing.
 * False if the agent and the process both run as root: then that process has more rights than the agent, and no
 * capability helps. */
bool foreign_is_denied(int proc_fd);

/* Sets and returns the error for errno after opening `name`, a process's root or a path below it. Names a
 * missing capability. */
int foreign_error(struct err *e, const char *name);

#endif
