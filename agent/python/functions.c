/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/functions.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

#define SLOTS (2 * PYTHON_FUNCTIONS_MAX)

struct python_functions {
	struct python_function **v; /* by number; NULL = free */
	size_t n, cap;
	uint32_t *free; /* numbers */
	size_t n_free;
	uint64_t changes;
	uint32_t slots[SLOTS]; /* numbers by hash; 0 = free */
};

static uint32_t hash_text(uint32_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619U;
	return h;
}

/* The slot where the search for this function begins. */
static uint32_t first_slot(const char *name, const char *file, uint32_t first_line)
{
	return hash_text(hash_text(2166136261U ^ first_line, name), file) % SLOTS;
}

static uint32_t new_number(struct python_functions *fs)
{
	if (fs->n_free)
		return fs->free[--fs->n_free];
	if (fs->n == fs->cap) {
		fs->cap = fs->cap ? 2 * fs->cap : 256;
		fs->v = xrealloc(fs->v, fs->cap * sizeof(struct python_function *));
	}
	return (uint32_t)fs->n++;
}

static uint32_t append(struct python_functions *fs, const char *name, const char *file,
		       uint32_t first_line)
{
	struct python_function *f = xmalloc(sizeof(*f));
	uint32_t number = new_number(fs);

	*f = (struct python_function){ xstrdup(name), xstrdup(file), first_line };
	fs->v[number] = f;
	fs->changes++;
	return number;
}

static void function_free(struct python_function *f)
{
	if (!f)
		return;
	free(f->name);
	free(f->file);
	free(f);
}

struct python_functions *python_functions_new(void)
{
	struct python_functions *fs = xcalloc(1, sizeof(*fs));

	append(fs, "", "", 0); /* number 0 is never given */
	append(fs, "[too many functions]", "", 0);
	append(fs, "[outer frames left out]", "", 0);
	return fs;
}

void python_functions_free(struct python_functions *fs)
{
	if (!fs)
		return;
	for (size_t i = 0; i < fs->n; i++)
		function_free(fs->v[i]);
	free(fs->v);
	free(fs->free);
	free(fs);
}

uint32_t python_functions_add(struct python_functions *fs, const char *name, const char *file,
			      uint32_t first_line)
{
	uint32_t slot = first_slot(name, file, first_line);

	for (; fs->slots[slot]; slot = (slot + 1) % SLOTS) {
		const struct python_function *f = fs->v[fs->slots[slot]];

		if (f->first_line == first_line && !strcmp(f->name, name) && !strcmp(f->file, file))
			return fs->slots[slot];
	}
	if (python_functions_used(fs) == PYTHON_FUNCTIONS_MAX)
		return PYTHON_FUNCTION_MANY;
	return fs->slots[slot] = append(fs, name, file, first_line);
}

void python_functions_sweep(struct python_functions *fs, const bool *keep)
{
	memset(fs->slots, 0, sizeof(fs->slots));
	fs->free = xrealloc(fs->free, fs->n * sizeof(*fs->free));
	for (uint32_t i = PYTHON_FUNCTION_CUT + 1; i < fs->n; i++) {
		struct python_function *f = fs->v[i];
		uint32_t slot;

		if (!f)
			continue;
		if (!keep[i]) {
			function_free(f);
			fs->v[i] = NULL;
			fs->free[fs->n_free++] = i;
			continue;
		}
		slot = first_slot(f->name, f->file, f->first_line);
		while (fs->slots[slot])
			slot = (slot + 1) % SLOTS;
		fs->slots[slot] = i;
	}
	fs->changes++;
}

size_t python_functions_used(const struct python_functions *fs)
{
	return fs->n - fs->n_free;
}

uint64_t python_functions_changes(const struct python_functions *fs)
{
	return fs->changes;
}

size_t python_functions_count(const struct python_functions *fs)
{
	return fs->n;
}

const struct python_function *python_functions_get(const struct python_functions *fs, uint32_t n)
{
	assert(n < fs->n);
	return fs->v[n];
}
