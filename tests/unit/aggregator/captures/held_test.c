/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent holds of sessions that the aggregator does not have in memory, and what the store says of them. */
#include <stdio.h>
#include <string.h>

#include "storage/store.h"
#include "tests/lib/store.h"
#include "tests/unit/aggregator/fleet.h"

#define NAME "2026_11_21_12_00_00_abc123"

#define MANIFEST "tutti/sessions/" NAME "/manifest.json"
#define FAILURE	 "tutti/failed/" NAME ".json"

static void put(struct fleet *f, const char *key, const char *text)
{
	struct err e = { 0 };

	CHECK_OK(store_put_bytes(f->agg.store.store, key, text, strlen(text), 0, any_time(), &e),
		 e);
}

static void hold(struct fake *a, struct fleet *f)
{
	snprintf(a->held, sizeof(a->held), NAME);
	snprintf(a->held_state, sizeof(a->held_state), "uploading");
	fake_connect(a, f, "a");
}

/* `key` has `text`; NULL: the store has nothing of the session. */
static void check_drops(const char *key, const char *text, bool drops)
{
	struct fleet f;
	struct fake a = { 0 };

	fleet_start(&f, 0, 0);
	if (key)
		put(&f, key, text);
	hold(&a, &f);
	run_for(f.loop, 5 * NS_PER_S);
	CHECK_EQ(a.cancels, drops);
	CHECK_EQ(a.releases, 0);
	fleet_stop(&f);
}

static void test_records(void)
{
	check_drops(MANIFEST, "{\"hosts\":[{\"host\":\"a\",\"file\":\"a.xplane.pb\"}]}", true);
	check_drops(MANIFEST, "{\"hosts\":[{\"host\":\"a\",\"reason\":\"refused\"}]}", true);
	check_drops(MANIFEST, "{\"hosts\":[{\"host\":\"b\",\"file\":\"b.xplane.pb\"}]}", true);
	check_drops(FAILURE, "{\"state\":\"failed\"}", true);
	/* A retry may fetch it. */
	check_drops(MANIFEST, "{\"hosts\":[{\"host\":\"a\",\"reason\":\"lost\"}]}", false);
	/* It may be another fleet's, or the store may say so later. */
	check_drops(MANIFEST, "damaged", false);
	check_drops(NULL, NULL, false);
}

static void test_deleted(void)
{
	struct fleet f;
	struct fake a = { 0 };

	fleet_start(&f, 0, 0);
	hold(&a, &f);
	run_for(f.loop, 5 * NS_PER_S);
	CHECK_EQ(a.cancels, 0);
	captures_session_deleted(f.agg.captures, NAME);
	WAIT(&f, a.cancels == 1);
	fake_hang_up(&a);
	a = (struct fake){ 0 };
	hold(&a, &f); /* the Cancel was lost */
	WAIT(&f, a.cancels == 1);
	fleet_stop(&f);
}

/* It ends while the lookup waits for its second. */
static void test_end(void)
{
	struct fleet f;
	struct fake a = { 0 };

	fleet_start(&f, 0, 0);
	hold(&a, &f);
	fleet_stop(&f);
}

int main(void)
{
	test_records();
	test_deleted();
	test_end();
	return 0;
}
