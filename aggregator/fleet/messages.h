/* SPDX-License-Identifier: Apache-2.0 */
/* tutti.v1.AggregatorMessage, serialized: each call appends one whole message to an empty buffer. */
#ifndef AGGREGATOR_FLEET_MESSAGES_H
#define AGGREGATOR_FLEET_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "proto/siphash.h"
#include "proto/tutti/v1/control.pb-c.h"

/* Any message; the functions below use it. */
void message_pack(struct buf *out, const Tutti__V1__AggregatorMessage *m);

struct welcome {
	uint64_t epoch, cookie, term;
	int probe_port;
	const struct siphash_key *key;
	uint64_t former[32]; /* epochs that the session clock goes on with */
	size_t n_former;
};

void message_welcome(struct buf *out, const struct welcome *w);
void message_stop(struct buf *out, const char *session, int64_t t1_ns, int64_t gather_by_ns);
void message_cancel(struct buf *out, const char *session);
void message_upload(struct buf *out, const char *session, int64_t deadline_ns, bool at_once,
		    const Tutti__V1__Grant *grant); /* may be NULL */
void message_step_watch(struct buf *out, int64_t for_ns, int64_t gap_ns);
void message_release(struct buf *out, const char *session);
void message_poke(struct buf *out);
void message_probe(struct buf *out, const uint8_t *packet);
void message_answer(struct buf *out, uint64_t id, bool ok, const char *session, const char *detail);

#endif
