/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of other programs, read by a process of their own (file_keeper.h) that is given up when it hangs in one. Then the
 * place of that file is left alone until the reader comes back, and for a while after that; another reader reads the
 * files of other places. A reader hangs if it sleeps in one and the same wait for FAR_HANG_LOOKS looks: one that only gets
 * no CPU does not.
 *
 * No user takes more than his share: files of the processes of one user have FAR_USER_HUNG_MAX readers hang at most, and
 * FAR_USER_ASLEEP_NS of waiting in a job. Beyond that they are not opened.
 *
 * One worker at a time.
 */
#ifndef AGENT_PROC_FAR_FILE_H
#define AGENT_PROC_FAR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/now.h"

#define FAR_LOOK_MS	   100
#define FAR_HANG_LOOKS	   15
#define FAR_HUNG_MAX	   16 /* readers that were given up and have not come back */
#define FAR_USER_HUNG_MAX  4
#define FAR_USER_ASLEEP_NS (5 * NS_PER_S)
#define FAR_REST_NS	   (2 * NS_PER_S) /* doubled by each hang, up to FAR_REST_MAX_NS */
#define FAR_REST_MAX_NS	   (600 * NS_PER_S)

struct file_keeper;
struct far_files;

/* What hangs together: the files of a device, as maps name it, or what else a process has. */
struct far_place {
	uint32_t major, minor; /* 0, 0: not known */
	uint32_t pid;
	uint32_t uid; /* whose process */
};

struct far_file {
	struct far_files *files;
	struct far_place place;
	int fd; /* the reader's; -1: closed */
	uint32_t reader; /* which one */
	char path[128]; /* the begin of it, for sentences */
};
#define FAR_FILE_CLOSED ((struct far_file){ .fd = -1 })

/* `k` is borrowed. NULL: the callers themselves read, and may hang. */
struct far_files *far_files_new(const struct file_keeper *k);
void far_files_free(struct far_files *ff); /* NULL is fine */

/* Any thread. From now on nothing is opened or read, and a call that waits returns soon: ERR_CANCELLED. */
void far_files_stop(struct far_files *ff);

/* A job begins. True if files that could not be opened before may be opened again. */
bool far_files_begin(struct far_files *ff);

/* What hangs: a sentence; "" if nothing does. */
const char *far_files_hung(const struct far_files *ff);

/* As foreign_open_mapped(), foreign_open() and foreign_open_here(). ERR_TIMEOUT: its place hangs, or is left alone. Return
 * 0 or a negative code. */
MUST_CHECK int far_open_mapped(struct far_files *ff, const struct far_place *place,
			       const char *path, uint64_t inode, struct far_file *out,
			       struct stat *st, struct err *e);
MUST_CHECK int far_open(struct far_files *ff, const struct far_place *place, const char *path,
			struct far_file *out, struct stat *st, struct err *e);
MUST_CHECK int far_open_here(struct far_files *ff, const struct far_place *place, const char *path,
			     struct far_file *out, struct stat *st, struct err *e);

/* As foreign_list(), whose `out` has FAR_LIST_BYTES, and foreign_remove(): how many bytes, or files, or a negative code. */
#define FAR_LIST_BYTES (64U << 10)
ssize_t far_list(struct far_files *ff, const struct far_place *place, const char *folder,
		 uint64_t from, char *out, struct err *e);
MUST_CHECK int far_remove(struct far_files *ff, const struct far_place *place, const char *folder,
			  const char *name, struct err *e);

/* False if it was closed, or its reader has ended or was given up. */
bool far_file_is_open(const struct far_file *f);
void far_file_close(struct far_file *f);

/* Reads `len` bytes at `offset`, fewer only at the end of the file. Returns how many, or a negative code. */
ssize_t far_file_read_up_to(struct far_file *f, uint64_t offset, void *out, size_t len,
			    struct err *e);

/* ERR_IO where the file ends before. For struct elf_source: `file` is a struct far_file. */
MUST_CHECK int far_file_read(void *file, uint64_t offset, void *out, size_t len, struct err *e);

#endif
