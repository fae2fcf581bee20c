/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that a host opened before its certificate was revoked. The test says what the certificate is worth. */
#include "tests/unit/aggregator/fleet.h"

static bool is_revoked;

int __wrap_rpc_check_identity(struct rpc_call *call, struct err *e);
int __wrap_rpc_check_identity(struct rpc_call *call, struct err *e)
{
	(void)call;
	return is_revoked ? err_set(e, ERR_DENIED, "the host 'a' is revoked") : 0;
}

static void test_link(void)
{
	struct fleet f;
	struct fake a = { 0 };

	fleet_start(&f, 0, 0);
	fake_dial(&a, &f, "a", 1);
	run_for(f.loop, NS_PER_S); /* it is open */
	is_revoked = true;
	fake_hello(&a, NULL, NULL);
	WAIT(&f, !a.call);
	CHECK_EQ(a.code, RPC_UNAUTHENTICATED);
	CHECK_STR(a.text, "the host 'a' is revoked");
	CHECK(!registry_find(f.agg.registry, "a"));
	is_revoked = false;
	fleet_stop(&f);
}

static void test_upload(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	is_revoked = true;
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_UNAUTHENTICATED);
	is_revoked = false;
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	fleet_stop(&f);
}

int main(void)
{
	test_link();
	test_upload();
	return 0;
}
