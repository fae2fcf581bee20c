/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that has not heard that its file is stored, and reports none: it is told, once. */
#include "tests/unit/aggregator/fleet.h"

static void test_reply_lost(bool hears)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;
	int uploads;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	CHECK_EQ(fake_upload(&a, 1, 100, FLAW_NONE), RPC_OK);
	WAIT(&f, a.uploads);
	uploads = a.uploads;
	fake_result(&a, false, "upload", "the link broke");
	WAIT(&f, a.uploads > uploads);
	if (hears) {
		CHECK_EQ(fake_upload(&a, 1, 100, FLAW_NONE), RPC_OK);
		fake_result(&a, true, "", "");
	} else {
		fake_result(&a, false, "upload", "the link broke");
	}
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK_EQ(fleet_result(c, 0).n_files, 1);
	CHECK(fleet_host_is(c, 0, hears ? "complete" : "partial"));
	CHECK_STR(fleet_result(c, 0).reason, hears ? "" : "timeout");
	fleet_stop(&f);
}

int main(void)
{
	test_reply_lost(true);
	test_reply_lost(false);
	return 0;
}
