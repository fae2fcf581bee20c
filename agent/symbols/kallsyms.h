/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's functions, from the text of /proc/kallsyms. */
#ifndef AGENT_SYMBOLS_KALLSYMS_H
#define AGENT_SYMBOLS_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct kallsyms {
	struct kernel_symbol {
		uint64_t address;
		uint32_t name; /* offset into `names` */
	} * v;
	size_t n;
	struct buf names;
};

/* Functions only. Empty if the kernel hides its addresses (all zero). */
void kallsyms_parse(struct kallsyms *out, const char *text);
void kallsyms_release(struct kallsyms *ks);

/* The function at or before the address, or NULL. */
const char *kallsyms_find(const struct kallsyms *ks, uint64_t address);

#endif
