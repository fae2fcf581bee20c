/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of captures and of hosts: made at once of few hosts, of many while the loop goes on. */
#include <limits.h>

#include "aggregator/captures/capture.h"
#include "aggregator/api/hosts_text.h"
#include "base/pieces.h"
#include "json/json_text.h"
#include "tests/unit/aggregator/fleet.h"

#define MANY 250

struct told {
	int n;
	json_t *doc;
};

static void on_text(void *arg, struct buf *text_taken)
{
	struct told *t = arg;

	t->n++;
	json_decref(t->doc);
	t->doc = json_loadb(buf_str(text_taken), text_taken->len, JSON_REJECT_DUPLICATES, NULL);
	CHECK(t->doc);
	buf_release(text_taken);
}

#define PIECE_BYTES 5000

/* Reads a text in pieces, up to `most` of them. */
struct reader_of_pieces {
	struct pieces *text;
	struct buf got;
	int n, most;
	bool is_whole;
};

static void on_piece(void *arg, struct buf *piece_taken, bool is_last)
{
	struct reader_of_pieces *r = arg;

	buf_add(&r->got, piece_taken->data, piece_taken->len);
	CHECK(piece_taken->len < 2 * PIECE_BYTES);
	r->is_whole = is_last;
	if (++r->n < r->most && !is_last)
		pieces_more(r->text, PIECE_BYTES, on_piece, r);
}

static json_t *end_reading(struct reader_of_pieces *r)
{
	json_t *doc = json_loadb(buf_str(&r->got), r->got.len, JSON_REJECT_DUPLICATES, NULL);

	CHECK(doc);
	pieces_free(r->text);
	buf_release(&r->got);
	return doc;
}

static size_t hosts_in_state(const json_t *capture, const char *state)
{
	const json_t *hosts = json_object_get(capture, "hosts");
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(hosts); i++)
		n += !strcmp(json_get_text(json_array_get(hosts, i), "state"), state);
	return n;
}

/* Hosts that come and go meanwhile are in it or not; the others are, each once, in order. */
static void check_hosts(struct fleet *f)
{
	struct told all = { 0 };
	struct registry *r = f->agg.registry;
	const char *before = "";
	const json_t *host;
	size_t i;

	hosts_make_text(f->agg.registry, NULL, NULL, &f->agg.jobs, on_text, &all);
	CHECK(!all.n);
	registry_add(r, "a-first");
	registry_add(r, "z-last");
	registry_remove(r, registry_add(r, "host-099a")); /* where the first turn ended */
	WAIT(f, all.n);
	CHECK(json_array_size(json_object_get(all.doc, "hosts")) >= MANY);
	json_array_foreach(json_object_get(all.doc, "hosts"), i, host)
	{
		CHECK(strcmp(before, json_get_text(host, "host")) < 0);
		before = json_get_text(host, "host");
	}
	json_decref(all.doc);
	registry_remove(r, registry_find(r, "a-first"));
	registry_remove(r, registry_find(r, "z-last"));
}

/* Captures that end one after the other push it out of the list of those that have ended. */
static void forget(struct fleet *f, const struct capture *c)
{
	char session[64];

	snprintf(session, sizeof(session), "%s", c->session);
	for (int i = 0; capture_find(f->agg.captures, session); i++) {
		struct capture *later = fleet_begin(f);

		CHECK(i < 100);
		CHECK(capture_cancel(later));
		fleet_wait_over(f, later->session);
	}
}

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

/* What happens while the worker has it is not in the text, not even that the capture is forgotten. */
static void test_many(struct fleet *f)
{
	static struct fake fakes[MANY];
	struct reader_of_pieces all = { .most = INT_MAX }, cut = { .most = 2 }, none = { 0 };
	struct told running = { 0 }, one = { 0 };
	bool are_copied = false;
	json_t *doc;
	struct capture *c;
	char name[32];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "host-%03d", i);
		fakes[i] = (struct fake){ .auto_arm = true };
		fake_connect(&fakes[i], f, name);
	}
	check_hosts(f);
	c = fleet_begin(f);
	CHECK(!fleet_wait_durable(f, c));
	capture_make_text(c, false, on_text, &running);
	all.text = captures_text_new(f->agg.captures, NULL);
	cut.text = capture_text_new(c);
	none.text = capture_text_new(c);
	pieces_more(all.text, PIECE_BYTES, on_piece, &all);
	pieces_more(cut.text, PIECE_BYTES, on_piece, &cut);
	pieces_more(none.text, PIECE_BYTES, on_piece, &none);
	CHECK(!running.n && !all.n);
	loop_post(f->loop, set_true, &are_copied); /* after the posts that copy them */
	WAIT(f, are_copied);
	pieces_free(none.text); /* while a worker has it */
	CHECK(capture_cancel(c));
	fleet_wait_over(f, c->session);
	capture_make_text(c, false, on_text,
			  &one); /* also copied later, although it is forgotten */
	forget(f, c);
	WAIT(f, running.n == 1 && one.n == 1 && all.is_whole && cut.n == 2);
	CHECK_EQ(none.n, 0);
	pieces_free(cut.text); /* between two pieces */
	buf_release(&cut.got);
	CHECK(all.n > 2);
	doc = end_reading(&all);
	CHECK_EQ(hosts_in_state(running.doc, "failed"), 0);
	CHECK_EQ(hosts_in_state(one.doc, "failed"), MANY);
	CHECK_STR(json_get_text(one.doc, "state"), "failed");
	CHECK_EQ(hosts_in_state(json_array_get(json_object_get(doc, "captures"), 0), "failed"), 0);
	CHECK_EQ(json_array_size(json_object_get(
			 json_array_get(json_object_get(doc, "captures"), 0), "hosts")),
		 MANY);
	json_decref(running.doc);
	json_decref(one.doc);
	json_decref(doc);
}

static void test_few(struct fleet *f)
{
	struct reader_of_pieces all = { .most = 1 };
	struct told one = { 0 };
	json_t *doc;
	struct capture *c = fleet_begin(f);

	capture_make_text(c, true, on_text, &one);
	CHECK_EQ(one.n, 1);
	CHECK(json_is_true(json_object_get(one.doc, "shared")));
	CHECK_EQ(json_array_size(json_object_get(one.doc, "hosts")), 1);
	json_decref(one.doc);
	all.text = captures_text_new(f->agg.captures, NULL);
	pieces_more(all.text, PIECE_BYTES, on_piece, &all);
	CHECK_EQ(all.n, 0);
	WAIT(f, all.is_whole);
	doc = end_reading(&all);
	CHECK_EQ(json_array_size(json_object_get(doc, "captures")), 1);
	json_decref(doc);
}

int main(void)
{
	struct fake a = { .auto_arm = true };
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	test_few(&f);
	fleet_stop(&f);

	fleet_start(&f, NS_PER_S, 0);
	test_many(&f);
	fleet_stop(&f);
	return 0;
}
