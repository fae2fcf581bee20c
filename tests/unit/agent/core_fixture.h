/* SPDX-License-Identifier: Apache-2.0 */
/* The rooms below the control link, with fake tracers. */
#ifndef TESTS_CORE_FIXTURE_H
#define TESTS_CORE_FIXTURE_H

#include "agent/capture/capture.h"
#include "base/loop.h"
#include "tests/lib/run_until.h"

struct fixture {
	struct loop *loop;
	struct clock *clock;
	struct marks *marks;
	struct spool *spool;
	struct tracer **tracers;
	struct captures *captures;
	struct conf_part *driver_confs;
	char *dir; /* temporary; removed by fixture_down() */
	char *spool_dir;
	uint64_t file_limit_bytes; /* of captures made from now on; 0 = none */
};

/* The host is "host-a"; the spool takes limit_bytes; `ops` are the tracers, NULL-terminated. */
void fixture_up(struct fixture *f, const struct tracer_ops *const *ops, uint64_t limit_bytes);
void fixture_down(struct fixture *f); /* captures may be NULL: freed before */

/* The captures anew, after captures_free(). */
void fixture_new_captures(struct fixture *f);

/* Turns the loop until done(arg); fails the test after a long while. */
void fixture_until(struct fixture *f, bool (*done)(void *arg), void *arg);

/* Tracers for a test's list. */
extern const struct tracer_ops fake_now_ops; /* "now": gives two events at T0, at once */
extern const struct tracer_ops fake_later_ops; /* "later": a file in real time, after a turn */
extern const struct tracer_ops fake_slow_ops; /* "slow": as "now", but only when it is given up */
extern const struct tracer_ops fake_silent_ops; /* "silent": never done */
extern const struct tracer_ops fake_broken_ops; /* "broken": arm() fails with ERR_DENIED */
extern const struct tracer_ops fake_off_ops; /* "off": RUN_OFF */
extern const struct tracer_ops fake_bad_ops; /* "bad": bytes that are no XSpace, of process 4711 */

extern const struct tracer_ops fake_big_ops; /* "big": 9 MB */
extern const struct tracer_ops fake_many_ops; /* "many": three parts of 30 kB, with an event each */

struct fake_counts {
	int armed, stopped, gathered, cancelled;
	int64_t t0_raw_ns, t1_raw_ns; /* of the last gather() of "now" */
	int64_t level; /* settings of that run */
	bool loud;
};
extern struct fake_counts fake_counts; /* of all fakes together */

#endif
