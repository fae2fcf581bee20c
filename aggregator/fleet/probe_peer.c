/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/probe_peer.h"

#include "base/now.h"
#include "base/random.h"

#define WINDOW 64

void probe_peer_reset(struct probe_peer *p)
{
	*p = (struct probe_peer){ 0 };
	random_bytes(&p->key, sizeof(p->key));
}

bool probe_peer_accept_seq(struct probe_peer *p, uint32_t seq)
{
	uint32_t back;

	if (!seq)
		return false;
	if (seq > p->newest_seq) {
		uint32_t ahead = seq - p->newest_seq;

		p->answered = ahead < WINDOW ? p->answered << ahead : 0;
		p->answered |= 1;
		p->newest_seq = seq;
		return true;
	}
	back = p->newest_seq - seq;
	if (back >= WINDOW || p->answered >> back & 1)
		return false;
	p->answered |= UINT64_C(1) << back;
	return true;
}

bool probe_peer_note_departure(struct probe_peer *p, uint32_t seq, int64_t t3_user_ns,
			       int64_t t3_ns)
{
	if (t3_ns - t3_user_ns > PROBE_SENT_MAX_NS)
		return false;
	if (t3_ns < t3_user_ns)
		return true;
	if (p->n == PROBE_PEER_SENT) {
		p->first = (p->first + 1) % PROBE_PEER_SENT;
		p->n--;
	}
	p->sent[(p->first + p->n++) % PROBE_PEER_SENT] = (struct probe_sent){ seq, t3_ns };
	return true;
}

void probe_peer_fill_reply(struct probe_peer *p, struct probe *reply)
{
	for (size_t i = 0; i < PROBE_SENT_MAX; i++) {
		reply->sent[i] = (struct probe_sent){ 0 };
		if (!p->n)
			continue;
		reply->sent[i] = p->sent[p->first];
		p->first = (p->first + 1) % PROBE_PEER_SENT;
		p->n--;
	}
}
