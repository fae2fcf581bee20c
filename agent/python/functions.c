/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/functions.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

#define SLOTS (2 * PYTHON_FUNCTIONS_MAX)

struct python_functions {
	struct python_function **v; /* by number */
	size_t n, cap;
	uint32_t slots[SLOTS]; /* numbers by hash; 0 = free */
};

static uint32_t hash_text(uint32_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619U;
	return h;
}

static uint32_t append(struct python_functions *fs, const char *name, const char *file,
		       uint32_t first_line)
{
	struct python_function *f = xmalloc(sizeof(*f));

	*f = (struct python_function){ xstrdup(name), xstrdup(file), first_line };
	if (fs->n == fs->cap) {
		fs->cap = fs->cap ? 2 * fs->cap : 256;
		fs->v = xrealloc(fs->v, fs->cap * sizeof(struct python_function *));
	}
	fs->v[fs->n] = f;
	return (uint32_t)fs->n++;
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
	for (size_t i = 0; i < fs->n; i++) {
		free(fs->v[i]->name);
		free(fs->v[i]->file);
		free(fs->v[i]);
	}
	free(fs->v);
	free(fs);
}

uint32_t python_functions_add(struct python_functions *fs, const char *name, const char *file,
			      uint32_t first_line)
{
	uint32_t slot = hash_text(hash_text(2166136261U ^ first_line, name), file) % SLOTS;

	for (; fs->slots[slot]; slot = (slot + 1) % SLOTS) {
		const struct python_function *f = fs->v[fs->slots[slot]];

		if (f->first_line == first_line && !strcmp(f->name, name) && !strcmp(f->file, file))
			return fs->slots[slot];
	}
	if (fs->n == PYTHON_FUNCTIONS_MAX)
		return PYTHON_FUNCTION_MANY;
	return fs->slots[slot] = append(fs, name, file, first_line);
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
