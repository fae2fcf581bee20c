/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/threads.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/proc/u32_map.h"
#include "base/buf.h"
#include "base/clean_text.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"

/* The table grows to this size only if ends of threads were missed. It is then emptied, and filled again from
 * /proc. */
#define THREADS_MAX 262144

/* How long a thread may run until it is moved to the front of the list of those that ran. */
#define MOVE_EVERY_NS NS_PER_S

struct thread {
	uint32_t pid, tid;
	char comm[COMM_BYTES];
	bool ran, asked;
	int64_t ended_ns; /* 0 = alive */
	/* of those that ran: it did so until then, or up to MOVE_EVERY_NS longer */
	int64_t ran_raw_ns;
	TAILQ_ENTRY(thread) entry;
};

struct threads {
	struct u32_map by_tid;
	TAILQ_HEAD(, thread) ran; /* those that ran last come first */
	int64_t latest_raw_ns; /* that any of them ran */
	struct {
		uint32_t *v; /* tids; some may have ended since */
		size_t n, cap;
	} open; /* questions */
};

struct threads *threads_new(void)
{
	struct threads *ts = xcalloc(1, sizeof(*ts));

	TAILQ_INIT(&ts->ran);
	return ts;
}

static void forget_all(struct threads *ts)
{
	for (size_t i = 0; i < ts->by_tid.n_slots; i++)
		free(u32_map_at(&ts->by_tid, i));
	u32_map_release(&ts->by_tid);
	TAILQ_INIT(&ts->ran);
}

void threads_free(struct threads *ts)
{
	if (!ts)
		return;
	forget_all(ts);
	free(ts->open.v);
	free(ts);
}

static struct thread *thread_of(struct threads *ts, uint32_t pid, uint32_t tid)
{
	struct thread *t = u32_map_get(&ts->by_tid, tid);

	if (!t) {
		if (ts->by_tid.n == THREADS_MAX)
			forget_all(ts);
		t = xcalloc(1, sizeof(*t));
		t->tid = tid;
		u32_map_set(&ts->by_tid, tid, t);
	}
	t->pid = pid;
	return t;
}

/* ---- records ---- */

static void apply_comm(struct threads *ts, const struct perf_record *rec)
{
	struct thread *t = thread_of(ts, rec->pid, rec->tid);

	clean_text(t->comm, sizeof(t->comm), rec->text, strlen(rec->text));
	t->ended_ns = 0;
}

static void apply_fork(struct threads *ts, const struct perf_record *rec)
{
	const struct thread *parent = u32_map_get(&ts->by_tid, rec->ptid);
	struct thread child = { .pid = rec->pid, .tid = rec->tid }, *t;

	if (parent)
		memcpy(child.comm, parent->comm, sizeof(child.comm));
	t = thread_of(ts, rec->pid, rec->tid);
	if (t->ran)
		TAILQ_REMOVE(&ts->ran, t, entry);
	*t = child;
}

static void apply_exit(struct threads *ts, const struct perf_record *rec)
{
	struct thread *t = u32_map_get(&ts->by_tid, rec->tid);

	if (t)
		t->ended_ns = rec->time_ns;
}

void threads_apply(struct threads *ts, const struct perf_record *rec)
{
	if (rec->kind == PERF_KIND_COMM)
		apply_comm(ts, rec);
	else if (rec->kind == PERF_KIND_FORK)
		apply_fork(ts, rec);
	else if (rec->kind == PERF_KIND_EXIT)
		apply_exit(ts, rec);
}

/* Keeps the list in order of time. Records of several CPUs do not come so: then it ran as late as the newest. */
static void move_to_front(struct threads *ts, struct thread *t, int64_t raw_ns)
{
	if (raw_ns > ts->latest_raw_ns)
		ts->latest_raw_ns = raw_ns;
	if (t->ran && ts->latest_raw_ns - t->ran_raw_ns < MOVE_EVERY_NS)
		return;
	if (t->ran)
		TAILQ_REMOVE(&ts->ran, t, entry);
	TAILQ_INSERT_HEAD(&ts->ran, t, entry);
	t->ran_raw_ns = ts->latest_raw_ns;
	t->ran = true;
}

void threads_note_again(struct threads *ts, uint32_t tid, int64_t raw_ns)
{
	struct thread *t = u32_map_get(&ts->by_tid, tid);

	if (t && t->ran)
		move_to_front(ts, t, raw_ns);
}

void threads_note(struct threads *ts, uint32_t pid, uint32_t tid, int64_t raw_ns)
{
	struct thread *t = thread_of(ts, pid, tid);

	if (!t->ran && !t->comm[0]) {
		if (ts->open.n == ts->open.cap) {
			ts->open.cap = ts->open.cap ? 2 * ts->open.cap : 64;
			ts->open.v = xrealloc(ts->open.v, ts->open.cap * sizeof(*ts->open.v));
		}
		ts->open.v[ts->open.n++] = tid;
	}
	move_to_front(ts, t, raw_ns);
}

void threads_sweep(struct threads *ts, int64_t ended_before_ns)
{
	uint32_t *gone = xmalloc((ts->by_tid.n + 1) * sizeof(*gone));
	size_t n = 0;

	for (size_t i = 0; i < ts->by_tid.n_slots; i++) {
		const struct thread *t = u32_map_at(&ts->by_tid, i);

		if (t && t->ended_ns && t->ended_ns < ended_before_ns)
			gone[n++] = t->tid;
	}
	while (n) {
		struct thread *t = u32_map_remove(&ts->by_tid, gone[--n]);

		if (t->ran)
			TAILQ_REMOVE(&ts->ran, t, entry);
		free(t);
	}
	free(gone);
}

/* ---- names ---- */

struct thread_question *threads_list(const struct threads *ts, int64_t from_raw_ns, size_t *n)
{
	struct thread_question *out = xcalloc(1, sizeof(*out));
	size_t cap = 1;
	const struct thread *t;

	*n = 0;
	TAILQ_FOREACH (t, &ts->ran, entry) {
		if (t->ran_raw_ns <= from_raw_ns - MOVE_EVERY_NS)
			break;
		if (*n == cap) {
			cap *= 2;
			out = xrealloc(out, cap * sizeof(*out));
		}
		out[*n] = (struct thread_question){ .pid = t->pid, .tid = t->tid };
		memcpy(out[(*n)++].comm, t->comm, sizeof(t->comm));
	}
	return out;
}

/* Leaves out threads that have ended meanwhile. */
size_t threads_take_questions(struct threads *ts, struct thread_question **out, size_t max)
{
	size_t n = 0;

	*out = NULL;
	while (ts->open.n && n < max) {
		struct thread *t = u32_map_get(&ts->by_tid, ts->open.v[--ts->open.n]);

		if (!t || !t->ran || t->asked || t->comm[0] || t->ended_ns)
			continue;
		if (!n)
			*out = xcalloc(max, sizeof(**out));
		(*out)[n++] = (struct thread_question){ .pid = t->pid, .tid = t->tid };
		t->asked = true;
	}
	return n;
}

void thread_question_answer(struct thread_question *q)
{
	struct buf text = BUF_INIT;
	char path[64];

	if (q->comm[0])
		return;
	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", q->pid, q->tid);
	if (!file_load(path, 256, &text, NULL))
		snprintf(q->comm, sizeof(q->comm), "%.*s", (int)strcspn(buf_str(&text), "\n"),
			 buf_str(&text));
	buf_release(&text);
}

void threads_apply_answer(struct threads *ts, const struct thread_question *q)
{
	struct thread *t = u32_map_get(&ts->by_tid, q->tid);

	if (t && !t->comm[0])
		clean_text(t->comm, sizeof(t->comm), q->comm, strlen(q->comm));
}

static int by_tid(const void *a, const void *b)
{
	const struct thread_question *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

void threads_sort(struct thread_question *threads, size_t n)
{
	if (n)
		sort_array(threads, n, sizeof(*threads), by_tid);
}

struct thread_question *threads_find(struct thread_question *threads, size_t n, uint32_t tid)
{
	struct thread_question key = { .tid = tid };

	return n ? bsearch(&key, threads, n, sizeof(key), by_tid) : NULL;
}

bool threads_title(struct thread_question *threads, size_t n, uint32_t tid,
		   const struct pod_view *pods, char out[THREAD_TITLE_BYTES])
{
	struct thread_question *thread = threads_find(threads, n, tid);
	char comm[COMM_BYTES] = "", pod[POD_TITLE_BYTES];

	if (pod_view_hides(pods, thread ? thread->pid : 0))
		return false;
	pod_view_title(pods, thread ? thread->pid : 0, pod);
	if (thread) {
		thread_question_answer(thread);
		clean_text(comm, sizeof(comm), thread->comm, strlen(thread->comm));
	}
	snprintf(out, THREAD_TITLE_BYTES, "%s/%u%s%s", comm[0] ? comm : "thread", tid,
		 *pod ? " " : "", pod);
	return true;
}
