/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/perf_map.h"

#include <ctype.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"

#define NAMES_BYTES_MAX (64U << 20) /* where names are 32 bits */
#define NAME_BYTES_MAX	512

/* How many entries that start earlier are compared: code is often replaced, but rarely nested. */
#define LOOK_BACK 16

void perf_map_release(struct perf_map *pm)
{
	free(pm->v);
	buf_release(&pm->names);
	*pm = (struct perf_map){ 0 };
}

size_t perf_map_bytes(const struct perf_map *pm)
{
	return pm->names.cap + pm->cap * sizeof(*pm->v);
}

static void add_symbol(struct perf_map *pm, uint64_t start, uint64_t size, const char *name)
{
	if (pm->n == pm->cap) {
		pm->cap = pm->cap ? 2 * pm->cap : 256;
		pm->v = xrealloc(pm->v, pm->cap * sizeof(*pm->v));
	}
	pm->v[pm->n++] = (struct jit_symbol){ .start = start,
					      .size = size < UINT32_MAX ? (uint32_t)size
									: UINT32_MAX,
					      .name = (uint32_t)pm->names.len };
	buf_add(&pm->names, name, strlen(name) + 1);
	pm->sorted = false;
}

/* Parses a hexadecimal number and the blanks after it; NULL if there is none. */
static const char *parse_hex(const char *p, const char *end, uint64_t *out)
{
	const char *digits;

	if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x')
		p += 2;
	*out = 0;
	for (digits = p; p < end && isxdigit((unsigned char)*p); p++)
		*out = *out << 4 | (uint64_t)(*p <= '9' ? *p - '0' : (*p | 0x20) - 'a' + 10);
	if (p == digits || p - digits > 16 || p == end || *p != ' ')
		return NULL;
	while (p < end && *p == ' ')
		p++;
	return p;
}

static bool is_full(const struct perf_map *pm, size_t max_bytes)
{
	return pm->names.len > NAMES_BYTES_MAX || perf_map_bytes(pm) > max_bytes;
}

static void parse_line(struct perf_map *pm, const char *line, const char *end)
{
	char name[NAME_BYTES_MAX];
	uint64_t start, size;
	const char *p = parse_hex(line, end, &start);

	if (p)
		p = parse_hex(p, end, &size);
	if (p && clean_text(name, sizeof(name), p, (size_t)(end - p)))
		add_symbol(pm, start, size, name);
}

size_t perf_map_parse(struct perf_map *pm, const char *text, size_t len, size_t max_bytes)
{
	const char *at = text, *stop = text + len, *end;

	while (at < stop && (end = memchr(at, '\n', (size_t)(stop - at)))) {
		if (!is_full(pm, max_bytes))
			parse_line(pm, at, end);
		at = end + 1;
	}
	pm->parsed += (uint64_t)(at - text);
	return (size_t)(at - text);
}

static int by_start(const void *a, const void *b)
{
	const struct jit_symbol *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

const char *perf_map_find(struct perf_map *pm, uint64_t address)
{
	const struct jit_symbol *best = NULL;
	size_t low = 0, high = pm->n;

	if (!pm->sorted && pm->n)
		sort_array(pm->v, pm->n, sizeof(*pm->v), by_start);
	pm->sorted = true;
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (pm->v[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = low; i > 0 && low - i < LOOK_BACK; i--) {
		const struct jit_symbol *s = &pm->v[i - 1];

		if (address - s->start < s->size && (!best || s->name > best->name))
			best = s;
	}
	return best ? (const char *)pm->names.data + best->name : NULL;
}
