/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/u32_map.h"

#include "base/mem.h"

static size_t home_slot(const struct u32_map *m, uint32_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15ULL) >> 32) & (m->n_slots - 1);
}

static size_t find_slot(const struct u32_map *m, uint32_t key)
{
	size_t i = home_slot(m, key);

	while (m->slots[i].value && m->slots[i].key != key)
		i = (i + 1) & (m->n_slots - 1);
	return i;
}

static void grow(struct u32_map *m)
{
	struct u32_map bigger = { .n = m->n, .n_slots = m->n_slots ? 2 * m->n_slots : 64 };

	bigger.slots = xcalloc(bigger.n_slots, sizeof(*bigger.slots));
	for (size_t i = 0; i < m->n_slots; i++)
		if (m->slots[i].value)
			bigger.slots[find_slot(&bigger, m->slots[i].key)] = m->slots[i];
	free(m->slots);
	*m = bigger;
}

void u32_map_release(struct u32_map *m)
{
	free(m->slots);
	*m = (struct u32_map){ 0 };
}

void *u32_map_get(const struct u32_map *m, uint32_t key)
{
	return m->n_slots ? m->slots[find_slot(m, key)].value : NULL;
}

void u32_map_set(struct u32_map *m, uint32_t key, void *value)
{
	size_t i;

	if (2 * (m->n + 1) > m->n_slots)
		grow(m);
	i = find_slot(m, key);
	m->n += !m->slots[i].value;
	m->slots[i] = (struct u32_entry){ .key = key, .value = value };
}

void *u32_map_remove(struct u32_map *m, uint32_t key)
{
	size_t mask = m->n_slots - 1, hole, i;
	void *value;

	if (!m->n_slots)
		return NULL;
	hole = find_slot(m, key);
	value = m->slots[hole].value;
	if (!value)
		return NULL;
	/* Fill the hole with the next entry whose home slot is not behind the hole; that leaves a new hole. */
	for (i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
		size_t from_home = (i - home_slot(m, m->slots[i].key)) & mask;

		if (from_home < ((i - hole) & mask))
			continue;
		m->slots[hole] = m->slots[i];
		hole = i;
	}
	m->slots[hole].value = NULL;
	m->n--;
	return value;
}

void *u32_map_at(const struct u32_map *m, size_t i)
{
	return m->slots[i].value;
}
