/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/fake_proc.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

#define TCP_HEAD "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"

static const char *root;

const char *fake_proc_make(void)
{
	root = temp_dir();
	return root;
}

void fake_proc_remove(void)
{
	temp_dir_remove(root);
}

static void put_file(const char *path, const char *text)
{
	char *full = xasprintf("%s/%s", root, path);
	FILE *f;

	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(full, 0700);
		*p = '/';
	}
	f = fopen(full, "we");
	CHECK(f);
	fputs(text, f);
	fclose(f);
	free(full);
}

void fake_proc_sockets(const char *file, const struct fake_socket *sockets)
{
	struct buf text = BUF_INIT;

	buf_add_str(&text, TCP_HEAD);
	for (; sockets->address; sockets++)
		buf_addf(&text,
			 "   0: %s:%04X 00000000:0000 %02X 00000000:00000000 00:00000000 00000000  "
			 "   0        0 %d 1 0000000000000000 100 0 0 10 0\n",
			 sockets->address, sockets->port, sockets->state, sockets->inode);
	put_file(file, buf_str(&text));
	buf_release(&text);
}

static void put_process_file(int pid, const char *name, const char *text)
{
	char *path = xasprintf("%d/%s", pid, name);

	put_file(path, text);
	free(path);
}

void fake_proc_add(int pid, const char *comm, uint64_t start_ticks, const char *maps)
{
	char *stat = xasprintf("%d (%s) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %" PRIu64
			       " 20 21\n",
			       pid, comm, start_ticks);

	put_process_file(pid, "stat", stat);
	put_process_file(pid, "maps", maps);
	put_process_file(pid, "fd/.keep", "");
	free(stat);
}

void fake_proc_add_fd(int pid, int fd, const char *target)
{
	char *path = xasprintf("%s/%d/fd/%d", root, pid, fd);

	CHECK(!symlink(target, path));
	free(path);
}

void fake_proc_drop(int pid)
{
	char *path = xasprintf("%s/%d", root, pid);

	remove_tree(path);
	free(path);
}
