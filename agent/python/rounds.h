/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes rounds, several in a row, since each hand-over wakes threads and processes. An order says what to do, a report what came
 * of it: bytes, since another process makes the rounds (sampler.h). Both are of the same program, so structs are sent as
 * they are. One thread at a time.
 */
#ifndef AGENT_PYTHON_ROUNDS_H
#define AGENT_PYTHON_ROUNDS_H

#include <stdatomic.h>

#include "agent/python/targets.h"
#include "base/buf.h"

/* How often processes are looked for; how often there is a round where none is sampled. */
#define PYTHON_SCAN_EVERY_NS (2 * NS_PER_S)

/* Memory of all that take part. */
struct python_board {
	atomic_bool end; /* end these rounds, and report */
	_Atomic uint32_t maker; /* pid of the process that makes rounds; 0 = it has not begun */
	_Atomic uint32_t reading; /* pid of the process whose memory it reads; 0 = none */
	/* of all such processes so far; of the one that reported last */
	_Atomic int64_t cpu_ns;
	_Atomic uint64_t resident_bytes;
};

/* Lists of pids and of struct python_expected follow it. */
struct python_order {
	bool must_scan; /* look for processes first, among those pids */
	bool must_renew, must_forget_functions; /* as the functions in targets.h */
	int32_t hz; /* 0 = no samples */
	int64_t next_mono_ns; /* when the next round is due */
	uint32_t last_serial; /* no process gets this number or a lower one */
	uint32_t n_pids, n_expected;
};

/* A process that another maker of rounds sampled: it keeps its number. */
struct python_expected {
	uint32_t pid, serial;
};

/* Rounds that were not made. */
struct python_stop {
	int64_t from_raw_ns, to_raw_ns;
	uint64_t samples; /* that they would have had; 0 = there was no stop */
};

/* A process that is sampled. */
struct python_sampled {
	uint32_t serial, pid;
	int32_t minor; /* of CPython 3.x */
	uint32_t period_us; /* how often it is sampled, if that is less often than asked for */
	bool has_ended;
	bool is_crowded; /* it has more threads than are sampled */
	char command[96];
};

struct handed_frame {
	uint32_t function, line;
	bool is_entry;
};

struct handed {
	uint32_t serial, tid, period_us;
	char name[16];
	enum python_result result;
	int64_t raw_ns;
	size_t first, n; /* its frames in the report; only with PYTHON_RESULT_NEW */
	bool is_cut;
};

/* A function that no report had before; name and file follow it. */
struct handed_function {
	uint32_t first_line, name_len, file_len;
};

/* Processes, samples, frames and functions follow it. */
struct python_report {
	int64_t next_mono_ns;
	int64_t cpu_ns; /* that all this took */
	struct python_stop stop;
	uint64_t left_out; /* samples of threads beyond the limits */
	struct python_unread unread;
	bool has_scanned;
	bool is_anew; /* functions have numbers as if this was the first report */
	size_t n_sampled, n_samples, n_frames, n_functions;
};

struct file_keeper;
struct python_rounds;

/* `keeper` as in targets.h; the board outlives it. */
struct python_rounds *python_rounds_new(const struct file_keeper *keeper,
					struct python_board *board);
void python_rounds_free(struct python_rounds *r); /* NULL is fine */

/* Any thread: python_targets_stop(). */
void python_rounds_stop(struct python_rounds *r);

/* Does what an order of `len` bytes says, and adds the report to `out`. */
void python_rounds_make(struct python_rounds *r, const void *order, size_t len, struct buf *out);

#endif
