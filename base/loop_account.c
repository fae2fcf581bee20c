/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop_impl.h"

#include <stdlib.h>

#include "base/mem.h"

struct loop_account {
	int64_t cpu_ns;
	struct loop_account *next;
};

int64_t loop_account_cpu_ns(const struct loop_account *a)
{
	return a->cpu_ns;
}

struct loop_account *loop_accounts_add(struct loop_accounts *as)
{
	struct loop_account *a = xcalloc(1, sizeof(*a));

	a->next = as->all;
	as->all = a;
	return a;
}

struct loop_account *loop_accounts_enter(struct loop_accounts *as, struct loop_account *a)
{
	struct loop_account *before = as->entered;

	as->entered = a;
	return before;
}

void loop_accounts_free(struct loop_accounts *as)
{
	while (as->all) {
		struct loop_account *a = as->all;

		as->all = a->next;
		free(a);
	}
}

struct loop_charge loop_charge_begin(struct loop_accounts *as, struct loop_account *a,
				     int64_t cpu_ns)
{
	return (struct loop_charge){ .account = a,
				     .before = loop_accounts_enter(as, a),
				     .began_cpu_ns = cpu_ns };
}

void loop_charge_end(struct loop_accounts *as, const struct loop_charge *c, int64_t cpu_ns)
{
	loop_charge_add(c->account, cpu_ns - c->began_cpu_ns);
	as->entered = c->before;
}

void loop_charge_add(struct loop_account *a, int64_t cpu_ns)
{
	if (a)
		a->cpu_ns += cpu_ns;
}
