/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that read files for the agent. To open or read a file of another program may never end: its file system's
 * server (a network's, FUSE) may not answer, and the kernel then keeps who waits, killed or not, and with it the process
 * whose thread that is. So no thread of the agent touches such files: a reader does, a small process that is given up
 * when it hangs (far_file.h).
 *
 * The keeper (tutti-files) forks the readers, and helpers: processes that do another job which the kernel may keep. Its guard
 * (tutti-guard), which is forked before the agent has threads, does nothing but fork the keeper, and another one when that was
 * killed. All end when the agent does, but for those that the kernel keeps. The keeper does so, too, when only its guard was killed.
 */
#ifndef AGENT_PROC_FILE_KEEPER_H
#define AGENT_PROC_FILE_KEEPER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

struct file_keeper;

/* What a helper does: it serves the socket until that is closed. `shared` is memory of the agent and all helpers, zeroed at first. */
struct file_helper {
	const char *name; /* of the process */
	void (*serve)(int fd, void *shared);
	size_t shared_bytes;
};

/* To be called before the process has threads. `helper` is borrowed; NULL = there is none. */
MUST_CHECK int file_keeper_start(struct file_keeper **out, const struct file_helper *helper,
				 struct err *e);
void file_keeper_free(struct file_keeper *k); /* NULL is fine */

/* Any thread. A new reader: returns a socket to it, which the caller closes, or a negative code. The socket is closed at the other end
 * if the keeper is killed meanwhile, or was so often that there is none for a while. */
MUST_CHECK int file_keeper_reader(const struct file_keeper *k, struct err *e);

/* The same for a helper, with which one byte stream is spoken. */
MUST_CHECK int file_keeper_helper(const struct file_keeper *k, struct err *e);
void *file_keeper_shared(const struct file_keeper *k); /* NULL: no helper was named */

/* ---- what is said over that socket: one packet each, answers in the order of the requests ---- */

#define FILE_PATH_BYTES	 4096
#define FILE_CHUNK_BYTES (64U << 10)

enum file_call {
	FILE_OPEN_MAPPED, /* foreign_open_mapped() */
	FILE_OPEN, /* foreign_open() */
	FILE_OPEN_HERE, /* foreign_open_here() */
	FILE_READ, /* up to FILE_CHUNK_BYTES */
	FILE_CLOSE,
	FILE_LIST, /* foreign_list(), from entry number `offset` on */
	FILE_REMOVE, /* foreign_remove() of the file at `path`, if it is of user `uid` */
};

struct file_request {
	uint32_t call; /* enum file_call */
	uint32_t pid;
	uint64_t inode;
	int32_t fd; /* the reader's, of an answer to an open */
	uint32_t len;
	uint64_t offset;
	uint32_t uid;
	char path[FILE_PATH_BYTES]; /* sent with its NUL, without what is behind it */
};

/* The bytes that were read are behind it. */
struct file_answer {
	int32_t rc; /* the descriptor, how many bytes or files, or a negative code */
	int32_t pid; /* the reader's */
	int64_t asleep_ns; /* how long it waited for something else than a CPU */
	struct stat st;
	struct err e;
};

#endif
