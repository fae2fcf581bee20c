/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads that break off and go on, over another call and over another aggregator; a note that one left in a file. */
#include <dirent.h>
#include <unistd.h>
#include <zlib.h>

#include "aggregator/evidence/notes.h"
#include "aggregator/ingest/spooled_upload.h"
#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "proto/tutti/v1/ingest.pb-c.h"
#include "storage/store.h"
#include "tests/lib/store.h"
#include "tests/lib/temp_dir.h"
#include "tests/unit/aggregator/fleet.h"

#define CHUNK 1000
#define TOTAL (5 * CHUNK)

/* One call that asks to resume. */
struct sender {
	struct fake *fake;
	struct rpc_call *call;
	uint8_t file[TOTAL];
	uint32_t crc32;
	bool told, stored, closed;
	uint64_t told_bytes;
	enum rpc_code code;
	char text[256];
};

static bool on_reply(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct sender *s = rpc_arg(call);
	size_t len;
	const uint8_t *data = rpc_msg_data(msg, &len);
	Tutti__V1__UploadReply *reply = tutti__v1__upload_reply__unpack(NULL, len, data);

	CHECK(reply);
	if (reply->stored) {
		s->stored = true;
		CHECK_EQ(reply->bytes, TOTAL);
	} else {
		s->told = true;
		s->told_bytes = reply->bytes;
	}
	tutti__v1__upload_reply__free_unpacked(reply, NULL);
	return true;
}

static void on_closed(struct rpc_call *call, const struct rpc_status *st)
{
	struct sender *s = rpc_arg(call);

	s->closed = true;
	s->code = st->code;
	snprintf(s->text, sizeof(s->text), "%s", st->text);
}

static const struct rpc_events sender_events = { .message = on_reply, .closed = on_closed };

static void sender_send(struct sender *s, const Tutti__V1__UploadMessage *m)
{
	size_t len = tutti__v1__upload_message__get_packed_size(m);
	uint8_t *data = xmalloc(len);

	tutti__v1__upload_message__pack(m, data);
	rpc_send(s->call, data, len);
	free(data);
}

static void sender_begin(struct sender *s, struct fake *a, uint32_t crc_flaw)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadBegin begin = TUTTI__V1__UPLOAD_BEGIN__INIT;

	memset(s, 0, sizeof(*s));
	s->fake = a;
	for (size_t i = 0; i < TOTAL; i++)
		s->file[i] = (uint8_t)(i % 251);
	s->crc32 = (uint32_t)crc32(0, s->file, TOTAL) ^ crc_flaw;
	s->call = rpc_open(a->fleet->channel, "/tutti.v1.Ingest/Upload", INT64_MAX, &sender_events,
			   s);
	begin.session = a->session;
	begin.host = a->name;
	begin.instance = a->instance;
	begin.bytes = TOTAL;
	begin.files = &begin.bytes;
	begin.n_files = 1;
	begin.resume = true;
	begin.crc32 = s->crc32;
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_BEGIN;
	m.begin = &begin;
	sender_send(s, &m);
	WAIT(a->fleet, s->told || s->closed);
}

static void sender_chunk(struct sender *s, size_t offset)
{
	Tutti__V1__UploadMessage m = TUTTI__V1__UPLOAD_MESSAGE__INIT;
	Tutti__V1__UploadChunk chunk = TUTTI__V1__UPLOAD_CHUNK__INIT;

	chunk.offset = offset;
	chunk.data = (ProtobufCBinaryData){ CHUNK, s->file + offset };
	chunk.crc32 = (uint32_t)crc32(0, s->file + offset, CHUNK);
	m.kind_case = TUTTI__V1__UPLOAD_MESSAGE__KIND_CHUNK;
	m.chunk = &chunk;
	sender_send(s, &m);
}

static void sender_finish(struct sender *s)
{
	for (size_t at = s->told_bytes; at < TOTAL; at += CHUNK)
		sender_chunk(s, at);
	rpc_half_close(s->call);
	WAIT(s->fake->fleet, s->closed);
}

/* Two chunks arrive, then the link is gone. */
static void sender_break(struct sender *s, struct capture *c)
{
	sender_chunk(s, 0);
	sender_chunk(s, CHUNK);
	WAIT(s->fake->fleet, fleet_result(c, 0).bytes_done == 2 * CHUNK);
	rpc_cancel(s->call);
	WAIT(s->fake->fleet, s->closed && c->hosts[0].upload_error);
}

static size_t count_parts(const char *spool)
{
	DIR *dir = opendir(spool);
	struct dirent *entry;
	size_t n = 0;

	CHECK(dir);
	while ((entry = readdir(dir)))
		n += strstr(entry->d_name, ".part") != NULL;
	closedir(dir);
	return n;
}

static void check_stored(struct fleet *f, struct sender *s)
{
	char key[SESSION_KEY_BYTES];
	struct buf got = BUF_INIT;
	struct err e;
	uint64_t size;

	session_file_key(s->fake->session, "", s->fake->name, key);
	CHECK_OK(get_range(f->agg.store.store, key, 0, TOTAL + 1, &got, &size, &e), e);
	CHECK_EQ(got.len, TOTAL);
	CHECK(!memcmp(got.data, s->file, TOTAL));
	buf_release(&got);
}

static struct capture *armed_capture(struct fleet *f, struct fake *a)
{
	struct capture *c;

	fake_connect(a, f, "a");
	c = fleet_begin(f);
	WAIT(f, fleet_host_is(c, 0, "armed"));
	return c;
}

static void test_goes_on(void)
{
	struct fake a = { .auto_arm = true };
	struct sender s;
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	c = armed_capture(&f, &a);
	sender_begin(&s, &a, 0);
	CHECK_EQ(s.told_bytes, 0);
	sender_break(&s, c);
	CHECK_EQ(count_parts(f.agg.conf.spool), 1);
	sender_begin(&s, &a, 0);
	CHECK_EQ(s.told_bytes, 2 * CHUNK);
	sender_finish(&s);
	CHECK_EQ(s.code, RPC_OK);
	CHECK(s.stored);
	check_stored(&f, &s);
	CHECK_EQ(count_parts(f.agg.conf.spool), 0);
	/* Asked for once more, it is there. */
	sender_begin(&s, &a, 0);
	WAIT(&f, s.closed);
	CHECK(s.stored && s.code == RPC_OK);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	fleet_stop(&f);
}

/* Only the very same file goes on; what a session leaves behind goes with it. */
static void test_other_file(void)
{
	struct fake a = { .auto_arm = true };
	struct sender s;
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	c = armed_capture(&f, &a);
	sender_begin(&s, &a, 0);
	sender_break(&s, c);
	sender_begin(&s, &a, 1);
	CHECK_EQ(s.told_bytes, 0);
	sender_finish(&s);
	CHECK_EQ(s.code, RPC_DATA_LOSS);
	CHECK(strstr(s.text, "whole file") && !fleet_result(c, 0).n_files);
	CHECK_EQ(count_parts(f.agg.conf.spool), 1);
	fake_result(&a, false, "upload", "");
	fleet_wait_over(&f, c->session);
	WAIT(&f, !f.agg.jobs.n);
	CHECK_EQ(count_parts(f.agg.conf.spool), 0);
	fleet_stop(&f);
}

/* ---- captures of an earlier aggregator ---- */

/* As if this aggregator had been killed once the plan was stored, and started anew. */
static struct capture *resumed(struct fleet *f, struct capture *c)
{
	char session[64];
	json_t *left;

	CHECK(!fleet_wait_durable(f, c));
	snprintf(session, sizeof(session), "%s", c->session);
	left = fleet_left(f, session);
	CHECK(capture_cancel(c));
	fleet_wait_over(f, session);
	f->agg.clock.kept = true;
	f->agg.patience.lost_ns = 20 * NS_PER_S;
	fleet_recover(f, left);
	json_decref(left);
	c = capture_find(f->agg.captures, session);
	CHECK(c && !capture_has_ended(c));
	return c;
}

static void dial_again(struct fake *a, struct fleet *f, uint64_t instance)
{
	fake_hang_up(a);
	a->welcomes = a->arms = 0;
	fake_dial(a, f, "a", instance);
	fake_hello(a, NULL, NULL);
	WAIT(f, a->welcomes);
}

/* Killed before Arm went out: who has not heard of the capture hears of it now. */
static void test_armed_after_restart(void)
{
	struct fake a = { 0 };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = resumed(&f, fleet_begin(&f));
	CHECK(c->deadline_ns > session_clock_now(&f.agg.clock) + c->grace_ns);
	a.auto_deliver = true;
	dial_again(&a, &f, a.instance);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(a.arms, 1);
	CHECK_EQ(a.t0_ns, c->t0_ns);
	CHECK(fleet_host_is(c, 0, "complete"));
	fleet_stop(&f);
}

/* An agent that was restarted meanwhile holds nothing: the capture does not wait for its predecessor. */
static void test_replaced_after_restart(void)
{
	struct fake a = { 0 };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = resumed(&f, fleet_begin(&f));
	dial_again(&a, &f, a.instance + 1);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(a.arms, 0);
	CHECK_STR(fleet_result(c, 0).reason, "lost");
	fleet_stop(&f);
}

/* ---- parts ---- */

static void write_upload(struct spooled_upload *p, const char *text)
{
	struct err e;

	CHECK_OK(spooled_upload_write(p, text, strlen(text),
				      (uint32_t)crc32(0, (const uint8_t *)text, (uInt)strlen(text)),
				      &e),
		 e);
}

static void test_parts(void)
{
	const char *dir = temp_dir();
	struct spooled_upload_id id = { .session = "s", .host = "h", .bytes = 8, .resume = true };
	struct spooled_upload p;
	struct err e;

	id.spool = dir;
	id.crc32 = (uint32_t)crc32(0, (const uint8_t *)"abcdefgh", 8);
	/* What comes whole needs no file. */
	CHECK_OK(spooled_upload_open(&p, &id, &e), e);
	write_upload(&p, "abcdefgh");
	CHECK_OK(spooled_upload_check(&p, &e), e);
	CHECK(p.fd < 0 && !memcmp(p.memory, "abcdefgh", 8));
	CHECK_EQ(count_parts(dir), 0);
	spooled_upload_close(&p);
	CHECK_OK(spooled_upload_open(&p, &id, &e), e);
	write_upload(&p, "abc");
	CHECK_EQ(spooled_upload_check(&p, &e), ERR_PEER);
	spooled_upload_close(&p);
	CHECK_OK(spooled_upload_open(&p, &id, &e), e);
	CHECK_EQ(p.received, 3);
	write_upload(&p, "defgh");
	CHECK_OK(spooled_upload_check(&p, &e), e);
	spooled_upload_close(&p);
	/* Longer than announced is damage. */
	CHECK_OK(spooled_upload_open(&p, &id, &e), e);
	CHECK_EQ(pwrite(p.fd, "ijk", 3, 8), 3);
	spooled_upload_close(&p);
	CHECK_OK(spooled_upload_open(&p, &id, &e), e);
	CHECK_EQ(p.received, 0);
	spooled_upload_close(&p);
	spooled_upload_sweep(dir, "t", 0);
	CHECK(count_parts(dir) >= 1);
	spooled_upload_sweep(dir, NULL, 3600 * NS_PER_S);
	CHECK(count_parts(dir) >= 1);
	spooled_upload_sweep(dir, "s", 0);
	CHECK_EQ(count_parts(dir), 0);
	CHECK(!rmdir(dir));
}

/* An aggregator that did not live to commit noted that b is missing; b is there after all. */
static void test_stale_note_is_removed(void)
{
	char text[] = "b is missing: lost: not true", *texts[] = { text };
	struct fleet f;
	struct fake a = { .auto_deliver = true }, b = { .auto_arm = true };
	char key[SESSION_KEY_BYTES];
	struct notes_file file;
	struct store_stat st;
	struct err e = { 0 };
	struct capture *c;
	uint64_t size;
	uint32_t crc32c = 0;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = fleet_begin(&f);
	WAIT(&f, c->hosts[0].state == HOST_COMPLETE && b.arms);
	size = c->hosts[0].bytes;
	capture_host_report_files(&c->hosts[0], &size, &crc32c,
				  1); /* as agents do, but not these fakes */
	session_file_key(c->session, "", "a", key);
	file = (struct notes_file){ .store = f.agg.store.store, .key = key, .spool = f.spool };
	CHECK_OK(notes_put(&file, texts, 1, &size, NULL, &e), e);
	CHECK(size > c->hosts[0].bytes);
	c->hosts[0].bytes = c->hosts[0].bytes_done = size;
	CHECK_EQ(fake_upload(&b, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&b, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_OK(store_stat(f.agg.store.store, key, any_time(), &st, &e), e);
	CHECK_EQ(st.size, 2000);
	CHECK_EQ(c->hosts[0].bytes, 2000);
	fleet_stop(&f);
}

int main(void)
{
	test_goes_on();
	test_other_file();
	test_armed_after_restart();
	test_replaced_after_restart();
	test_parts();
	test_stale_note_is_removed();
	return 0;
}
