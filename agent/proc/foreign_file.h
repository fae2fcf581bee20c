/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other processes, as those processes see them: opened below /proc/PID/root. Symbolic links
 * cannot lead out of that root, pipes do not block, and only regular files are opened. For workers: may block.
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

/* ERR_DENIED if no file of the process can be opened for lack of a permission. */
MUST_CHECK int foreign_check(uint32_t pid, struct err *e);

/* The same as foreign_open() in the agent's own root. */
MUST_CHECK int foreign_open_here(const char *path, struct stat *st, struct err *e);

/* Removes `name` from the folder `folder`, as the process sees it, if it is a regular file of user `uid`. Links
 * are not followed out of the process's root. If the process has ended, the folder is the agent's own. True if
 * there was such a file. */
bool foreign_remove(uint32_t pid, const char *folder, const char *name, uint32_t uid);

/* The same for all files whose name `is_wanted` takes, among the folder's first FOREIGN_NAMES_MAX; returns how
 * many were removed. */
#define FOREIGN_NAMES_MAX 100000
size_t foreign_remove_all(uint32_t pid, const char *folder, uint32_t uid,
			  bool (*is_wanted)(void *arg, const char *name), void *arg);

/* True if errno, of a call on the folder of a process in /proc or on what is in it, is the lack of a capability. Not
 * to root for a process of root: that one may more than the agent, which nothing that is granted changes. */
bool foreign_is_denied(int proc_fd);

/* The error in errno of opening `name`, a process's root or a path below one: it names the capability that
 * is missing. */
int foreign_error(struct err *e, const char *name);

#endif
