/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock service: probes the aggregator over UDP, or over the control stream where UDP gets no
 * replies, and makes models of this host's clock from the replies (agent/clock/model.h).
 *
 * For tests only, an error can be injected: the service then behaves as if this machine's raw clock
 * were off by test_offset_ns and ran test_drift_ppm fast, in the probes and in every translation. A
 * right model removes the error again.
 *
 * Loop thread.
 */
#ifndef AGENT_CLOCK_CLOCK_H
#define AGENT_CLOCK_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "agent/clock/model.h"
#include "base/err.h"
#include "proto/siphash.h"

struct loop;
struct clock;

struct clock_conf {
	struct loop *loop;
	int64_t test_offset_ns;
	double test_drift_ppm; /* 1000 at most, either way */
};

MUST_CHECK int clock_new(struct clock **out, const struct clock_conf *conf, struct err *e);
void clock_free(struct clock *c); /* NULL is fine */

/* Sends PROBE_BYTES over the control stream. The reply goes to clock_take_stream_reply(). */
typedef void (*clock_stream_fn)(void *arg, const uint8_t *packet);

/* The aggregator to probe; all from its Welcome. */
struct clock_peer {
	const char *host;
	int port;
	uint64_t cookie, epoch;
	/* epochs of session clocks that this one goes on with, on another machine */
	const uint64_t *former;
	size_t n_former;
	struct siphash_key key;
	clock_stream_fn stream; /* NULL = UDP only */
	void *stream_arg;
};

/*
 * Probes this aggregator from now on. If its epoch is another one than before, all history is forgotten; but if its clock goes
 * on with the one before, that holds until the first reply, and for the time before it.
 */
MUST_CHECK int clock_set_peer(struct clock *c, const struct clock_peer *peer, struct err *e);

/* Stops probing. Models age from now on: their bounds grow. */
void clock_unset_peer(struct clock *c);

/* A reply that came over the control stream, PROBE_BYTES long. */
void clock_take_stream_reply(struct clock *c, const uint8_t *packet);

/*
 * A capture was armed: probes several times a second until until_mono_ns (CLOCK_MONOTONIC), with at least
 * gap_ns between trains. The first train is longer. After several calls the probing lasts until the latest of
 * their ends, with the gap of the last call.
 */
void clock_probe_densely(struct clock *c, int64_t until_mono_ns, int64_t gap_ns);

/*
 * The same for a window that is over. A measurement from now on says little about such a window, so this
 * probes densely only if the trains of clock_probe_after_window() are not enough: the clock is not calibrated,
 * or the link jitters.
 */
void clock_probe_for_past(struct clock *c, int64_t until_mono_ns, int64_t gap_ns);

/*
 * A window has just ended: probes twice more, because after the last probe a bound grows several times as fast
 * as between two probes. Windows end on all hosts at once, so each host chooses a time within the next 100
 * ms; the second train follows 125 ms later. Returns when (CLOCK_MONOTONIC) its reply should have arrived.
 */
int64_t clock_probe_after_window(struct clock *c);

/* Checks now whether this machine slept, or its clocks were set or changed. To be called before a message
 * with times is handled, since the machine may have just woken up. */
void clock_check_breaks(struct clock *c);

/* The model as of now, with its knots around now: for arming. */
struct clock_model clock_model(const struct clock *c);

/* The model whose knots lie around [from, to] of the raw clock: for what happened then. The caller
 * frees it with clock_model_free(). */
struct clock_model clock_window_model(const struct clock *c, int64_t from_raw_ns,
				      int64_t to_raw_ns);

#endif
