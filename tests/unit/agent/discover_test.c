/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery over a made-up /proc: whose sockets, which of them speak ProfilerService, asked how often. */
#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/discover.h"
#include "agent/proc_scan.h"
#include "base/buf.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/rpc.h"
#include "tests/lib/check.h"
#include "tests/lib/fake_profiler.h"

static char root[] = "/tmp/discover_test.XXXXXX";

/* ---- a /proc of files ---- */

static void put_file(const char *path, const char *text)
{
	char *full = xasprintf("%s/%s", root, path);
	FILE *f;

	mkdir(root, 0700);
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

static void put_process(int pid, const char *comm, uint64_t start, const char *maps)
{
	char *path = xasprintf("%d/stat", pid);
	char *text = xasprintf("%d (%s) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %" PRIu64
			       " 20 21\n",
			       pid, comm, start);

	put_file(path, text);
	free(path);
	path = xasprintf("%d/maps", pid);
	put_file(path, maps);
	free(path);
	path = xasprintf("%d/fd/.keep", pid);
	put_file(path, "");
	free(path);
	free(text);
}

static void put_fd(int pid, int fd, const char *target)
{
	char *path = xasprintf("%s/%d/fd/%d", root, pid, fd);

	CHECK(!symlink(target, path));
	free(path);
}

static void remove_tree(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *child;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		child = xasprintf("%s/%s", path, entry->d_name);
		if (unlink(child))
			remove_tree(child);
		free(child);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

static void remove_process(int pid)
{
	char *path = xasprintf("%s/%d", root, pid);

	remove_tree(path);
	free(path);
}

#define TCP_HEAD "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"

/* One line as the kernel writes it; state 10 is LISTEN. */
static char *tcp_line(const char *hex, int port, int state, int inode)
{
	return xasprintf("   0: %s:%04X 00000000:0000 %02X 00000000:00000000 00:00000000 00000000  "
			 "   0        0 %d 1 0000000000000000 100 0 0 10 0\n",
			 hex, port, state, inode);
}

static void put_tcp(const char *file, const char *const *lines)
{
	struct buf text = BUF_INIT;

	buf_add_str(&text, TCP_HEAD);
	for (; *lines; lines++)
		buf_add_str(&text, *lines);
	put_file(file, buf_str(&text));
	buf_release(&text);
}

#define JAX_MAPS  "7f00-7f01 r-xp 00000000 fe:00 1 /usr/lib/python3/jaxlib/libjax_common.so\n"
#define BASH_MAPS "7f00-7f01 r-xp 00000000 fe:00 1 /usr/bin/bash\n"

static const struct proc_listener *find_port(const struct proc_scan *s, int port)
{
	size_t n;
	const struct proc_listener *l = proc_scan_listeners(s, &n);

	for (size_t i = 0; i < n; i++) {
		if (l[i].port == port)
			return &l[i];
	}
	return NULL;
}

/* ---- the scan ---- */

static void put_scan_tree(void)
{
	char *v4[] = { tcp_line("0100007F", 8001, 10, 101), /* 127.0.0.1, held by bash */
		       tcp_line("00000000", 8002, 10, 102), /* any, held by jax and its child */
		       tcp_line("0201A8C0", 8003, 10, 103), /* 192.168.1.2, held by nobody */
		       tcp_line("0100007F", 8004, 1, 104), /* connected */
		       NULL };
	char *v6[] = { tcp_line("00000000000000000000000000000000", 8005, 10, 105),
		       tcp_line("00000000000000000000000001000000", 8006, 10, 106),
		       tcp_line("B80D0120000000000000000001000000", 8007, 10, 107),
		       tcp_line("0000000000000000FFFF00000100007F", 8008, 10, 108), NULL };

	put_tcp("net/tcp", (const char *const *)v4);
	put_tcp("net/tcp6", (const char *const *)v6);
	for (int i = 0; i < 4; i++) {
		free(v4[i]);
		free(v6[i]);
	}
	put_process(10, "bash", 5, BASH_MAPS);
	put_fd(10, 3, "socket:[101]");
	put_process(20, "python (jax) 3", 900, BASH_MAPS JAX_MAPS);
	put_fd(20, 0, "/dev/null");
	put_fd(20, 7, "socket:[102]");
	put_fd(20, 8, "socket:[105]");
	put_process(21, "worker", 950, JAX_MAPS); /* forked: holds its parent's sockets */
	put_fd(21, 7, "socket:[102]");
	put_process(5, "older", 1, BASH_MAPS); /* passed it on, maps no framework */
	put_fd(5, 7, "socket:[102]");
}

static void test_scan(void)
{
	struct proc_scan *s;
	const struct proc_listener *l;
	struct err e;
	size_t n;

	put_scan_tree();
	s = proc_scan_new(root);
	CHECK_OK(proc_scan_run(s, &e), e);
	proc_scan_listeners(s, &n);
	CHECK_EQ(n, 7);
	CHECK(!proc_scan_is_blind(s));

	l = find_port(s, 8001);
	CHECK_STR(l->address, "127.0.0.1:8001");
	CHECK_EQ(l->pid, 10);
	CHECK(l->local && !l->framework);
	l = find_port(s, 8002);
	CHECK_STR(l->address, "127.0.0.1:8002");
	CHECK_EQ(l->pid, 20);
	CHECK_STR(l->comm, "python (jax) 3");
	CHECK_EQ(l->start_ticks, 900);
	CHECK(l->framework);
	l = find_port(s, 8003);
	CHECK_STR(l->address, "192.168.1.2:8003");
	CHECK_EQ(l->pid, 0);
	CHECK(!l->local);
	CHECK(!find_port(s, 8004));
	l = find_port(s, 8005);
	CHECK_STR(l->address, "127.0.0.1:8005");
	CHECK_EQ(l->pid, 20);
	CHECK_STR(find_port(s, 8006)->address, "[0:0:0:0:0:0:0:1]:8006");
	CHECK(find_port(s, 8006)->local);
	CHECK_STR(find_port(s, 8007)->address, "[2001:db8:0:0:0:0:0:1]:8007");
	CHECK(!find_port(s, 8007)->local);
	CHECK_STR(find_port(s, 8008)->address, "127.0.0.1:8008");

	/* What is known is kept while the process lives: nobody looks at its fds again. */
	remove_process(21);
	put_process(20, "python (jax) 3", 900, BASH_MAPS);
	CHECK_OK(proc_scan_run(s, &e), e);
	CHECK(find_port(s, 8002)->framework);
	/* Another process by the same number is another process. */
	put_process(20, "other", 1000, BASH_MAPS);
	CHECK_OK(proc_scan_run(s, &e), e);
	CHECK(!find_port(s, 8002)->framework);
	CHECK_EQ(find_port(s, 8002)->pid, 5); /* the oldest of those without a framework */
	proc_scan_free(s);
	remove_tree(root);
}

static void test_scan_without_lists(void)
{
	struct proc_scan *s = proc_scan_new("/nonexistent");
	struct err e;

	CHECK(proc_scan_run(s, &e) < 0);
	proc_scan_free(s);
}

/* ---- discovery ---- */

struct fixture {
	struct loop *loop;
	struct rpc *rpc;
	struct discover *d;
	struct fake_profiler *jax, *other;
	int jax_port, other_port, looked;
};

static void looked(void *arg)
{
	struct fixture *f = arg;

	f->looked++;
}

static void look(struct fixture *f)
{
	int before = f->looked;

	discover_refresh(f->d, looked, f);
	for (int i = 0; i < 1000 && f->looked == before; i++)
		loop_turn(f->loop, 20);
	CHECK_EQ(f->looked, before + 1);
}

static void put_sockets(const struct fixture *f)
{
	char *v4[] = { tcp_line("00000000", f->jax_port, 10, 201),
		       tcp_line("0100007F", f->other_port, 10, 202), NULL };

	put_tcp("net/tcp", (const char *const *)v4);
	free(v4[0]);
	free(v4[1]);
}

static void setup(struct fixture *f, bool probe)
{
	struct discover_conf conf = { .proc = root, .probe = probe };
	struct err e;

	memset(f, 0, sizeof(*f));
	CHECK_OK(loop_new(&f->loop, 1, &e), e);
	CHECK_OK(rpc_new(&f->rpc, f->loop, &e), e);
	CHECK_OK(fake_profiler_new(&f->jax, f->loop, f->rpc, FAKE_GOOD, "127.0.0.1:0", &f->jax_port,
				   &e),
		 e);
	CHECK_OK(fake_profiler_new(&f->other, f->loop, f->rpc, FAKE_OTHER, "127.0.0.1:0",
				   &f->other_port, &e),
		 e);
	put_sockets(f);
	put_process(1 << 29, "python3", 77, JAX_MAPS);
	put_fd(1 << 29, 3, "socket:[201]");
	put_fd(1 << 29, 4, "socket:[202]");
	conf.loop = f->loop;
	conf.rpc = f->rpc;
	f->d = discover_new(&conf);
}

static void teardown(struct fixture *f)
{
	discover_free(f->d);
	fake_profiler_free(f->jax);
	fake_profiler_free(f->other);
	rpc_free(f->rpc);
	loop_free(f->loop);
	remove_tree(root);
}

static void test_discover(void)
{
	const struct discover_target *t;
	struct discover_target owner;
	struct fixture f;
	size_t n;

	setup(&f, true);
	look(&f);
	t = discover_targets(f.d, &n);
	CHECK_EQ(n, 1);
	CHECK_EQ(t->port, f.jax_port);
	CHECK_EQ(t->pid, 1 << 29);
	CHECK_STR(t->comm, "python3");
	CHECK_EQ(fake_profiler_seen(f.jax)->terminates, 1);
	CHECK(!strncmp(fake_profiler_seen(f.jax)->terminated, "tutti-probe_", 12));
	CHECK(discover_owner(f.d, f.other_port, &owner));
	CHECK(!discover_owner(f.d, 1, &owner));

	/* A look that is just over counts; nobody is asked twice. */
	look(&f);
	CHECK_EQ(fake_profiler_seen(f.jax)->terminates, 1);
	teardown(&f);
}

/* With probes off, only the owner of a port is looked up. */
static void test_owner_only(void)
{
	struct discover_target owner;
	struct fixture f;
	size_t n;

	setup(&f, false);
	CHECK(!discover_owner(f.d, f.jax_port, &owner));
	look(&f);
	CHECK(discover_owner(f.d, f.jax_port, &owner));
	CHECK_EQ(owner.pid, 1 << 29);
	discover_targets(f.d, &n);
	CHECK_EQ(n, 0);
	CHECK_EQ(fake_profiler_seen(f.jax)->terminates, 0);
	teardown(&f);
}

static void test_forget_and_free_early(void)
{
	struct fixture f;

	setup(&f, true);
	discover_refresh(f.d, looked, &f);
	discover_forget(f.d, &f);
	discover_refresh(f.d, looked, &f);
	loop_turn(f.loop, 0); /* the scan is under way */
	teardown(&f);
	CHECK_EQ(f.looked, 0);
}

int main(void)
{
	CHECK(mkdtemp(root));
	test_scan();
	test_scan_without_lists();
	test_discover();
	test_owner_only();
	test_forget_and_free_early();
	remove_tree(root);
	return 0;
}
