/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole reads and writes, small files, folders. A call that a signal interrupts goes on. `name` names
 * the file in error texts: "reading NAME: Input/output error".
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Reads `len` bytes at `offset`, fewer only at the end of the file. Returns how many; -1 and errno. */
ssize_t file_read_up_to(int fd, uint64_t offset, void *out, size_t len);

/* Reads `len` bytes at `offset`; ERR_IO where the file ends before. */
MUST_CHECK int file_read_exact(int fd, uint64_t offset, void *out, size_t len, const char *name,
			       struct err *e);

/* Writes all of it, at the descriptor's position or at `offset`. */
MUST_CHECK int file_write_all(int fd, const void *data, size_t len, const char *name,
			      struct err *e);
MUST_CHECK int file_write_at(int fd, uint64_t offset, const void *data, size_t len,
			     const char *name, struct err *e);

/* Makes `path` a file of these bytes and this mode, less the umask. A crash leaves the whole old one or the whole new one:
 * it is written and synced as PATH.new first. */
MUST_CHECK int file_replace(const char *path, mode_t mode, const void *data, size_t len,
			    struct err *e);

/* A new file in the folder, without a name: it vanishes with its descriptor, which the caller closes. -1 and errno. */
int file_open_nameless(const char *folder);

/* Writes the first `bytes` of `from` to `to`, at its position; ERR_IO where `from` ends before. `name` is that of `from`;
 * errors of writing name "the copy of NAME". */
MUST_CHECK int file_copy(int from, int to, uint64_t bytes, const char *name, struct err *e);

/* Appends the bytes of a file to `out`, also of one in /proc, whose size is not known before.
 * ERR_LIMIT for more than `max_bytes`; `out` then holds some of them. */
MUST_CHECK int file_load(const char *path, size_t max_bytes, struct buf *out, struct err *e);

/* The first line of a file without its newline, cut to `size` - 1 bytes. False, and `out` is "", if there is
 * none. */
bool file_first_line(const char *path, char *out, size_t size);

/*
 * Makes the folder and those above it where they are missing, and syncs them to disk. The folders
 * above get `mode_above`, the last one `mode`, both less the umask. Links are followed; a folder that
 * is there already keeps its mode.
 */
MUST_CHECK int file_make_folders(const char *path, mode_t mode_above, mode_t mode, struct err *e);

/*
 * Opens `path` as a process with the root folder `root_fd` sees it: no symbolic link leads outside that
 * folder. Where the kernel lacks openat2() (before 5.6) or a filter refuses it, a path with a link in it is
 * refused with ELOOP, unless it is this process's own root. Adds O_CLOEXEC. The caller closes the descriptor;
 * -1 and errno.
 */
int file_open_in_root(int root_fd, const char *path, int flags);

/* Opens /dev/null as stdin, stdout and stderr where a program was started without them: else the next file or socket gets
 * the number, and log lines go into it. Programs that are linked with this do it before they begin; main() calls it, so that
 * they are. */
void file_open_standard(void);

#endif
