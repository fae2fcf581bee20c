/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/registry.h"

#include "tests/lib/check.h"

/* What `selector` finds, as "a b c"; or the error's name. */
static const char *found(struct registry *r, const char *selector)
{
	static char text[256];
	struct host **hosts;
	struct err e = { 0 };
	size_t n = 0;
	int rc = registry_select(r, selector, &hosts, &n, &e);

	if (rc) {
		CHECK(e.msg[0]);
		return err_name(rc);
	}
	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
			 hosts[i]->name);
	free(hosts);
	return text;
}

int main(void)
{
	struct registry *r = registry_new(NULL);
	struct host *h;

	CHECK_STR(found(r, "all"), "not-found");
	h = registry_add(r, "tpu-2");
	host_add_label(h, "job", "train");
	host_add_label(h, "zone", "x");
	h = registry_add(r, "tpu-1");
	host_add_label(h, "job", "train");
	host_add_label(h, "eq", "a=b");
	registry_add(r, "cpu");

	CHECK_STR(found(r, "all"), "cpu tpu-1 tpu-2");
	CHECK_STR(found(r, "tpu-2"), "tpu-2");
	CHECK_STR(found(r, "tpu-2,cpu,tpu-2"), "cpu tpu-2");
	CHECK_STR(found(r, "tpu-2,gpu"), "not-found");
	CHECK_STR(found(r, "job=train"), "tpu-1 tpu-2");
	CHECK_STR(found(r, "job=train,zone=x"), "tpu-2");
	CHECK_STR(found(r, "eq=a=b"), "tpu-1");
	CHECK_STR(found(r, "job=trai"), "not-found");
	CHECK_STR(found(r, "jo=train"), "not-found");
	CHECK_STR(found(r, "job="), "not-found");
	CHECK_STR(found(r, "all,cpu"), "not-found");
	CHECK_STR(found(r, "job=train,cpu"), "invalid");
	CHECK_STR(found(r, "=x"), "invalid");
	CHECK_STR(found(r, ""), "invalid");
	CHECK_STR(found(r, "cpu,"), "invalid");
	CHECK_STR(found(r, ",cpu"), "invalid");
	CHECK_STR(found(r, "a/b"), "invalid");
	CHECK_STR(found(r, "../x"), "invalid");
	registry_free(r);
	return 0;
}
