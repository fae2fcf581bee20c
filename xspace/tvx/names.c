/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/tvx/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/tvx/tvx.h"

#define SMALL_MAX (1 << 22) /* greater keys are hashed */

/* The last step of a hash: every bit of the input moves the low bits, which choose the slot. */
static uint64_t mix(uint64_t h)
{
	h ^= h >> 32;
	h *= UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static uint64_t hash_bytes(const uint8_t *p, size_t len)
{
	uint64_t h = len, word;

	for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		h = mix(h ^ word);
	}
	word = 0;
	if (len)
		memcpy(&word, p, len);
	return mix(h ^ word);
}

/* ---- texts ---- */

static const uint8_t *text_at(const struct names *t, uint32_t i, size_t *len)
{
	uint64_t begin = i ? t->ends[i - 1] : 0;

	*len = (size_t)(t->ends[i] - begin);
	return t->text.data + begin;
}

/* The slot of this text, or the empty one where it belongs. */
static uint32_t *find_slot(struct names *t, const uint8_t *text, size_t len)
{
	size_t at = (size_t)hash_bytes(text, len) & (t->n_slots - 1), have;

	for (; t->slots[at]; at = (at + 1) & (t->n_slots - 1)) {
		const uint8_t *other = text_at(t, t->slots[at] - 1, &have);

		if (have == len && (!len || !memcmp(other, text, len)))
			break;
	}
	return &t->slots[at];
}

static void grow_names(struct names *t)
{
	size_t len;

	free(t->slots);
	t->n_slots = t->n_slots ? 4 * t->n_slots : 256;
	t->slots = xcalloc(t->n_slots, sizeof(*t->slots));
	for (uint32_t i = 0; i < t->n; i++) {
		const uint8_t *text = text_at(t, i, &len);

		*find_slot(t, text, len) = 1 + i;
	}
}

int names_add(struct names *t, const void *text, size_t len, uint32_t *out, struct err *e)
{
	uint32_t *slot;

	if (2 * (size_t)t->n >= t->n_slots)
		grow_names(t);
	slot = find_slot(t, text, len);
	if (!*slot) {
		if (t->n == TVX_NAMES_MAX || t->text.len + len > TVX_NAME_BYTES_MAX)
			return err_set(e, ERR_LIMIT,
				       "more than %d different names, or %zu MiB of them",
				       TVX_NAMES_MAX, TVX_NAME_BYTES_MAX >> 20);
		if (t->n == t->cap) {
			t->cap = t->cap ? 2 * t->cap : 256;
			t->ends = xrealloc(t->ends, t->cap * sizeof(*t->ends));
		}
		buf_add(&t->text, text, len);
		t->ends[t->n] = t->text.len;
		*slot = ++t->n;
	}
	*out = *slot - 1;
	return 0;
}

void names_release(struct names *t)
{
	buf_release(&t->text);
	free(t->ends);
	free(t->slots);
	*t = (struct names){ 0 };
}

/* ---- numbers ---- */

static struct number_pair *find_pair(const struct number_map *m, int64_t key)
{
	size_t at = (size_t)mix((uint64_t)key) & (m->n_slots - 1);

	while (m->slots[at].used && m->slots[at].key != key)
		at = (at + 1) & (m->n_slots - 1);
	return &m->slots[at];
}

static void grow_map(struct number_map *m)
{
	struct number_map old = *m;

	m->n_slots = m->n_slots ? 4 * m->n_slots : 64;
	m->slots = xcalloc(m->n_slots, sizeof(*m->slots));
	for (size_t i = 0; i < old.n_slots; i++) {
		if (old.slots[i].used)
			*find_pair(m, old.slots[i].key) = old.slots[i];
	}
	free(old.slots);
}

bool number_map_find_large(const struct number_map *m, int64_t key, uint32_t *out)
{
	const struct number_pair *p = m->n_slots ? find_pair(m, key) : NULL;

	if (!p || !p->used)
		return false;
	*out = p->value;
	return true;
}

static void set_small(struct number_map *m, size_t key, uint32_t value)
{
	if (key >= m->n_small) {
		size_t n = 2 * key + 64;

		m->small = xrealloc(m->small, n * sizeof(*m->small));
		memset(m->small + m->n_small, 0, (n - m->n_small) * sizeof(*m->small));
		m->n_small = n;
	}
	m->small[key] = value + 1;
}

void number_map_set(struct number_map *m, int64_t key, uint32_t value)
{
	struct number_pair *p;

	if (key >= 0 && key < SMALL_MAX) {
		set_small(m, (size_t)key, value);
		return;
	}
	if (2 * m->n >= m->n_slots)
		grow_map(m);
	p = find_pair(m, key);
	m->n += !p->used;
	*p = (struct number_pair){ key, value, 1 };
}

void number_map_release(struct number_map *m)
{
	free(m->small);
	free(m->slots);
	*m = (struct number_map){ 0 };
}
