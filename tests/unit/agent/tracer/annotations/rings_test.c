/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings in shared memory: this process's own, written by include/tutti/tutti.h; those of a child that was killed and
 * of a forked one; and rings whose owner lies, shrinks them, or writes faster than they are read.
 */
#include "include/tutti/tutti.h" /* whole, before the agent takes the format alone */

#include "agent/tracer/annotations/rings.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/child.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

struct seen {
	int32_t pid; /* of this process alone; other programs of this machine may have rings, too */
	size_t n, unfinished;
	struct note first, last;
};

static struct ticks_map map;

static void on_note(void *arg, const struct note *n)
{
	struct seen *s = arg;

	if (n->pid != s->pid)
		return;
	s->unfinished += n->unfinished;
	memcpy(s->n++ ? &s->last : &s->first, n, NOTE_BYTES(n));
}

static struct ring_reading read_all(struct rings *rs, struct seen *s)
{
	struct ring_reading r = { .map = &map, .slots_left = SIZE_MAX, .fn = on_note, .arg = s };

	ticks_map_read(&map);
	r.now_raw_ns = now_raw_ns();
	do {
		r.has_more = false;
		rings_read(rs, &r);
	} while (r.has_more);
	return r;
}

/* ---- honest rings ---- */

static void test_own(void)
{
	struct rings *rs = rings_new();
	struct seen s = { .pid = getpid() };
	int64_t before = now_raw_ns(), after;

	{
		TUTTI_SCOPE("a scope of this test");
		rings_look(rs, now_mono_ns(), true);
		read_all(rs, &s);
		CHECK_EQ(s.n, 0u);
	}
	after = now_raw_ns();
	read_all(rs, &s);
	CHECK_EQ(s.n, 1u);
	CHECK_STR(s.first.text, "a scope of this test");
	CHECK_EQ(s.first.tid, getpid());
	/* The line between two readings of the counter is good to far less than this. */
	CHECK(s.first.begin_raw_ns > before - NS_PER_MS && s.first.end_raw_ns < after + NS_PER_MS);
	CHECK(s.first.begin_raw_ns <= s.first.end_raw_ns);
	tutti_set_enabled(false);
	tutti_instant("off");
	tutti_set_enabled(true);
	tutti_counter("on", 1.5);
	read_all(rs, &s);
	CHECK_EQ(s.n, 2u);
	CHECK_STR(s.last.text, "on");
	rings_free(rs);
}

/* The child says that it is ready, annotates all the time, and is killed: the last records are there. */
/* The search of a machine with many descriptors takes long; the agent's end does not wait for it. */
static void test_stopped(void)
{
	struct rings *rs = rings_new();

	{
		TUTTI_SCOPE("this process has a ring");
	}
	rings_stop_looking(rs);
	rings_look(rs, now_mono_ns(), true);
	CHECK_EQ(rings_count(rs), 0u);
	rings_free(rs);
}

static void test_killed(void)
{
	struct rings *rs = rings_new();
	struct seen s = { 0 };
	int ready[2], status; /* the child's end, the parent's */
	char byte;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ready));
	s.pid = child_fork(SIGKILL);
	if (!s.pid) {
		tutti_begin("until the end");
		tutti_instant("first");
		CHECK(write(ready[0], "x", 1) == 1);
		CHECK(read(ready[0], &byte, 1) == 1); /* until the parent has looked */
		for (uint64_t i = 0; i < 100; i++)
			tutti_counter("count", (double)i);
		tutti_instant("last");
		kill(getpid(), SIGKILL);
	}
	CHECK(read(ready[1], &byte, 1) == 1);
	rings_look(rs, now_mono_ns(), true);
	CHECK(write(ready[1], "x", 1) == 1);
	CHECK(waitpid(s.pid, &status, 0) == s.pid && WIFSIGNALED(status));
	read_all(rs, &s);
	CHECK_EQ(s.n, 103u);
	CHECK_STR(s.first.text, "first");
	CHECK_STR(s.last.text, "until the end");
	CHECK(s.last.unfinished && s.unfinished == 1);
	CHECK(s.last.begin_raw_ns < s.first.begin_raw_ns);
	read_all(rs, &s);
	CHECK_EQ(s.n, 103u); /* and it is forgotten */
	close(ready[0]);
	close(ready[1]);
	rings_free(rs);
}

/* What test_exchanged() starts: it annotates, says so, and waits. */
static int run_child(void)
{
	char byte;

	tutti_instant("of the program");
	CHECK(write(STDOUT_FILENO, "x", 1) == 1);
	return read(STDIN_FILENO, &byte, 1) != 1;
}

/* A process closes one descriptor and has a ring instead: one that has just begun, or another program in an old one, as a shell that ends
 * with `exec` is. */
static void test_exchanged(bool is_old)
{
	struct rings *rs = rings_new();
	struct seen s = { 0 };
	int to[2], from[2];
	int64_t now_ns = now_mono_ns();
	char byte;

	CHECK(!pipe(to) && !pipe(from));
	s.pid = child_fork(SIGKILL);
	if (!s.pid) {
		CHECK(dup2(to[0], STDIN_FILENO) == STDIN_FILENO &&
		      dup2(from[1], STDOUT_FILENO) == STDOUT_FILENO);
		CHECK(!close_range(3, ~0u, 0));
		CHECK(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) ==
		      3); /* as of subprocess.Popen, until exec */
		CHECK(write(STDOUT_FILENO, "x", 1) == 1 && read(STDIN_FILENO, &byte, 1) == 1);
		if (is_old)
			execl("/proc/self/exe", "unit", "agent/tracer/annotations/rings_test",
			      "child", NULL);
		close(3);
		_exit(run_child());
	}
	CHECK(read(from[0], &byte, 1) == 1);
	for (int i = 0; i < (is_old ? 8 : 1); i++, now_ns += 31 * NS_PER_S)
		rings_look(rs, now_ns, false);
	CHECK(write(to[1], "x", 1) == 1 && read(from[0], &byte, 1) == 1);
	rings_look(rs, is_old ? now_ns : now_mono_ns() + NS_PER_S, false);
	read_all(rs, &s);
	CHECK_EQ(s.n, 1u);
	CHECK_STR(s.first.text, "of the program");
	CHECK(write(to[1], "x", 1) == 1 && waitpid(s.pid, NULL, 0) == s.pid);
	for (int i = 0; i < 2; i++) {
		close(to[i]);
		close(from[i]);
	}
	rings_free(rs);
}

/* ---- rings that are sent ---- */

static int receive_file(int socket)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	int fd;

	CHECK(recvmsg(socket, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* The child had ended before anybody looked for it. */
static void test_sent(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct rings *rs = rings_new();
	struct seen s = { 0 };
	int socket_fd = socket(AF_UNIX, SOCK_DGRAM, 0), pipe_fds[2], file;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/annotations", temp_dir());
	CHECK(!bind(socket_fd, (struct sockaddr *)&at, sizeof(at)));
	s.pid = child_fork(SIGKILL);
	if (!s.pid) {
		setenv("TUTTI_ANNOTATIONS_SOCKET", at.sun_path, 1);
		tutti_begin("short");
		tutti_instant("sent");
		kill(getpid(), SIGKILL);
	}
	CHECK(waitpid(s.pid, NULL, 0) == s.pid);
	file = receive_file(socket_fd);
	rings_add(rs, dup(file), s.pid, getuid());
	rings_add(rs, dup(file), s.pid, getuid()); /* once more */
	rings_add(rs, file, s.pid + 1, getuid()); /* as another process's */
	CHECK_EQ(rings_count(rs), 1u);
	read_all(rs, &s);
	CHECK_EQ(s.n, 2u);
	CHECK_STR(s.first.text, "sent");
	CHECK(s.last.unfinished);
	CHECK_EQ(rings_count(rs), 0u);

	CHECK(!pipe(pipe_fds)); /* what is no memfd is closed */
	rings_add(rs, pipe_fds[0], getpid(), getuid());
	rings_add(rs, open("/proc/self/status", O_RDONLY), getpid(), getuid());
	CHECK_EQ(rings_count(rs), 0u);
	CHECK(write(pipe_fds[1], "x", 1) < 0);
	close(pipe_fds[1]);
	close(socket_fd);
	rings_free(rs);
}

static void *annotate_and_end(void *arg)
{
	(void)arg;
	TUTTI_SCOPE("of a thread");
	return NULL;
}

/* Threads that end give their lanes back. */
static void test_threads(void)
{
	struct rings *rs = rings_new();
	struct seen s = { .pid = getpid() };

	rings_look(rs, now_mono_ns(), true);
	read_all(rs, &s);
	s.n = 0;
	for (int i = 0; i < 3 * TUTTI_LANES; i++) {
		pthread_t thread;

		CHECK(!pthread_create(&thread, NULL, annotate_and_end, NULL));
		CHECK(!pthread_join(thread, NULL));
	}
	read_all(rs, &s);
	CHECK_EQ(s.n, 3u * TUTTI_LANES);
	CHECK_EQ(tutti_process_.ring->refused, 0u);
	CHECK(s.first.tid != getpid() && s.first.tid != s.last.tid);
	rings_free(rs);
}

/* More than the lane holds between two readings: the newest are there, the others are counted. */
static void test_overrun(void)
{
	struct rings *rs = rings_new();
	struct seen s = { .pid = getpid() };
	struct ring_reading r;

	rings_look(rs, now_mono_ns(), true);
	read_all(rs, &s);
	s.n = 0;
	for (int i = 0; i < 3 * TUTTI_SLOTS; i++)
		tutti_counter("i", i);
	r = read_all(rs, &s);
	CHECK(s.n >= TUTTI_SLOTS - 5 && s.n <= TUTTI_SLOTS);
	CHECK_EQ(s.n + r.lost, 3u * TUTTI_SLOTS);
	rings_free(rs);
}

static pthread_barrier_t annotated;

static void *annotate_and_wait(void *arg)
{
	(void)arg;
	tutti_instant("of a thread");
	pthread_barrier_wait(&annotated);
	pthread_barrier_wait(&annotated); /* all have been read */
	return NULL;
}

/* More threads at once than there are lanes: those without one are told of, also when they have ended. */
static void test_no_lane(void)
{
	pthread_t threads[TUTTI_LANES + 1]; /* and this one, which has a lane */
	struct rings *rs = rings_new();
	struct seen s = { .pid = getpid() };

	rings_look(rs, now_mono_ns(), true);
	read_all(rs, &s);
	CHECK_EQ(rings_crowded(rs), 0u);
	s.n = 0;
	CHECK(!pthread_barrier_init(&annotated, NULL, TUTTI_LANES + 2));
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK(!pthread_create(&threads[i], NULL, annotate_and_wait, NULL));
	pthread_barrier_wait(&annotated);
	CHECK_EQ(read_all(rs, &s).lost, 2u);
	CHECK_EQ(s.n, TUTTI_LANES - 1u);
	pthread_barrier_wait(&annotated);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK_EQ(read_all(rs, &s).lost, 0u);
	CHECK_EQ(rings_crowded(rs), 1u);
	rings_free(rs);
}

/* ---- rings of a liar ---- */

#define LANES 2u
#define SLOTS 64u

static int make_ring(const struct tutti_ring *header, size_t bytes)
{
	int fd = (int)syscall(SYS_memfd_create, TUTTI_RING_NAME, 3u);

	CHECK(fd >= 0 && pwrite(fd, header, sizeof(*header), 0) == sizeof(*header));
	CHECK(!ftruncate(fd, (off_t)bytes));
	return fd;
}

static struct tutti_ring good_header(void)
{
	return (struct tutti_ring){ .magic = TUTTI_RING_MAGIC,
				    .version = TUTTI_RING_VERSION,
				    .lanes = LANES,
				    .slots = SLOTS,
				    .clock = TUTTI_CLOCK_RAW,
				    .pid = 4711 };
}

/* More rings than are read of a process: those beyond are counted for as long as they are there. */
static void test_too_many(void)
{
	struct rings *rs = rings_new();
	struct tutti_ring h = good_header();
	int fds[RINGS_PER_PROCESS_MAX + 3];

	h.pid = getpid();
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = make_ring(&h, 65536);
	rings_look(rs, now_mono_ns(), true);
	CHECK(rings_left_out(rs) >= 3u);
	CHECK(!rings_add(rs, dup(fds[ARRAY_SIZE(fds) - 1]), getpid(), getuid()));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	rings_look(rs, now_mono_ns() + 31 * NS_PER_S, true);
	CHECK_EQ(rings_left_out(rs), 0u);
	rings_free(rs);
}

static const struct ring_process process = { .pid = 5, .inner_pid = 4711 };

static bool opens(struct tutti_ring h, size_t bytes)
{
	struct shared_ring *r = NULL;
	size_t n_open = 0;
	struct err e;
	int rc = shared_ring_open(&r, make_ring(&h, bytes), &process, &n_open, &e);

	CHECK(!rc == !!r);
	shared_ring_free(r);
	return !rc;
}

static void test_headers(void)
{
	static const uint32_t bad_slots[] = { 0, 1, 63, 96, 1U << 20, UINT32_MAX };
	struct tutti_ring h = good_header();

	CHECK(opens(h, 65536));
	CHECK(!opens(h, 10));
	for (size_t i = 0; i < ARRAY_SIZE(bad_slots); i++) {
		h.slots = bad_slots[i];
		CHECK(!opens(h, 65536));
	}
	h = good_header();
	h.lanes = 0;
	CHECK(!opens(h, 65536));
	h.lanes = 257;
	CHECK(!opens(h, 65536));
	h = good_header();
	h.pid = 1;
	CHECK(!opens(h, 65536));
	h = good_header();
	h.version = 2;
	CHECK(!opens(h, 65536));
	h = good_header();
	h.clock = 99;
	CHECK(!opens(h, 65536));
	h = good_header();
	h.magic++;
	CHECK(!opens(h, 65536));
}

/* A raw clock of a time namespace; the CPU's counter is the same everywhere. */
static void test_time_namespace(void)
{
	const struct ring_process ahead = { .pid = 5,
					    .inner_pid = 4711,
					    .raw_ahead_ns = 100 * NS_PER_S };
	const struct ring_process unknown = { .pid = 5, .inner_pid = 4711, .is_raw_unknown = true };
	struct tutti_ring h = good_header();
	struct shared_ring *r;
	size_t n_open = 0;
	struct err e;

	CHECK_OK(shared_ring_open(&r, make_ring(&h, 65536), &ahead, &n_open, &e), e);
	shared_ring_free(r);
	CHECK_EQ(shared_ring_open(&r, make_ring(&h, 65536), &unknown, &n_open, &e),
		 ERR_UNSUPPORTED);
	h.clock = tutti_clock_;
	if (h.clock == TUTTI_CLOCK_RAW)
		return;
	CHECK_OK(shared_ring_open(&r, make_ring(&h, 65536), &unknown, &n_open, &e), e);
	shared_ring_free(r);
}

static void set_head(int fd, uint32_t lane, uint64_t head)
{
	CHECK(pwrite(fd, &head, sizeof(head),
		     (off_t)(TUTTI_RING_LANES_AT + lane * sizeof(struct tutti_lane))) ==
	      sizeof(head));
}

static struct ring_reading read_ring(struct shared_ring *r, struct seen *s)
{
	struct ring_reading reading = {
		.map = &map, .slots_left = 1000, .fn = on_note, .arg = s, .now_raw_ns = now_raw_ns()
	};

	shared_ring_read(r, &reading);
	return reading;
}

/* Heads that go back, jump, or say that all the world was written; a file that shrinks while it is read. */
static void test_heads(void)
{
	struct tutti_ring h = good_header();
	struct tutti_slot slot = { .kind = TUTTI_KIND_INSTANT, .text_len = 1, .text = "x" };
	struct seen s = { .pid = 5 };
	size_t n_open = 0;
	struct shared_ring *r;
	struct err e;
	int fd = make_ring(&h, 8192 + (size_t)LANES * SLOTS * sizeof(slot)), mine = dup(fd);

	slot.ticks = (uint64_t)now_raw_ns();
	for (size_t i = 0; i < SLOTS; i++)
		CHECK(pwrite(mine, &slot, sizeof(slot), (off_t)(8192 + i * sizeof(slot))) > 0);
	CHECK_OK(shared_ring_open(&r, fd, &process, &n_open, &e), e);
	set_head(mine, 0, 10);
	read_ring(r, &s);
	CHECK_EQ(s.n, 10u);
	set_head(mine, 0, 3); /* back */
	read_ring(r, &s);
	set_head(mine, 0, 5);
	read_ring(r, &s);
	CHECK_EQ(s.n, 12u);
	set_head(mine, 0, 1000000);
	CHECK(read_ring(r, &s).lost > 900000);
	CHECK(s.n <= 12u + SLOTS);
	set_head(mine, 0, UINT64_MAX);
	set_head(mine, 1, UINT64_MAX / 2);
	CHECK_EQ(read_ring(r, &s).lost, 0u);
	set_head(mine, 1, UINT64_MAX / 4);
	CHECK(read_ring(r, &s).lost <= (1u << 30) + SLOTS);
	set_head(mine, 0, 1000000 + SLOTS);
	CHECK(!ftruncate(mine, 8192 + 32)); /* no signal, and no end without an end */
	read_ring(r, &s);
	CHECK(!ftruncate(mine, 100));
	read_ring(r, &s);
	shared_ring_free(r);
	close(mine);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "child"))
		return run_child();
	ticks_map_read(&map);
	test_own();
	test_stopped();
	test_killed();
	test_exchanged(false);
	test_exchanged(true);
	signal(SIGPIPE, SIG_IGN);
	test_sent();
	test_threads();
	test_overrun();
	test_no_lane();
	test_too_many();
	test_headers();
	test_time_namespace();
	test_heads();
	return 0;
}
