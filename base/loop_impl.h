/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by loop.c and loop_account.c only. Loop thread. */
#ifndef BASE_LOOP_IMPL_H
#define BASE_LOOP_IMPL_H

#include "base/loop.h"

struct loop_accounts {
	struct loop_account *entered; /* NULL = none */
	struct loop_account *all;
};

struct loop_account *loop_accounts_add(struct loop_accounts *as);
struct loop_account *loop_accounts_enter(struct loop_accounts *as, struct loop_account *a);
void loop_accounts_free(struct loop_accounts *as);

/* Measures one function: loop_charge_begin() before it, loop_charge_end() after it. `a` is its account;
 * NULL = none. */
struct loop_charge {
	struct loop_account *account, *before;
	int64_t began_cpu_ns;
};
struct loop_charge loop_charge_begin(struct loop_accounts *as, struct loop_account *a);
void loop_charge_end(struct loop_accounts *as, const struct loop_charge *c);

/* Adds the CPU time that a worker used to the account; NULL is fine. */
void loop_charge_add(struct loop_account *a, int64_t cpu_ns);

#endif
