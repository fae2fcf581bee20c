/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/hosts_text.h"
#include "aggregator/fleet/registry.h"

#include "base/mem.h"
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

/* In ascending order, with names that are not there; each search goes on from the last one. */
static void test_found_in_order(void)
{
	static const char *const asked[] = { "a", "b0", "b4", "b5", "b5", "bx", "c", "d" };
	struct registry *r = registry_new(NULL);
	size_t at = 0;
	char name[16];

	registry_add(r, "a");
	registry_add(r, "c");
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "b%d", i);
		registry_add(r, name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		struct host *h = registry_find_next(r, &at, asked[i]);

		if (i == 4) /* asked for again: it is behind */
			CHECK(!h);
		else
			CHECK(h == registry_find(r, asked[i]));
	}
	registry_free(r);
}

static struct settings_list *list_of(int64_t max)
{
	struct settings_list *l = settings_list_new();

	settings_list_add(l, "cpu",
			  &(struct setting){ "max_depth", SETTING_INT, 1, max, 64, "frames" });
	settings_list_add(l, "marks", &(struct setting){ "all", SETTING_BOOL, 0, 1, 1, "of all" });
	return l;
}

/* What 10,000 hosts list is kept once, and lives as long as one of them has it. */
static void test_settings_are_shared(void)
{
	struct registry *r = registry_new(NULL);
	struct host *a = registry_add(r, "a"), *b = registry_add(r, "b"), *c = registry_add(r, "c");

	host_set_settings(a, list_of(100));
	host_set_settings(b, list_of(200));
	host_set_settings(c, list_of(100));
	CHECK(a->settings == c->settings && a->settings != b->settings);
	CHECK_EQ(a->settings->refs, 2);
	CHECK_EQ(settings_list_find(b->settings, "cpu.max_depth")->max, 200);
	CHECK(!settings_list_find(b->settings, "cpu.all") && !settings_list_find(NULL, "cpu.all"));
	host_set_settings(a, a->settings->n == 2 ? list_of(200) : NULL);
	CHECK(a->settings == b->settings);
	registry_remove(r, b);
	host_set_settings(c, NULL);
	CHECK_EQ(a->settings->refs, 1);
	CHECK(TAILQ_FIRST(registry_settings(r)) == a->settings && !TAILQ_NEXT(a->settings, entry));
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
	const struct host_job job = {
		(char *)"python train.py", (char *)"jax", (char *)"127.0.0.1:9",
		(char *)"ready",	   4711,	  9
	};
	struct registry *r = registry_new(NULL);
	struct host *h = registry_add(r, "a");
	json_t *o, *jobs;
	char *text;

	host_set_text(h, &h->version, "1\xff\"2");
	host_add_label(h, "job", "x");
	host_add_job(h, &job);
	host_clear_jobs(h);
	host_add_job(h, &job);
	host_add_tracer(h, &(struct host_tracer){ .name = (char *)"cpu",
						  .state = (char *)"off",
						  .reason = (char *)"needs CAP_PERFMON",
						  .errno_value = 1 });
	h->clock = (struct host_clock){ .calibrated = true, .bound_ns = 7 };
	o = host_json(h);
	text = json_dumps(o, 0);
	CHECK(text);
	CHECK_STR(json_string_value(json_object_get(o, "state")), "lost");
	CHECK_STR(json_string_value(json_object_get(o, "version")), "1?\"2");
	CHECK_STR(json_string_value(json_object_get(json_object_get(o, "labels"), "job")), "x");
	CHECK_EQ(json_integer_value(json_object_get(json_object_get(o, "clock"), "bound_ns")), 7);
	jobs = json_object_get(o, "jobs");
	CHECK_EQ(json_array_size(jobs), 1);
	CHECK_STR(json_string_value(json_object_get(json_array_get(jobs, 0), "command")),
		  "python train.py");
	CHECK_EQ(json_integer_value(json_object_get(json_array_get(jobs, 0), "pid")), 4711);
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

static struct host *add_from(struct registry *r, const char *name, const char *address,
			     bool connected)
{
	static int link;
	struct host *h = registry_add(r, name);

	host_set_address(h, address);
	h->control = connected ? (struct rpc_call *)&link : NULL;
	h->seen_real_ns = 100 * NS_PER_S;
	return h;
}

/* Trust: invented names of one address, connected or not, cannot lock out a host with another. */
static void test_invented_names(bool connected)
{
	struct registry *r = registry_new(NULL);
	const int64_t now_ns = 101 * NS_PER_S; /* a name that is lost for a second may come back */
	struct host *h;
	char name[24];

	add_from(r, "real-1", "ipv4:10.0.0.7:1000", true)->clock.calibrated = true;
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "invented-%d", i);
		add_from(r, name, i % 2 ? "ipv4:10.0.0.66:1" : "ipv4:10.0.0.66:22222", connected);
	}
	/* The attacker's next name has no place, a real one's has. */
	CHECK(!registry_find_replaceable(r, "ipv4:10.0.0.66:3", now_ns));
	for (int i = 2; i < 100; i++) {
		h = registry_find_replaceable(r, "ipv4:10.0.0.8:1", now_ns);
		CHECK(h && !strncmp(h->name, "invented-", 9));
		registry_remove(r, h);
		snprintf(name, sizeof(name), "real-%d", i);
		h = add_from(r, name, "ipv4:10.0.0.8:1", true);
		host_set_address(h, "ipv4:10.0.0.8:2"); /* a reconnection from another port */
	}
	CHECK(registry_find(r, "real-1"));
	/* Of those with a place, the least used goes first. */
	add_from(r, "used", "ipv4:10.0.0.66:9", true)->clock.calibrated = true;
	h = registry_find_replaceable(r, "ipv4:10.0.0.8:1", now_ns);
	CHECK(h && !h->clock.calibrated);
	registry_free(r);
}

/* Who is lost for longest goes first, whatever its address. */
static void test_lost_names_first(void)
{
	struct registry *r = registry_new(NULL);
	struct host *lost;

	add_from(r, "a", "ipv4:10.0.0.1:1", true);
	add_from(r, "b", "ipv4:10.0.0.1:2", true);
	add_from(r, "c", "ipv4:10.0.0.1:3", true);
	add_from(r, "d", "ipv4:10.0.0.2:1", false);
	lost = add_from(r, "e", "ipv4:10.0.0.3:1", false);
	lost->seen_real_ns -= NS_PER_S;
	CHECK(registry_find_replaceable(r, "ipv4:10.0.0.9:1", 200 * NS_PER_S) == lost);
	registry_remove(r, lost);
	CHECK_STR(registry_find_replaceable(r, "ipv4:10.0.0.9:1", 200 * NS_PER_S)->name, "d");
	CHECK_STR(registry_find_replaceable(r, "ipv4:10.0.0.9:1", 101 * NS_PER_S)->name, "a");
	registry_free(r);
}

/* Trust: an address has its share of names, which new ones of its own replace; hosts in use keep theirs. */
static void test_share_of_an_address(void)
{
	struct registry *r = registry_new(NULL);
	struct host *replaced;
	struct err e = { 0 };
	char name[24];

	registry_limit_address(r, 10);
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		CHECK_OK(registry_find_place(r, "ipv4:10.0.0.1:9", 0, &replaced, &e), e);
		CHECK(!replaced);
		add_from(r, name, "ipv4:10.0.0.1:1", i != 4)->clock.calibrated = i != 6;
	}
	CHECK_OK(registry_find_place(r, "ipv4:10.0.0.2:9", 0, &replaced, &e), e);
	CHECK(!replaced);
	CHECK_OK(registry_find_place(r, "ipv4:10.0.0.1:9", 0, &replaced, &e), e);
	CHECK_STR(replaced->name, "h4");
	registry_remove(r, replaced);
	add_from(r, "new", "ipv4:10.0.0.1:1", true)->clock.calibrated = true;
	CHECK_OK(registry_find_place(r, "ipv4:10.0.0.1:9", 0, &replaced, &e), e);
	CHECK_STR(replaced->name, "h6");
	replaced->clock.calibrated = true;
	CHECK_EQ(registry_find_place(r, "ipv4:10.0.0.1:9", 0, &replaced, &e), ERR_LIMIT);
	CHECK(!replaced && strstr(e.msg, "--hosts-per-address"));
	registry_free(r);
}

/* Hosts that report the same texts share them, until the last one has others. */
static void test_texts_are_shared(void)
{
	const struct host_tracer cpu = { .name = "cpu", .state = "ok", .reason = "" };
	struct registry *r = registry_new(NULL);
	struct host *a = registry_add(r, "a"), *b = registry_add(r, "b");
	char invented[16];

	host_add_tracer(a, &cpu);
	host_add_tracer(b, &cpu);
	host_add_label(a, "job", "train");
	host_add_label(b, "job", "train");
	CHECK(a->tracers[0].name == b->tracers[0].name);
	CHECK(a->label_values[0] == b->label_values[0]);
	CHECK(a->version == b->version);
	host_set_text(a, &a->version, "2");
	CHECK_STR(b->version, "");
	/* Invented ones push others out of what is compared: then they are held twice, and nothing else happens. */
	for (int i = 0; i < 500; i++) {
		snprintf(invented, sizeof(invented), "x%d", i);
		host_add_label(a, "key", invented);
	}
	CHECK_STR(a->label_values[500], "x499");
	host_set_text(b, &b->version, "2");
	CHECK_STR(b->version, a->version);
	registry_remove(r, a);
	CHECK_STR(b->tracers[0].name, "cpu");
	CHECK_STR(b->label_values[0], "train");
	registry_free(r);
}

int main(void)
{
	test_share_of_an_address();
	test_invented_names(true);
	test_invented_names(false);
	test_lost_names_first();
	test_sorted_and_found();
	test_found_in_order();
	test_settings_are_shared();
	test_texts_are_shared();
	test_cookies();
	test_forgets_the_lost();
	test_json();
	test_quiet();
	return 0;
}
