/* SPDX-License-Identifier: Apache-2.0 */
/* How much one address may take of what all addresses take together. Pure. Private to net/. */
#ifndef NET_SHARE_H
#define NET_SHARE_H

#include <stddef.h>
#include <stdint.h>

struct share_rule {
	uint64_t one; /* the most that one address may take */
	uint64_t all; /* the most that all may take together, as far as `least` allows */
	uint64_t least; /* what every address may take, however many there are */
};

/*
 * The most that each address may take now, of which the n addresses take `taken`: rule->one, halved until all would fit
 * into rule->all if those that take more took that much. So only those that take most have to give something back.
 */
uint64_t share_limit(const struct share_rule *rule, const uint64_t *taken, size_t n);

#endif
