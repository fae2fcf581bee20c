/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for names: equal texts have one number. Numbers start at 1. */
#ifndef AGENT_SYMBOLS_NAME_POOL_H
#define AGENT_SYMBOLS_NAME_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct name_pool {
	struct buf text; /* the names, each with its NUL */
	size_t *starts; /* of the names in `text`; starts[0] is not used */
	uint32_t *slots;
	size_t n, cap, n_slots;
};

void name_pool_release(struct name_pool *p); /* a zeroed struct is an empty pool */
uint32_t name_pool_add(struct name_pool *p, const char *name);

/* Borrowed until the next add. */
const char *name_pool_get(const struct name_pool *p, uint32_t name);

#endif
