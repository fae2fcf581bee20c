/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Python processes of this host, and rounds that sample all their threads once. For workers, one at a
 * time; the owner may read the results between two calls.
 */
#ifndef AGENT_PYTHON_TARGETS_H
#define AGENT_PYTHON_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/proc/u32_map.h"
#include "agent/python/codes.h"
#include "agent/python/functions.h"
#include "agent/python/interpreter.h"
#include "agent/python/turns.h"
#include "agent/python/walk.h"

#define PYTHON_TARGETS_MAX  512 /* processes that are sampled */
#define PYTHON_PER_USER_MAX 384 /* of one user */
#define PYTHON_THREADS_MAX  4096 /* of one process: those that began last */

enum python_result {
	PYTHON_RESULT_NONE, /* no sample in this round */
	PYTHON_RESULT_SAME, /* the frames are those of the round before */
	PYTHON_RESULT_NEW,
	PYTHON_RESULT_TORN,
};

struct python_thread {
	uint64_t state; /* address of its state in the process */
	uint32_t id; /* as its process knows it */
	uint32_t tid; /* as the host knows it */
	char name[16];

	/* Of the last round. */
	enum python_result result;
	int64_t raw_ns;
	struct python_frame *frames; /* innermost first; NULL: none was copied yet */
	size_t n_frames;
	bool is_cut; /* outermost frames are left out */

	struct python_hint hint;
	uint64_t round; /* the last round of its process that found it */
};

struct python_target {
	uint32_t pid, uid;
	uint32_t serial; /* never used twice */
	char command[96];
	struct python_memory memory;
	struct python_interpreter interpreter;
	struct python_codes *codes;
	struct u32_map threads; /* by address of their state */
	bool is_nested; /* in a PID namespace of its own: ids of threads differ */
	bool has_ended;
	uint64_t first_interpreter; /* address, as the round before found it */
	bool is_checked; /* the ids of its threads are checked in /proc */
	struct python_turn turn;
	uint64_t rounds; /* in which it was sampled */
	bool is_sampled; /* in the last round */
	/* in the last round: it has more threads than are sampled; threads without a sample, not even a torn one */
	bool is_crowded;
	uint64_t left_out;
	uint32_t next_rounds; /* in how many rounds it is sampled again; 0 = it never was */
	uint32_t every_rounds; /* how often it is sampled, by what its samples cost */
};

struct python_targets;

/* New functions are added to `functions`, which is borrowed; `keeper` is for python_files_new(). */
struct python_targets *python_targets_new(struct python_functions *functions,
					  const struct file_keeper *keeper);
void python_targets_free(struct python_targets *ts); /* NULL is fine */

/* Any thread. A scan that waits for a file ends soon, and no file is read any more. */
void python_targets_stop(struct python_targets *ts);

/* From now on *pid says which process's memory is read; in the mean it is left as it is. */
void python_targets_show(struct python_targets *ts, _Atomic uint32_t *pid);

/* A process that is known to run Python: it is looked at in the next scan, and gets this number. */
void python_targets_expect(struct python_targets *ts, uint32_t pid, uint32_t serial);

/* Looks among n processes, an array of uint32_t, for those that began; forgets all that are not among them, and those that ended. New ones
 * get numbers above last_serial. `between` is called after each of the n, and may sample. */
void python_targets_scan(struct python_targets *ts, const void *pids, size_t n,
			 uint32_t last_serial, void (*between)(void *arg), void *arg);

/* A round, of so much CPU time in the mean: samples each thread once, of all processes whose turn it is. */
void python_targets_sample(struct python_targets *ts, int64_t budget_ns);

/* Forgets what the threads' last frames were: their next samples are not PYTHON_RESULT_SAME. */
void python_targets_renew(struct python_targets *ts);

/* The same, and which function each code object is: functions are added to these from now on. */
void python_targets_forget_functions(struct python_targets *ts, struct python_functions *functions);

size_t python_targets_count(const struct python_targets *ts);
struct python_target *python_targets_get(const struct python_targets *ts, size_t i);

/* The processes that run Python but cannot be read, as the last scan found them. */
struct python_unread {
	/* unsupported: or the file system of their files does not answer; left_out: there are too many */
	size_t denied, unsupported, left_out;
	bool is_own_only; /* no process of another user could be read, whatever it runs */
	char denied_why[200], unsupported_why[200]; /* of one of them */
};
const struct python_unread *python_targets_unread(const struct python_targets *ts);

/* For tests: adds a process whose memory is `memory`; its threads' ids are taken as they are. */
struct python_target *python_targets_add(struct python_targets *ts, uint32_t pid,
					 const struct python_memory *memory,
					 const struct python_interpreter *interpreter);

#endif
