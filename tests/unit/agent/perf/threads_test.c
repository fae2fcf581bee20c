/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "tests/lib/check.h"

#define PID 7

/* The tids of the list, the thread that ran last first: "12 11". */
static void check_list(const struct threads *ts, int64_t from_s, const char *want)
{
	size_t n, len = 0;
	struct thread_question *v = threads_list(ts, from_s * NS_PER_S, &n);
	char text[256] = "";

	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u", i ? " " : "",
					v[i].tid);
	CHECK_STR(text, want);
	free(v);
}

static void note(struct threads *ts, uint32_t tid, int64_t at_s)
{
	threads_note(ts, PID, tid, at_s * NS_PER_S);
}

/* At most a second more than asked for. */
static void only_threads_that_ran_are_listed(void)
{
	struct threads *ts = threads_new();

	note(ts, 11, 10);
	note(ts, 12, 20);
	note(ts, 13, 30);
	check_list(ts, 0, "13 12 11");
	check_list(ts, 15, "13 12");
	check_list(ts, 31, "");
	note(ts, 11, 40);
	check_list(ts, 15, "11 13 12");
	check_list(ts, 40, "11");
	threads_note_again(ts, 12, 50 * NS_PER_S);
	threads_note_again(ts, 99, 50 * NS_PER_S); /* never ran */
	check_list(ts, 50, "12");
	threads_free(ts);
}

/* The CPUs' rings are read one after the other. */
static void late_records_leave_no_thread_out(void)
{
	struct threads *ts = threads_new();

	note(ts, 11, 10);
	note(ts, 12, 20);
	note(ts, 13, 11);
	note(ts, 14, 19);
	check_list(ts, 18, "14 13 12");
	threads_free(ts);
}

static void threads_leave_the_list_when_they_are_forgotten(void)
{
	const struct perf_record end = {
		.kind = PERF_KIND_EXIT, .pid = PID, .tid = 12, .time_ns = 21 * NS_PER_S
	};
	const struct perf_record fork = { .kind = PERF_KIND_FORK, .pid = 8, .tid = 11, .ptid = 13 };
	struct threads *ts = threads_new();

	note(ts, 11, 10);
	note(ts, 12, 20);
	note(ts, 13, 30);
	threads_apply(ts, &end);
	threads_sweep(ts, 21 * NS_PER_S);
	check_list(ts, 0, "13 12 11");
	threads_sweep(ts, 22 * NS_PER_S);
	check_list(ts, 0, "13 11");
	threads_apply(ts, &fork); /* another thread with that id, which did not run yet */
	check_list(ts, 0, "13");
	note(ts, 11, 40);
	check_list(ts, 0, "11 13");
	threads_free(ts);
}

static void check_names(const struct threads *ts, const char *first, const char *second)
{
	size_t n;
	struct thread_question *v = threads_list(ts, 0, &n);

	CHECK_EQ(n, 2);
	threads_sort(v, n);
	CHECK_STR(v[0].comm, first);
	CHECK_STR(v[1].comm, second);
	free(v);
}

/* A thread has its parent's name until it is given one. */
static void names_are_handed_on(void)
{
	const struct perf_record fork = {
		.kind = PERF_KIND_FORK, .pid = PID, .tid = 12, .ptid = 11
	};
	struct perf_record comm = {
		.kind = PERF_KIND_COMM, .pid = PID, .tid = 11, .text = "trainer"
	};
	struct threads *ts = threads_new();

	threads_apply(ts, &comm);
	threads_apply(ts, &fork);
	note(ts, 11, 10);
	note(ts, 12, 20);
	check_names(ts, "trainer", "trainer");
	comm.tid = 12;
	comm.text = "work\x1b";
	threads_apply(ts, &comm);
	check_names(ts, "trainer", "work ");
	threads_free(ts);
}

int main(void)
{
	names_are_handed_on();
	only_threads_that_ran_are_listed();
	late_records_leave_no_thread_out();
	threads_leave_the_list_when_they_are_forgotten();
	return 0;
}
