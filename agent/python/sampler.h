/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who makes the rounds (rounds.h): a process of its own, a helper of file_keeper.h, since to read the memory of another program
 * may never end. What that has mapped from a file is read from there, its file system's server may not answer, and the
 * kernel then keeps who waits, killed or not. A maker that hangs is given up, and another one samples the other
 * processes (hung.h). It hangs if it sleeps in one and the same wait for SAMPLER_HANG_LOOKS looks: one that only gets no
 * CPU does not. That costs one exchange for the rounds of a quarter of a second.
 *
 * One worker at a time, except where a function says otherwise.
 */
#ifndef AGENT_PYTHON_SAMPLER_H
#define AGENT_PYTHON_SAMPLER_H

#include "agent/python/rounds.h"

#define SAMPLER_LOOK_MS	   100
#define SAMPLER_HANG_LOOKS 7

struct file_keeper;
struct pod_view;
struct python_sampler;

/* What file_keeper_start() needs for it. */
struct file_helper;
extern const struct file_helper python_helper;

/* CPU time of such processes so far, and resident memory of the one that reported last. */
struct python_usage {
	int64_t cpu_ns;
	uint64_t resident_bytes;
};
struct python_usage python_helper_usage(const struct file_keeper *keeper);

/* Functions are added to `functions`, which is borrowed. `keeper` was started with python_helper; NULL: the worker makes the rounds, and
 * may hang. */
struct python_sampler *python_sampler_new(struct python_functions *functions,
					  const struct file_keeper *keeper);
void python_sampler_free(struct python_sampler *s); /* NULL is fine */

/* Any thread: rounds that are made end soon. After python_sampler_stop() none are made any more. */
void python_sampler_end_rounds(struct python_sampler *s);
void python_sampler_stop(struct python_sampler *s);

/* The other threads do not end the next rounds yet. */
void python_sampler_begin(struct python_sampler *s);

/* What the last rounds brought. Functions are those of `functions`. */
struct python_brought {
	struct python_report head;
	struct python_sampled *sampled;
	struct handed *samples;
	struct handed_frame *frames;
	/* No rounds were made, or they are lost, as `head.stop` says: they are to be made at once, with a scan. */
	bool is_lost;
};

/* Makes rounds; of `o`, `last_serial` and the numbers of what follows are not read. A scan leaves out the processes whose pod opted out: no byte
 * of these is read. `pods` may be NULL. */
const struct python_brought *python_sampler_run(struct python_sampler *s,
						const struct python_order *o,
						const struct pod_view *pods);

#endif
