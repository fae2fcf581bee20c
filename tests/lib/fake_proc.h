/* SPDX-License-Identifier: Apache-2.0 */
/* A /proc of plain files, as far as discovery reads it: processes, their sockets, their listeners. */
#ifndef TESTS_FAKE_PROC_H
#define TESTS_FAKE_PROC_H

#include <stdint.h>

#define FAKE_JAX_MAPS  "7f00-7f01 r-xp 00000000 fe:00 1 /usr/lib/python3/jaxlib/libjax_common.so\n"
#define FAKE_BASH_MAPS "7f00-7f01 r-xp 00000000 fe:00 1 /usr/bin/bash\n"

enum { FAKE_ESTABLISHED = 1, FAKE_LISTEN = 10 };

/* A line of net/tcp. */
struct fake_socket {
	const char *address; /* as the kernel prints it: "0100007F" */
	int port, state, inode;
};

/* Makes the tree in a new directory; one at a time. Its path, until fake_proc_remove(). */
const char *fake_proc_make(void);
void fake_proc_remove(void);

/* Writes net/tcp or net/tcp6; ends with a socket whose address is NULL. */
void fake_proc_sockets(const char *file, const struct fake_socket *sockets);

/* Adds a process, or changes it. */
void fake_proc_add(int pid, const char *comm, uint64_t start_ticks, const char *maps);
void fake_proc_add_fd(int pid, int fd, const char *target); /* "socket:[4711]" */
void fake_proc_drop(int pid);

#endif
