/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/clock/exchange.h"

#include <stddef.h>

/* a packet leaves at most this long after the process handed it over */
#define SENT_MAX_NS    INT64_C(10000000)
#define DEPARTURES_MAX 32 /* a departure is looked up among this many newest probes */

void exchange_begin(struct exchange *x, uint64_t cookie, uint64_t epoch, int64_t tick_ns)
{
	*x = (struct exchange){ .cookie = cookie, .epoch = epoch, .tick_ns = tick_ns };
}

static struct exchange_probe *find_probe(struct exchange *x, uint32_t seq)
{
	struct exchange_probe *p = &x->probes[seq % EXCHANGE_PROBES];

	return p->seq == seq ? p : NULL;
}

struct probe exchange_make_probe(struct exchange *x, int path, uint32_t id, int64_t t1_ns)
{
	uint32_t seq = ++x->seq;

	x->probes[seq % EXCHANGE_PROBES] = (struct exchange_probe){
		.state = EXCHANGE_WAITING,
		.seq = seq,
		.path = path,
		.id = id,
		.t1_user_ns = t1_ns,
	};
	return (struct probe){
		.type = PROBE_REQUEST,
		.cookie = x->cookie,
		.seq = seq,
		.t1_ns = t1_ns,
	};
}

void exchange_set_departure(struct exchange *x, int path, uint32_t id, int64_t t1_ns)
{
	for (uint32_t back = 0; back < DEPARTURES_MAX; back++) {
		struct exchange_probe *p = find_probe(x, x->seq - back);

		if (!p || p->path != path || p->id != id)
			continue;
		p->t1_kernel_ns = t1_ns;
		return;
	}
}

/* The kernel's stamp of a departure is better than the process's own, unless it is impossible. Kernel stamps
 * tend to be too early: one that is earlier than the process's own is no error, but its bound is looser. */
static int64_t better_departure(struct exchange *x, int64_t kernel_ns, int64_t user_ns,
				int64_t end_ns)
{
	if (kernel_ns <= user_ns)
		return user_ns;
	if (kernel_ns - user_ns <= SENT_MAX_NS && kernel_ns <= end_ns)
		return kernel_ns;
	x->bad_stamps++;
	return user_ns;
}

/* A better t3 of an earlier reply makes an update; false if it is not better. */
static bool make_update(struct exchange *x, const struct probe_sent *s, struct clock_sample *out)
{
	struct exchange_probe *p = s->t3_ns ? find_probe(x, s->seq) : NULL;

	if (!p || p->state != EXCHANGE_ANSWERED)
		return false;
	p->state = EXCHANGE_EMPTY;
	*out = p->sample;
	out->t3_ns = better_departure(x, s->t3_ns, p->sample.t3_ns, INT64_MAX);
	out->no_request = out->is_update = true;
	return out->t3_ns != p->sample.t3_ns;
}

int exchange_take_reply(struct exchange *x, const struct probe *p, int64_t t4_ns, bool kernel,
			struct clock_sample out[EXCHANGE_SAMPLES])
{
	struct exchange_probe *asked = find_probe(x, p->seq);
	bool request_by_kernel;
	int n = 0;

	if (p->type != PROBE_REPLY || p->cookie != x->cookie || p->epoch != x->epoch || !asked ||
	    asked->state != EXCHANGE_WAITING || asked->t1_user_ns != p->t1_ns)
		return 0;
	for (int i = 0; i < PROBE_SENT_MAX; i++)
		n += make_update(x, &p->sent[i], &out[n]);
	request_by_kernel = p->flags & PROBE_KERNEL && asked->t1_kernel_ns;
	asked->state = EXCHANGE_ANSWERED;
	asked->sample = (struct clock_sample){
		.t1_ns = better_departure(x, asked->t1_kernel_ns, asked->t1_user_ns, t4_ns) -
			 x->tick_ns,
		.t2_ns = p->t2_ns,
		.t3_ns = p->t3_ns,
		.t4_ns = t4_ns + x->tick_ns,
	};
	x->answered++;
	x->kernel = x->kernel << 1 | (kernel && request_by_kernel);
	out[n++] = asked->sample;
	return n;
}

bool exchange_is_kernel(const struct exchange *x)
{
	int total = x->answered < 64 ? (int)x->answered : 64;

	return total && 2 * __builtin_popcountll(x->kernel) > total;
}
