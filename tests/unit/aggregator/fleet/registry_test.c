/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/hosts_text.h"
#include "aggregator/fleet/registry.h"

#include "base/now.h"
#include "tests/lib/check.h"

static int changes;

static void on_change(void *arg)
{
	changes += *(int *)arg;
}

static void test_sorted_and_found(void)
{
	static const char *const names[] = { "m", "c", "x", "a", "b10", "b9" };
	struct registry *r = registry_new(NULL);
	struct host *const *hosts;
	size_t n, connected;

	for (size_t i = 0; i < 6; i++)
		CHECK(registry_add(r, names[i]) == registry_add(r, names[i]));
	hosts = registry_hosts(r, &n);
	CHECK_EQ(n, 6);
	for (size_t i = 1; i < n; i++)
		CHECK(strcmp(hosts[i - 1]->name, hosts[i]->name) < 0);
	CHECK_STR(registry_find(r, "b10")->name, "b10");
	CHECK(!registry_find(r, "b"));
	CHECK_EQ(registry_count(r, &connected), 6);
	CHECK_EQ(connected, 0);
	registry_remove(r, registry_find(r, "m"));
	CHECK(!registry_find(r, "m"));
	CHECK(registry_find(r, "x"));
	registry_free(r);
}

static void test_cookies(void)
{
	struct registry *r = registry_new(NULL);
	struct host *a = registry_add(r, "a"), *b = registry_add(r, "b");
	uint64_t old;

	host_renew_cookie(a);
	host_renew_cookie(b);
	CHECK(registry_find_by_cookie(r, a->probe_cookie) == a);
	CHECK(registry_find_by_cookie(r, b->probe_cookie) == b);
	CHECK(!registry_find_by_cookie(r, a->probe_cookie ^ ((uint64_t)1 << 40)));
	CHECK(!registry_find_by_cookie(r, 0));
	old = a->probe_cookie;
	host_renew_cookie(a);
	CHECK(!registry_find_by_cookie(r, old));
	old = b->probe_cookie;
	registry_remove(r, b);
	CHECK(!registry_find_by_cookie(r, old));
	registry_free(r);
}

static void test_forgets_the_lost(void)
{
	struct registry *r = registry_new(NULL);
	struct host *a = registry_add(r, "a"), *b = registry_add(r, "b");
	int one = 1, ten = 10;

	registry_watch(r, on_change, &one);
	registry_watch(r, on_change, &ten);
	a->seen_real_ns = b->seen_real_ns = 1000;
	b->control = (struct rpc_call *)r; /* connected: anything but NULL */
	CHECK_EQ(registry_forget_lost(r, 999 + REGISTRY_KEEP_LOST_NS), 0);
	CHECK_EQ(changes, 0);
	CHECK_EQ(registry_forget_lost(r, 1000 + REGISTRY_KEEP_LOST_NS), 1);
	CHECK_EQ(changes, 11);
	CHECK(!registry_find(r, "a"));
	CHECK(registry_find(r, "b"));
	registry_free(r);
}

/* Whatever bytes an agent sent: the document is JSON. */
static void test_json(void)
{
	struct registry *r = registry_new(NULL);
	struct host *h = registry_add(r, "a");
	json_t *o;
	char *text;

	host_set_text(&h->version, "1\xff\"2");
	host_add_label(h, "job", "x");
	host_add_tracer(h, "cpu", "off", "needs CAP_PERFMON", 1);
	h->clock = (struct host_clock){ .calibrated = true, .bound_ns = 7 };
	o = host_json(h);
	text = json_dumps(o, 0);
	CHECK(text);
	CHECK_STR(json_string_value(json_object_get(o, "state")), "lost");
	CHECK_STR(json_string_value(json_object_get(o, "version")), "1?\"2");
	CHECK_STR(json_string_value(json_object_get(json_object_get(o, "labels"), "job")), "x");
	CHECK_EQ(json_integer_value(json_object_get(json_object_get(o, "clock"), "bound_ns")), 7);
	free(text);
	json_decref(o);
	registry_free(r);
}

static int64_t quiet_ns(const struct host *h)
{
	json_t *o = host_json(h);
	int64_t ns = json_integer_value(json_object_get(o, "quiet_ns"));

	json_decref(o);
	return ns;
}

/* Of a link that is up: one that is down has its own word. */
static void test_quiet(void)
{
	struct registry *r = registry_new(NULL);
	struct host *h = registry_add(r, "a");

	h->seen_real_ns = now_real_ns() - 3600 * NS_PER_S;
	CHECK_EQ(quiet_ns(h), 0);
	h->control = (struct rpc_call *)h; /* any */
	CHECK(quiet_ns(h) >= 3600 * NS_PER_S);
	h->seen_real_ns = now_real_ns();
	CHECK_EQ(quiet_ns(h), 0);
	h->control = NULL;
	registry_free(r);
}

int main(void)
{
	test_sorted_and_found();
	test_cookies();
	test_forgets_the_lost();
	test_json();
	test_quiet();
	return 0;
}
