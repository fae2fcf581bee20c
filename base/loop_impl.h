/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by loop.c, loop_account.c and loop_turns.c only. Loop thread. */
#ifndef BASE_LOOP_IMPL_H
#define BASE_LOOP_IMPL_H

#include "base/loop.h"

/* One turn. Times are of the thread's CPU clock. */
struct loop_turn {
	int64_t began_cpu_ns, last_cpu_ns; /* the last callback returned then */
	int64_t last_mono_ns; /* the same instant */
	int64_t longest_ns; /* of its callbacks */
	uintptr_t longest; /* that callback */
	uintptr_t named; /* by loop_turn_name(); 0 = none */
	unsigned int n; /* callbacks */
};
void loop_turn_begin(struct loop_turn *t);
void loop_turn_add(struct loop_turn *t, uintptr_t fn); /* fn has returned */
void loop_turn_end(struct loop_turn *t, struct loop_turns *turns, int64_t wall_ns);

struct loop_accounts {
	struct loop_account *entered; /* NULL = none */
	struct loop_account *all;
};

struct loop_account *loop_accounts_add(struct loop_accounts *as);
struct loop_account *loop_accounts_enter(struct loop_accounts *as, struct loop_account *a);
void loop_accounts_free(struct loop_accounts *as);

/* Charges one function: loop_charge_begin() before it, loop_charge_end() after it, each with the CPU time of the
 * thread. `a` is its account; NULL = none. */
struct loop_charge {
	struct loop_account *account, *before;
	int64_t began_cpu_ns;
};
struct loop_charge loop_charge_begin(struct loop_accounts *as, struct loop_account *a,
				     int64_t cpu_ns);
void loop_charge_end(struct loop_accounts *as, const struct loop_charge *c, int64_t cpu_ns);

/* Adds the CPU time that a worker used to the account; NULL is fine. */
void loop_charge_add(struct loop_account *a, int64_t cpu_ns);

#endif
