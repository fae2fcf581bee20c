/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's clock against the aggregator's.
 *
 * Three time scales:
 *   raw      CLOCK_MONOTONIC_RAW of this machine: what tracers and marks stamp with.
 *   session  the aggregator's clock (reads as Unix ns, never stepped): what T0 is given in.
 *   real     CLOCK_REALTIME of this machine: what framework profilers stamp with.
 * The clock probes the aggregator over UDP and keeps a model raw -> session with a bound on its
 * error. A model is a value: take one with clock_model(), hand it to a worker, translate with it.
 *
 * For tests only, an error can be injected: the clock then behaves as if this machine's raw clock
 * were off by offset_ns and ran drift_ppm fast, in the probes and in every translation. A right model
 * makes the error vanish again.
 *
 * Loop thread, except the clock_model_*() functions, which are pure.
 */
#ifndef AGENT_CLOCK_CLOCK_H
#define AGENT_CLOCK_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/clock/ledger.h"
#include "base/err.h"
#include "proto/siphash.h"

struct loop;
struct clock;

struct clock_conf {
	struct loop *loop;
	int64_t test_offset_ns;
	double test_drift_ppm;
};

/* How good a translation is, by its bound: A to 10 us, B to 100 us, C to 1 ms, D worse, X unknown. */
enum clock_grade { CLOCK_X, CLOCK_A, CLOCK_B, CLOCK_C, CLOCK_D };

/* Why the host's clock, or the scale it is compared with, is not what it was before. */
enum clock_break {
	CLOCK_BREAK_NONE, /* the first segment */
	CLOCK_BREAK_STEP, /* the probes contradict each other: found by the estimator */
	CLOCK_BREAK_SUSPEND, /* the machine slept, or was stopped and moved */
	CLOCK_BREAK_SOURCE, /* the kernel took another clocksource */
	CLOCK_BREAKS,
};

/* At host time host_ns the host clock is ahead of the session clock by offset_ns; what is certain
 * is only that this lies in [lo_ns, hi_ns]. */
struct clock_knot {
	int64_t host_ns;
	int64_t offset_ns, lo_ns, hi_ns;
};

/* A stretch without a break: knots in order of time, and how the offset moves between and beyond. */
struct clock_segment {
	enum clock_break cause; /* of its beginning */
	uint16_t first, n; /* its knots; n > 0 */
	double rate; /* change of the offset per ns of host clock, the best guess; */
	double drift; /* between knots it differs from that by at most this, */
	double drift_out; /* beyond them by this, */
	int64_t horizon_ns; /* and further out than this */
	double drift_far; /* by this */
};

#define CLOCK_KNOTS    256
#define CLOCK_SEGMENTS 8

struct clock_model {
	bool calibrated; /* false: raw -> session is this host's own REALTIME, the
					 * injected error included: nothing has removed it */
	int64_t at_raw_ns; /* where offset_ns holds */
	int64_t offset_ns; /* host clock (raw with the injected error) - session, at at_raw_ns */
	double rate; /* change of offset per ns of host clock */
	int64_t bound_ns; /* |error| of a translation at at_raw_ns is at most this */
	double bound_rate; /* growth of the bound per ns away from at_raw_ns */
	int64_t rtt_min_ns;
	int64_t jitter_ns; /* median distance of single probes from the map: precision within
					 * one path, never accuracy */
	uint32_t probes; /* answered probes behind the model */
	uint32_t bad; /* samples that cannot be, or that all others contradict */
	int64_t pair_raw_ns, pair_real_ns; /* raw and real of one instant */
	int64_t wall_error_ns; /* of real against UTC, as its keeper tells the kernel; -1 = not kept */
	struct clock_ledger ledger; /* of others; empty: the pair holds always */
	const char *method; /* whose stamps: "udp-kernel", "udp-user"; "stream" = no UDP; NULL */
	int64_t test_offset_ns, test_start_raw_ns;
	double test_drift_ppm;

	/* The map. Without segments the line through (at_raw_ns, offset_ns) is all there is. */
	uint16_t n_segments, n_knots;
	struct clock_segment segments[CLOCK_SEGMENTS];
	struct clock_knot knots[CLOCK_KNOTS];
};

MUST_CHECK int clock_new(struct clock **out, const struct clock_conf *conf, struct err *e);
void clock_free(struct clock *c); /* NULL is fine */

/* Sends PROBE_BYTES over the control stream: the way to go where UDP gets no answers. What comes back is
 * for clock_take_stream(). */
typedef void (*clock_stream_fn)(void *arg, const uint8_t *packet);

/* Whom to probe; all of Welcome. */
struct clock_peer {
	const char *host;
	int port;
	uint64_t cookie, epoch;
	struct siphash_key key;
	clock_stream_fn stream; /* NULL = there is nothing but UDP */
	void *stream_arg;
};

/* Probe this aggregator from now on. Another epoch than before forgets all history. */
MUST_CHECK int clock_set_peer(struct clock *c, const struct clock_peer *peer, struct err *e);
void clock_unset_peer(struct clock *c); /* the model ages: its bound grows */

/* An answer that came over the control stream, PROBE_BYTES long. */
void clock_take_stream(struct clock *c, const uint8_t *packet);

/* Probe several times a second until then (CLOCK_MONOTONIC), most densely at first: around the window
 * of a capture; not more often than each gap_ns. Several wishes: the latest end counts, and the newest gap. */
void clock_hurry(struct clock *c, int64_t until_mono_ns, int64_t gap_ns);

/*
 * A window ended now: probes once more, soon. Beyond the last probe a bound grows several times as fast as between two.
 * Returns when (CLOCK_MONOTONIC) the answers should be in. Windows end on all hosts at once: each probes at another
 * time of the next tenth of a second.
 */
int64_t clock_end(struct clock *c);

/* Notices now what this machine's clocks did: before an order that speaks of times is taken, as the machine may just
 * have woken up. */
void clock_look(struct clock *c);

/* The model as of now, good around now: for arming. */
struct clock_model clock_model(const struct clock *c);

/* The model whose knots lie around [from, to] of the raw clock: for what happened then. */
struct clock_model clock_model_over(const struct clock *c, int64_t from_raw_ns, int64_t to_raw_ns);

/* Exact but for the rounding of the drift; any input, results saturate. A session time at which this machine slept is
 * the last raw time before it. */
int64_t clock_model_session_of_raw(const struct clock_model *m, int64_t raw_ns);
int64_t clock_model_raw_of_session(const struct clock_model *m, int64_t session_ns);
int64_t clock_model_raw_of_real(const struct clock_model *m, int64_t real_ns);
int64_t clock_model_real_of_raw(const struct clock_model *m, int64_t raw_ns);
int64_t clock_model_bound_at(const struct clock_model *m, int64_t raw_ns);

/* Host clock - session, at this time; saturates too. */
int64_t clock_model_offset_at(const struct clock_model *m, int64_t raw_ns);

/* This host's wall clock (with the injected error) - session, at this time: what people can read. */
int64_t clock_model_wall_offset_at(const struct clock_model *m, int64_t raw_ns);

/* The largest bound of any time in [from, to]. */
int64_t clock_model_bound_over(const struct clock_model *m, int64_t from_raw_ns, int64_t to_raw_ns);

/*
 * How far all session times of [from, to] may be moved by one number, so that each is still possible: that
 * the offset stays in its interval. {0, 0} over a break, where there is no such number, and without a map.
 */
struct clock_room {
	int64_t earlier_ns, later_ns; /* 0 or above */
};
struct clock_room clock_model_room_over(const struct clock_model *m, int64_t from_raw_ns,
					int64_t to_raw_ns);
enum clock_grade clock_grade_of(const struct clock_model *m, int64_t bound_ns);
const char *clock_grade_name(enum clock_grade g); /* "A" .. "X" */
const char *clock_break_name(enum clock_break cause);

/* ---- the estimator, apart from the probing, so that tests can feed it ---- */

/* Who stamped both ends of one direction; where the ends differ, the worse. */
enum clock_stamp { CLOCK_STAMP_USER, CLOCK_STAMP_KERNEL, CLOCK_STAMP_HARDWARE };

/*
 * One exchange, or one direction of it. Each direction proves one thing by itself: the request that
 * the offset is at least t1 - t2, the reply that it is at most t4 - t3. So a direction whose better
 * stamps come later (a transmit stamp of the kernel travels in the next reply) is simply given again,
 * alone, with them: the estimator keeps the tightest. t1 and t3 may be early, never late; t2 and t4
 * may be late, never early. A direction that is left out does not have its two times looked at.
 */
struct clock_sample {
	int64_t t1_ns, t4_ns; /* host clock: request sent, reply received */
	int64_t t2_ns, t3_ns; /* session clock: request received, reply sent */
	bool no_request, no_reply; /* this direction says nothing */
	bool again; /* better stamps of a probe that was given before: not counted once more */
	enum clock_stamp request_stamp, reply_stamp;
};

struct clock_estimator;
struct clock_estimator *clock_estimator_new(void);
void clock_estimator_free(struct clock_estimator *est);

/* Another epoch: nothing known so far is about this session clock. */
void clock_estimator_reset(struct clock_estimator *est);

/* At about host time `at_ns` the host clock broke; what was learnt before holds only for before. */
void clock_estimator_break(struct clock_estimator *est, int64_t at_ns, enum clock_break cause);

/* False for a sample that cannot be (t4 before t1, t3 before t2, negative round trip). Samples
 * may come late, twice and in any order within a few seconds. */
bool clock_estimator_add(struct clock_estimator *est, const struct clock_sample *s);

/*
 * Offset, rate and bound at host time `now_ns`, from all samples, those after it included; false
 * while there is too little, and of a window that begins before a break which is all that is known of
 * that time. Fills offset_ns, rate, bound_ns, bound_rate, rtt_min_ns, jitter_ns,
 * probes, bad of *out, and the map: one with knots around now_ns, or all over [from, to].
 */
bool clock_estimator_get(const struct clock_estimator *est, int64_t now_ns,
			 struct clock_model *out);
bool clock_estimator_map(const struct clock_estimator *est, int64_t now_ns, int64_t from_ns,
			 int64_t to_ns, struct clock_model *out);

#endif
