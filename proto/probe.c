/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/probe.h"

#include <string.h>

#include "base/reader.h"

#define MAC_BYTES  8
#define MAC_OFFSET (PROBE_BYTES - MAC_BYTES)

static uint8_t *put_be(uint8_t *p, uint64_t v, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
	return p + bytes;
}

void probe_encode(const struct probe *p, const struct siphash_key *key, uint8_t out[PROBE_BYTES])
{
	uint8_t *at = out;

	memset(out, 0, PROBE_BYTES);
	at = put_be(at, PROBE_MAGIC, 4);
	at = put_be(at, PROBE_VERSION, 1);
	at = put_be(at, p->type, 1);
	at = put_be(at, p->train, 1);
	at = put_be(at, p->index, 1);
	at = put_be(at, p->cookie, 8);
	at = put_be(at, p->epoch, 8);
	at = put_be(at, p->seq, 4);
	at = put_be(at, p->flags, 4);
	at = put_be(at, (uint64_t)p->t1_ns, 8);
	at = put_be(at, (uint64_t)p->t2_ns, 8);
	at = put_be(at, (uint64_t)p->t3_ns, 8);
	for (size_t i = 0; i < PROBE_SENT_MAX; i++) {
		at = put_be(at, p->sent[i].seq, 4);
		at = put_be(at, (uint64_t)p->sent[i].t3_ns, 8);
	}
	put_be(out + MAC_OFFSET, siphash(key, out, MAC_OFFSET), MAC_BYTES);
}

static uint64_t get(struct reader *r, size_t bytes)
{
	uint64_t v = 0;

	/* The caller has checked the length. */
	(void)!reader_be(r, bytes, &v);
	return v;
}

bool probe_decode(struct probe *out, const void *data, size_t len)
{
	struct reader r = reader_of(data, len);

	if (len != PROBE_BYTES || get(&r, 4) != PROBE_MAGIC || get(&r, 1) != PROBE_VERSION)
		return false;
	out->type = (enum probe_type)get(&r, 1);
	out->train = (uint8_t)get(&r, 1);
	out->index = (uint8_t)get(&r, 1);
	out->cookie = get(&r, 8);
	out->epoch = get(&r, 8);
	out->seq = (uint32_t)get(&r, 4);
	out->flags = (uint32_t)get(&r, 4);
	out->t1_ns = (int64_t)get(&r, 8);
	out->t2_ns = (int64_t)get(&r, 8);
	out->t3_ns = (int64_t)get(&r, 8);
	for (size_t i = 0; i < PROBE_SENT_MAX; i++) {
		out->sent[i].seq = (uint32_t)get(&r, 4);
		out->sent[i].t3_ns = (int64_t)get(&r, 8);
	}
	return (out->type == PROBE_REQUEST || out->type == PROBE_REPLY) && out->index < out->train;
}

bool probe_is_signed(const void *data, const struct siphash_key *key)
{
	struct reader r = reader_of((const uint8_t *)data + MAC_OFFSET, MAC_BYTES);

	/* Compares whole words at once: the time does not show where they differ. */
	return get(&r, MAC_BYTES) == siphash(key, data, MAC_OFFSET);
}
