/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery over a made-up /proc: whose sockets, which of them speak ProfilerService, asked how often. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/tracer/profiler/discover.h"
#include "agent/proc/scan.h"
#include "base/loop.h"
#include "base/now.h"
#include "net/rpc.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"
#include "tests/lib/fake_proc.h"
#include "tests/lib/fake_profiler.h"

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
	static const struct fake_socket v4[] = {
		{ "0100007F", 8001, FAKE_LISTEN, 101 }, /* held by bash */
		{ "00000000", 8002, FAKE_LISTEN, 102 }, /* held by jax and its child */
		{ "0201A8C0", 8003, FAKE_LISTEN, 103 }, /* no process has it */
		{ "0100007F", 8004, FAKE_ESTABLISHED, 104 },
		{ 0 }
	};
	static const struct fake_socket v6[] = {
		{ "00000000000000000000000000000000", 8005, FAKE_LISTEN, 105 },
		{ "00000000000000000000000001000000", 8006, FAKE_LISTEN, 106 },
		{ "B80D0120000000000000000001000000", 8007, FAKE_LISTEN, 107 },
		{ "0000000000000000FFFF00000100007F", 8008, FAKE_LISTEN, 108 },
		{ 0 }
	};

	fake_proc_sockets("net/tcp", v4);
	fake_proc_sockets("net/tcp6", v6);
	fake_proc_add(10, "bash", 5, FAKE_BASH_MAPS);
	fake_proc_add_fd(10, 3, "socket:[101]");
	fake_proc_add(20, "python (jax) 3", 900, FAKE_BASH_MAPS FAKE_JAX_MAPS);
	fake_proc_add_fd(20, 0, "/dev/null");
	fake_proc_add_fd(20, 7, "socket:[102]");
	fake_proc_add_fd(20, 8, "socket:[105]");
	fake_proc_add(21, "worker", 950, FAKE_JAX_MAPS); /* forked: holds its parent's sockets */
	fake_proc_add_fd(21, 7, "socket:[102]");
	fake_proc_add(5, "older", 1, FAKE_BASH_MAPS); /* passed it on, maps no framework */
	fake_proc_add_fd(5, 7, "socket:[102]");
}

static void test_scan(void)
{
	struct proc_scan *s;
	const struct proc_listener *l;
	struct err e;
	size_t n;

	s = proc_scan_new(fake_proc_make());
	put_scan_tree();
	CHECK_OK(proc_scan_run(s, &e), e);
	proc_scan_listeners(s, &n);
	CHECK_EQ(n, 7);
	CHECK(!proc_scan_is_incomplete(s));

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

	/* Results are kept while the process lives: its descriptors are not read again. */
	fake_proc_drop(21);
	fake_proc_add(20, "python (jax) 3", 900, FAKE_BASH_MAPS);
	CHECK_OK(proc_scan_run(s, &e), e);
	CHECK(find_port(s, 8002)->framework);
	/* Another process by the same number is another process. */
	fake_proc_add(20, "other", 1000, FAKE_BASH_MAPS);
	CHECK_OK(proc_scan_run(s, &e), e);
	CHECK(!find_port(s, 8002)->framework);
	CHECK_EQ(find_port(s, 8002)->pid, 5); /* the oldest of those without a framework */
	proc_scan_free(s);
	fake_proc_remove();
}

static int listen_somewhere(int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 1));
	CHECK(!getsockname(fd, (struct sockaddr *)&at, &len));
	*port = ntohs(at.sin_port);
	return fd;
}

/* The process of a new socket is found at once if it has more descriptors than before, else in the next scan. */
static void test_scan_of_this_process(void)
{
	struct proc_scan *s = proc_scan_new("/proc");
	int ports[3], fds[3];
	struct err e;

	for (int i = 0; i < 2; i++) {
		fds[i] = listen_somewhere(&ports[i]);
		CHECK_OK(proc_scan_run(s, &e), e);
		CHECK_EQ(find_port(s, ports[i])->pid, getpid());
	}
	close(fds[0]);
	fds[0] = listen_somewhere(&ports[2]);
	for (int i = 0; i < 2; i++)
		CHECK_OK(proc_scan_run(s, &e), e);
	CHECK_EQ(find_port(s, ports[2])->pid, getpid());
	CHECK_EQ(find_port(s, ports[1])->pid, getpid());
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	proc_scan_free(s);
}

static void test_stopped_scan(void)
{
	struct proc_scan *s = proc_scan_new(fake_proc_make());
	const struct proc_listener *l;
	struct err e = { 0 };
	size_t n;

	put_scan_tree();
	proc_scan_stop(s);
	CHECK_OK(proc_scan_run(s, &e), e);
	l = proc_scan_listeners(s, &n);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(l[i].pid, 0);
	CHECK(n > 0);
	proc_scan_free(s);
	fake_proc_remove();
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
	RUN_UNTIL(f->loop, f->looked != before);
	CHECK_EQ(f->looked, before + 1);
}

static void put_sockets(const struct fixture *f)
{
	const struct fake_socket v4[] = { { "00000000", f->jax_port, FAKE_LISTEN, 201 },
					  { "0100007F", f->other_port, FAKE_LISTEN, 202 },
					  { 0 } };

	fake_proc_sockets("net/tcp", v4);
	fake_proc_add(1 << 29, "python3", 77, FAKE_JAX_MAPS);
	fake_proc_add_fd(1 << 29, 3, "socket:[201]");
	fake_proc_add_fd(1 << 29, 4, "socket:[202]");
}

static void setup(struct fixture *f, bool probe)
{
	struct discover_conf conf = { .proc = fake_proc_make(), .probe = probe };
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
	fake_proc_remove();
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

	/* A scan that has just ended counts; no server is probed twice. */
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
	test_scan();
	test_scan_of_this_process();
	test_stopped_scan();
	test_scan_without_lists();
	test_discover();
	test_owner_only();
	test_forget_and_free_early();
	return 0;
}
