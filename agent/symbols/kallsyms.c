/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/kallsyms.h"

#include <string.h>

#include "base/mem.h"

static int by_address(const void *a, const void *b)
{
	const struct kernel_symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

/* "ffffffff81000000 T _text" or, for modules, "... t nf_hook\t[nf_tables]". */
static void parse_line(struct kallsyms *ks, const char *line, size_t *cap)
{
	char *end;
	uint64_t address = strtoull(line, &end, 16);
	size_t len;

	if (!address || end[0] != ' ' || !end[1] || !strchr("tTwW", end[1]) || end[2] != ' ')
		return;
	len = strcspn(end + 3, "\t\n ");
	if (!len || ks->names.len > UINT32_MAX - 1024)
		return;
	if (ks->n == *cap) {
		*cap = *cap ? 2 * *cap : 4096;
		ks->v = xrealloc(ks->v, *cap * sizeof(*ks->v));
	}
	ks->v[ks->n++] = (struct kernel_symbol){ .address = address,
						 .name = (uint32_t)ks->names.len };
	buf_add(&ks->names, end + 3, len);
	buf_add_u8(&ks->names, 0);
}

void kallsyms_parse(struct kallsyms *out, const char *text)
{
	size_t cap = 0;

	*out = (struct kallsyms){ 0 };
	while (*text) {
		size_t len = strcspn(text, "\n");

		parse_line(out, text, &cap);
		text += len + (text[len] == '\n');
	}
	if (out->n)
		sort_array(out->v, out->n, sizeof(*out->v), by_address);
}

void kallsyms_release(struct kallsyms *ks)
{
	free(ks->v);
	buf_release(&ks->names);
	*ks = (struct kallsyms){ 0 };
}

const char *kallsyms_find(const struct kallsyms *ks, uint64_t address)
{
	size_t low = 0, high = ks->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (ks->v[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? (const char *)ks->names.data + ks->v[low - 1].name : NULL;
}
