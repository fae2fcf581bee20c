/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/siphash.h"

#define ROUNDS_PER_WORD 2
#define ROUNDS_AT_END	4

struct state {
	uint64_t a, b, c, d;
};

static uint64_t rotated(uint64_t v, int by)
{
	return v << by | v >> (64 - by);
}

static uint64_t little_endian(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static void mix(struct state *s, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		s->a += s->b;
		s->c += s->d;
		s->b = rotated(s->b, 13) ^ s->a;
		s->d = rotated(s->d, 16) ^ s->c;
		s->a = rotated(s->a, 32) + s->d;
		s->c += s->b;
		s->d = rotated(s->d, 21) ^ s->a;
		s->b = rotated(s->b, 17) ^ s->c;
		s->c = rotated(s->c, 32);
	}
}

static void take_word(struct state *s, uint64_t word)
{
	s->d ^= word;
	mix(s, ROUNDS_PER_WORD);
	s->a ^= word;
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t len)
{
	const uint64_t k0 = little_endian(key->bytes, 8), k1 = little_endian(key->bytes + 8, 8);
	const uint8_t *p = data;
	/* The constants spell "somepseudorandomlygeneratedbytes". */
	struct state s = {
		.a = k0 ^ UINT64_C(0x736f6d6570736575),
		.b = k1 ^ UINT64_C(0x646f72616e646f6d),
		.c = k0 ^ UINT64_C(0x6c7967656e657261),
		.d = k1 ^ UINT64_C(0x7465646279746573),
	};
	size_t left = len;

	for (; left >= 8; left -= 8, p += 8)
		take_word(&s, little_endian(p, 8));
	take_word(&s, little_endian(p, left) | (uint64_t)len << 56);
	s.c ^= 0xff;
	mix(&s, ROUNDS_AT_END);
	return s.a ^ s.b ^ s.c ^ s.d;
}
