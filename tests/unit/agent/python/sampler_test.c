/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds that another process makes, which hangs: a stopped process stands for one that waits for a file system. */
#include "agent/python/sampler.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proc/file_keeper.h"
#include "base/child.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

struct bed {
	struct file_keeper *keeper;
	struct python_functions *functions;
	struct python_sampler *sampler;
	int64_t took_ns; /* the last run */
};

static const struct python_brought *run(struct bed *b, bool must_scan)
{
	const struct python_order o = { .hz = 99,
					.must_scan = must_scan,
					.next_mono_ns = now_mono_ns() };
	const struct python_brought *brought;

	python_sampler_begin(b->sampler);
	brought = python_sampler_run(b->sampler, &o, NULL);
	b->took_ns = now_mono_ns() - o.next_mono_ns;
	return brought;
}

static struct bed bed_new(struct file_keeper *keeper)
{
	struct bed b = { .keeper = keeper, .functions = python_functions_new() };

	b.sampler = python_sampler_new(b.functions, keeper);
	CHECK(!run(&b, true)->is_lost);
	return b;
}

static void bed_free(struct bed *b)
{
	python_sampler_free(b->sampler);
	python_functions_free(b->functions);
}

static struct python_board *board(const struct bed *b)
{
	return file_keeper_shared(b->keeper);
}

/* The maker is stopped, and seems to read the memory of that process. */
static void stop_maker(const struct bed *b, uint32_t pid)
{
	CHECK(!kill((pid_t)atomic_load(&board(b)->maker), SIGSTOP));
	atomic_store(&board(b)->reading, pid);
}

static pid_t start_other(void)
{
	pid_t pid = child_fork(SIGKILL);

	if (pid == 0) {
		pause();
		_exit(0);
	}
	CHECK(pid > 0);
	return pid;
}

static void end_other(pid_t pid)
{
	CHECK(!kill(pid, SIGKILL));
	CHECK(waitpid(pid, NULL, 0) == pid);
}

/* That costs the process whose memory it is, and a second. */
static void who_hangs_is_given_up(struct file_keeper *keeper)
{
	struct bed b = bed_new(keeper);
	pid_t other = start_other();
	uint32_t maker = atomic_load(&board(&b)->maker);
	const struct python_brought *brought;
	char why[32];

	snprintf(why, sizeof(why), "pid %d: ", (int)other);
	stop_maker(&b, (uint32_t)other);
	brought = run(&b, true);
	CHECK(brought->is_lost && !brought->head.has_scanned && !brought->head.n_samples);
	CHECK(b.took_ns >= SAMPLER_HANG_LOOKS * SAMPLER_LOOK_MS * NS_PER_MS);
	CHECK(brought->head.unread.unsupported == 1);
	CHECK(!strncmp(brought->head.unread.unsupported_why, why, strlen(why)));
	/* Another one goes on, and leaves it alone for a while. */
	for (int64_t until = now_mono_ns() + 3 * NS_PER_S / 2; now_mono_ns() < until;) {
		brought = run(&b, true);
		CHECK(!brought->is_lost && brought->head.has_scanned);
		CHECK(strstr(brought->head.unread.unsupported_why, why));
		CHECK(atomic_load(&board(&b)->maker) != maker);
	}
	while (strstr(run(&b, true)->head.unread.unsupported_why, why))
		now_sleep_until_mono(now_mono_ns() + 100 * NS_PER_MS);
	end_other(other);
	bed_free(&b);
}

static void who_ends_is_replaced(struct file_keeper *keeper)
{
	struct bed b = bed_new(keeper);
	pid_t other = start_other();

	stop_maker(&b, (uint32_t)other);
	CHECK(!kill((pid_t)atomic_load(&board(&b)->maker), SIGKILL));
	CHECK(run(&b, false)->is_lost);
	CHECK(!run(&b, false)->is_lost); /* with a scan, though none was asked for */
	end_other(other);
	bed_free(&b);
}

static void *stop_soon(void *sampler)
{
	now_sleep_until_mono(now_mono_ns() + 100 * NS_PER_MS);
	python_sampler_stop(sampler);
	return NULL;
}

static void a_stop_ends_the_wait(struct file_keeper *keeper)
{
	struct bed b = bed_new(keeper);
	uint32_t maker = atomic_load(&board(&b)->maker);
	pthread_t thread;

	stop_maker(&b, 1);
	CHECK(!pthread_create(&thread, NULL, stop_soon, b.sampler));
	CHECK(run(&b, false)->is_lost);
	CHECK(b.took_ns < SAMPLER_HANG_LOOKS * SAMPLER_LOOK_MS * NS_PER_MS);
	CHECK(!pthread_join(thread, NULL));
	CHECK(!kill((pid_t)maker, SIGKILL));
	bed_free(&b);
}

/* A maker that a program took over: what it reports, again and again. */
static struct {
	uint64_t len;
	struct python_report head;
	struct python_sampled sampled;
	struct handed sample;
} lie;

/* After so many reports there is one without a sample, and the maker ends. */
static int lies_with_samples = INT_MAX;

static void tell_lies(int fd, void *shared)
{
	struct python_order o;
	uint64_t len;
	int told = 0;

	(void)shared;
	while (read(fd, &len, sizeof(len)) > 0 && read(fd, &o, sizeof(o)) > 0) {
		for (uint8_t rest[65536]; len > sizeof(o);) {
			size_t left = len - sizeof(o);
			ssize_t n = read(fd, rest, left < sizeof(rest) ? left : sizeof(rest));

			if (n <= 0)
				return;
			len -= (uint64_t)n;
		}
		if (told > lies_with_samples)
			return;
		if (told++ == lies_with_samples)
			lie.head.n_samples = 0;
		if (write(fd, &lie, sizeof(lie)) < 0)
			return;
	}
}

static const struct python_brought *hear(struct bed *b, struct file_keeper **keeper)
{
	static const struct file_helper liar = { .name = "liar",
						 .serve = tell_lies,
						 .shared_bytes = sizeof(struct python_board) };
	struct err e;

	CHECK_OK(file_keeper_start(keeper, &liar, &e), e);
	*b = (struct bed){ .keeper = *keeper, .functions = python_functions_new() };
	b->sampler = python_sampler_new(b->functions, *keeper);
	return run(b, true);
}

/* It is given up, or what it says is no harm. */
static void what_a_maker_says_is_not_trusted(void)
{
	static const uint64_t lengths[] = { 0, sizeof(lie.head) - 1, (256U << 20) + 1,
					    UINT64_MAX / 2, UINT64_MAX };
	struct file_keeper *keeper;
	const struct python_brought *brought;
	struct bed b;

	memset(&lie, 'x', sizeof(lie));
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		lie.len = lengths[i];
		CHECK(hear(&b, &keeper)->is_lost);
		brought = run(&b, false); /* not at once again, and that is said */
		CHECK(brought->is_lost && brought->head.unread.unsupported);
		CHECK(strstr(brought->head.unread.unsupported_why, "too many readers"));
		bed_free(&b);
		file_keeper_free(keeper);
	}
	lie.len = sizeof(lie) - sizeof(lie.len);
	lie.head.is_anew = true;
	lie.head.n_sampled = lie.head.n_samples = 1;
	brought = hear(&b, &keeper);
	CHECK(!brought->is_lost && brought->head.n_sampled == 1 && brought->head.n_samples == 1);
	CHECK(!brought->head.n_frames && brought->samples[0].result == PYTHON_RESULT_TORN);
	CHECK_EQ(strlen(brought->sampled[0].command), sizeof(lie.sampled.command) - 1);
	CHECK_EQ(strlen(brought->samples[0].name), sizeof(lie.sample.name) - 1);
	CHECK_EQ(strlen(brought->head.unread.denied_why), sizeof(lie.head.unread.denied_why) - 1);
	bed_free(&b);
	file_keeper_free(keeper);
}

/* However short its last report was: that one may have been asked for early. */
static void what_is_lost_is_counted(void)
{
	struct file_keeper *keeper;
	struct bed b;
	int64_t until_ns = now_mono_ns() + NS_PER_S;
	const struct python_brought *brought;

	memset(&lie, 0, sizeof(lie));
	lie.len = sizeof(lie) - sizeof(lie.len);
	lie.head.n_sampled = lie.head.n_samples = 1;
	lies_with_samples = 50;
	hear(&b, &keeper);
	for (int i = 1; i < lies_with_samples; i++) {
		CHECK(run(&b, false)->head.n_samples == 1);
		now_sleep_until_mono(until_ns - (lies_with_samples - i) * 20 * NS_PER_MS);
	}
	CHECK(!run(&b, false)->head.n_samples);
	now_sleep_until_mono(now_mono_ns() + 200 * NS_PER_MS);
	brought = run(&b, false);
	CHECK(brought->is_lost && brought->head.stop.samples > 0);
	bed_free(&b);
	file_keeper_free(keeper);
}

/* Without such processes it is the same. */
static void here(void)
{
	struct bed b = { .functions = python_functions_new() };

	b.sampler = python_sampler_new(b.functions, NULL);
	CHECK(run(&b, true)->head.has_scanned);
	CHECK(!run(&b, false)->is_lost);
	bed_free(&b);
}

int main(void)
{
	struct file_keeper *keeper;
	struct err e;

	CHECK_OK(file_keeper_start(&keeper, &python_helper, &e), e);
	who_hangs_is_given_up(keeper);
	who_ends_is_replaced(keeper);
	a_stop_ends_the_wait(keeper);
	CHECK(python_helper_usage(keeper).cpu_ns > 0);
	CHECK(python_helper_usage(keeper).resident_bytes > 0);
	file_keeper_free(keeper);
	what_a_maker_says_is_not_trusted();
	what_is_lost_is_counted();
	here();
	return 0;
}
