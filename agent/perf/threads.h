/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of this host that ran, and their names. Fed with the kernel's records; completed from /proc for
 * threads older than the agent. Makes no system calls, except where a function says otherwise.
 */
#ifndef AGENT_PERF_THREADS_H
#define AGENT_PERF_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/perf/decode.h"
#include "agent/pods/pod_view.h"

#define COMM_BYTES 16

struct threads;

struct threads *threads_new(void);
void threads_free(struct threads *ts); /* NULL is fine */

/* Applies a COMM, FORK or EXIT, ignores others. */
void threads_apply(struct threads *ts, const struct perf_record *rec);

/* Notes that thread `tid` of `pid` ran at `raw_ns`. */
void threads_note(struct threads *ts, uint32_t pid, uint32_t tid, int64_t raw_ns);

/* Notes that it runs still, if it ran before. */
void threads_note_again(struct threads *ts, uint32_t tid, int64_t raw_ns);

/* Forgets threads that ended before `ended_before_ns`. */
void threads_sweep(struct threads *ts, int64_t ended_before_ns);

/* ---- names that a worker reads from /proc ---- */

struct thread_question {
	uint32_t pid, tid;
	char comm[COMM_BYTES]; /* the answer; "" if there is none */
};

/* The threads that ran at `from_raw_ns` or later, and perhaps others, with their names; "" = not known. The caller frees
 * the array. */
struct thread_question *threads_list(const struct threads *ts, int64_t from_raw_ns, size_t *n);

/* At most `max` open questions; each is asked once. Returns how many; the caller frees `*out`. */
size_t threads_take_questions(struct threads *ts, struct thread_question **out, size_t max);

/* Any thread. Reads the name from /proc if it is not known. */
void thread_question_answer(struct thread_question *q);

/* Copies an answer that still applies. */
void threads_apply_answer(struct threads *ts, const struct thread_question *q);

/* The thread `tid` of those, which are in order of tid; NULL if it is not among them. */
struct thread_question *threads_find(struct thread_question *threads, size_t n, uint32_t tid);

/*
 * "comm/tid", or "thread/tid" without a name: viewers that show only names then distinguish threads of the same name.
 * Behind it stand the pod and the rank of its process: "python/4711 train-0 rank 0". `threads` are in order of tid; reads
 * the name from /proc if it is not known. False if the thread may not be shown, as its pod opted out.
 */
#define THREAD_TITLE_BYTES (COMM_BYTES + 16 + POD_TITLE_BYTES)
bool threads_title(struct thread_question *threads, size_t n, uint32_t tid,
		   const struct pod_view *pods, char out[THREAD_TITLE_BYTES]);
void threads_sort(struct thread_question *threads, size_t n); /* by tid */

#endif
