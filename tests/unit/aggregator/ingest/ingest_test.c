/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads: good ones, each way of being wrong, credits, retries. */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/ingest/ingest_impl.h"
#include "aggregator/ingest/late_list.h"
#include "aggregator/ingest/spooled_upload.h"
#include "aggregator/sessions/ledger_record.h"
#include "aggregator/sessions/sessions.h"
#include "json/json_text.h"
#include "base/mem.h"
#include "storage/store.h"
#include "tests/lib/manifest.h"
#include "tests/lib/store.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/virtual_time.h"
#include "tests/unit/aggregator/fleet.h"
#include "xspace/xspace.h"

static void stored_bytes(struct fleet *f, struct capture *c, const char *host, struct buf *out)
{
	char key[SESSION_KEY_BYTES];
	struct err e = { 0 };
	uint64_t size;

	session_file_key(c->session, "", host, key);
	CHECK_OK(get_range(f->agg.store.store, key, 0, 100 << 20, out, &size, &e), e);
	CHECK(out->len >= size);
}

static void test_bytes_arrive(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct buf got = BUF_INIT;
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	CHECK_EQ(fake_upload(&a, 5, LIMIT_CHUNK_BYTES, FLAW_NONE), RPC_OK);
	CHECK_EQ(fleet_result(c, 0).n_files, 1);
	stored_bytes(&f, c, "a", &got);
	CHECK_EQ(got.len, 5 * LIMIT_CHUNK_BYTES);
	for (size_t i = 0; i < got.len; i++)
		if (got.data[i] != i % 251)
			CHECK_EQ(got.data[i], i % 251);
	/* The reply was lost, the agent tries again: no harm done. */
	CHECK_EQ(fake_upload(&a, 5, LIMIT_CHUNK_BYTES, FLAW_NONE), RPC_OK);
	CHECK_EQ(fake_upload(&a, 4, LIMIT_CHUNK_BYTES, FLAW_NONE), RPC_FAILED_PRECONDITION);
	CHECK_EQ(ingest_stats(f.agg.ingest)->uploads, 1);
	buf_release(&got);
	fleet_stop(&f);
}

/* What is more than a file may hold comes as several. */
static void test_further_files(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .chunk_files = true };
	struct buf got = BUF_INIT;
	struct capture *c;
	json_t *manifest, *files;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	CHECK_EQ(fake_upload(&a, 3, 100, FLAW_FILES), RPC_INVALID_ARGUMENT);
	CHECK_EQ(fake_upload(&a, LIMIT_HOST_FILES + 1, 1, FLAW_NONE), RPC_INVALID_ARGUMENT);
	CHECK_EQ(fleet_keys(&f), 1); /* the plan */
	CHECK_EQ(fake_upload(&a, 3, 100, FLAW_NONE), RPC_OK);
	CHECK_EQ(fleet_result(c, 0).n_files, 3);
	stored_bytes(&f, c, "a", &got);
	stored_bytes(&f, c, "a~2", &got);
	stored_bytes(&f, c, "a~3", &got);
	CHECK_EQ(got.len, 300);
	for (size_t i = 0; i < got.len; i++)
		CHECK_EQ(got.data[i], i % 251);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_OK(load_manifest(f.agg.store.store, c->session, &manifest, &e), e);
	files = json_object_get(json_array_get(json_object_get(manifest, "hosts"), 0), "files");
	CHECK_EQ(json_array_size(files), 3);
	CHECK_STR(json_string_value(json_array_get(files, 2)), "a~3.xplane.pb");
	json_decref(manifest);
	buf_release(&got);
	fleet_stop(&f);
}

static void test_flaws(void)
{
	static const struct {
		enum flaw flaw;
		enum rpc_code code;
	} cases[] = {
		{ FLAW_CRC, RPC_DATA_LOSS },
		{ FLAW_OFFSET, RPC_INVALID_ARGUMENT },
		{ FLAW_LONG, RPC_INVALID_ARGUMENT },
		{ FLAW_SHORT, RPC_DATA_LOSS },
		{ FLAW_NO_BEGIN, RPC_INVALID_ARGUMENT },
		{ FLAW_INSTANCE, RPC_NOT_FOUND },
	};
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_EQ(fake_upload(&a, 2, 100, cases[i].flaw), cases[i].code);
		CHECK_EQ(fleet_result(c, 0).n_files, 0);
		CHECK_EQ(ingest_stats(f.agg.ingest)->errors, i + 1);
	}
	CHECK_EQ(fleet_keys(&f), 1); /* the plan */
	/* A report of a file that is not there is no file. */
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_FAILED);
	CHECK_STR(fleet_result(c, 0).reason, "upload");
	fleet_check_failed(&f, c->session);
	fleet_stop(&f);
}

/* ---- uploads that go on where an earlier one ended ---- */

/* The only file of an upload in the aggregator's spool: its path, until the next call; or NULL. */
static const char *spooled(const struct fleet *f)
{
	static char path[512];
	DIR *dir = opendir(f->spool);
	struct dirent *entry;
	int n = 0;

	CHECK(dir);
	while ((entry = readdir(dir))) {
		const char *end = strrchr(entry->d_name, '.');

		if (end && !strcmp(end, ".part") && !n++)
			snprintf(path, sizeof(path), "%s/%s", f->spool, entry->d_name);
	}
	closedir(dir);
	CHECK(n <= 1);
	return n ? path : NULL;
}

static void damage(const char *path, off_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
	byte ^= 4;
	CHECK(pwrite(fd, &byte, 1, at) == 1 && !close(fd));
}

static struct fake_upload go_on(struct fake *a, enum flaw flaw)
{
	struct fake_upload u = { 0 };

	fake_upload_start(&u, a, 4, 100, flaw);
	WAIT(a->fleet, u.closed);
	return u;
}

static void check_stored(struct fleet *f, struct capture *c)
{
	struct buf got = BUF_INIT;

	stored_bytes(f, c, "a", &got);
	CHECK_EQ(got.len, 400);
	for (size_t i = 0; i < got.len; i++)
		CHECK_EQ(got.data[i], i % 251);
	buf_release(&got);
}

/* What the first attempt has brought counts, if its bytes are still those: else all of it comes again, and nothing is stored
 * before that. A byte may be wrong in what was there, or the agent's own file may have changed. */
static void test_resumed(bool is_damaged)
{
	struct fake a = { .auto_arm = true, .resumes = true };
	struct fake_upload u;
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	u = go_on(&a, FLAW_SHORT);
	CHECK_EQ(u.code, RPC_DATA_LOSS);
	CHECK_EQ(u.resumed_at, 0);
	WAIT(&f, !f.agg.jobs.n);
	CHECK(spooled(&f));
	if (is_damaged)
		damage(spooled(&f), 150);
	u = go_on(&a, FLAW_NONE);
	CHECK_EQ(u.resumed_at, 300);
	WAIT(&f, !f.agg.jobs.n);
	CHECK(!spooled(&f));
	if (is_damaged) {
		CHECK_EQ(u.code, RPC_DATA_LOSS);
		CHECK(strstr(u.text, "checksum of the whole file"));
		CHECK_EQ(fleet_keys(&f), 1); /* the plan */
		CHECK_EQ(fleet_result(c, 0).n_files, 0);
		u = go_on(&a, FLAW_NONE);
		CHECK_EQ(u.resumed_at, 0);
	}
	CHECK_EQ(u.code, RPC_OK);
	CHECK_EQ(u.stored, 400);
	check_stored(&f, c);
	fleet_stop(&f);
}

static void test_wrong_sum_of_all(void)
{
	struct fake a = { .auto_arm = true, .resumes = true };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	CHECK_EQ(go_on(&a, FLAW_SUM).code, RPC_DATA_LOSS);
	WAIT(&f, !f.agg.jobs.n);
	CHECK_EQ(fleet_keys(&f), 1); /* the plan */
	CHECK(!spooled(&f));
	CHECK_EQ(go_on(&a, FLAW_NONE).code, RPC_OK);
	check_stored(&f, c);
	fleet_stop(&f);
}

/* One that is longer than the upload is none of it. */
static void test_resumed_from_too_much(void)
{
	struct fake a = { .auto_arm = true, .resumes = true };
	struct fake_upload u;
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	CHECK_EQ(go_on(&a, FLAW_SHORT).code, RPC_DATA_LOSS);
	WAIT(&f, !f.agg.jobs.n);
	CHECK(!truncate(spooled(&f), 401));
	u = go_on(&a, FLAW_NONE);
	CHECK_EQ(u.resumed_at, 0);
	CHECK_EQ(u.code, RPC_OK);
	check_stored(&f, c);
	fleet_stop(&f);
}

/* At the deadline a host says what went wrong last. */
static void test_broken_by_the_deadline(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct fake_upload silent = { 0 };
	struct capture *c;

	fleet_start(&f, 20 * NS_PER_MS, 300 * NS_PER_MS);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	CHECK_EQ(fake_upload(&a, 2, 100, FLAW_CRC), RPC_DATA_LOSS);
	fake_upload_start(&silent, &a, 1, 100, FLAW_SILENT);
	WAIT(&f, silent.closed); /* the aggregator ends it */
	CHECK_EQ(silent.code, RPC_FAILED_PRECONDITION);
	fleet_wait_over(&f, c->session);
	CHECK_STR(fleet_result(c, 0).reason, "upload");
	CHECK(strstr(fleet_result(c, 0).detail, "checksum"));
	fleet_stop(&f);
}

/* A newer upload of the same file replaces one whose end was not noticed. */
static void test_retry_replaces(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct fake_upload silent = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	fake_upload_start(&silent, &a, 1, 100, FLAW_SILENT);
	CHECK_EQ(fake_upload(&a, 1, 100, FLAW_NONE), RPC_OK);
	WAIT(&f, silent.closed);
	CHECK_EQ(silent.code, RPC_ABORTED);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	fleet_stop(&f);
}

#define MANY (UPLOAD_CREDITS + 3)

static int granted(const struct fake *h)
{
	int n = 0;

	for (int i = 0; i < MANY; i++)
		n += h[i].uploads;
	return n;
}

/* Tries again as long as it has no credit, as agents do. */
static void deliver(struct fake *a)
{
	enum rpc_code code;

	while ((code = fake_upload(a, 1, 10, FLAW_NONE)) == RPC_RESOURCE_EXHAUSTED)
		;
	CHECK_EQ(code, RPC_OK);
	fake_result(a, true, "", "");
}

/* Eight at a time; the end of one, of whatever kind, is the turn of the next. */
static void test_credits(void)
{
	struct fake h[MANY] = { 0 };
	struct capture *c;
	struct fleet f;
	char name[16];

	fleet_start(&f, 0, 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "h%02d", i);
		h[i].auto_arm = true;
		fake_connect(&h[i], &f, name);
	}
	c = fleet_begin(&f);
	for (int i = 0; i < MANY; i++) {
		WAIT(&f, fleet_host_is(c, i, "armed"));
		fake_progress(&h[i], "uploading", 10);
		WAIT(&f, fleet_host_is(c, i, "uploading"));
		fake_progress(&h[i], "uploading", 10); /* asking twice gives no more */
	}
	WAIT(&f, granted(h) == UPLOAD_CREDITS);
	CHECK_EQ(h[UPLOAD_CREDITS].uploads, 0);
	deliver(&h[0]);
	WAIT(&f, h[UPLOAD_CREDITS].uploads == 1);
	fake_hang_up(&h[1]);
	WAIT(&f, h[UPLOAD_CREDITS + 1].uploads == 1);
	fake_result(&h[2], false, "too-large", "");
	WAIT(&f, h[UPLOAD_CREDITS + 2].uploads == 1);
	for (int i = 3; i < MANY; i++)
		deliver(&h[i]);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	for (int i = 0; i < MANY; i++)
		CHECK(h[i].uploads <= 1);
	fleet_stop(&f);
}

/* Who has a credit and sends nothing makes room for the others, and is asked again after them. */
static void test_credit_that_is_not_used(void)
{
	struct fake h[MANY] = { 0 };
	struct capture *c;
	struct fleet f;
	char name[16];

	fleet_start(&f, 0, 0);
	f.agg.patience.credit_ns = 20 * NS_PER_MS;
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "h%02d", i);
		h[i].auto_arm = true;
		fake_connect(&h[i], &f, name);
	}
	c = fleet_begin(&f);
	for (int i = 0; i < MANY; i++) {
		WAIT(&f, fleet_host_is(c, i, "armed"));
		fake_progress(&h[i], "uploading", 10);
	}
	WAIT(&f, h[MANY - 1].uploads == 1);
	WAIT(&f, h[0].uploads == 2);
	for (int i = 0; i < MANY; i++)
		deliver(&h[i]);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	fleet_stop(&f);
}

/* Trust: an upload without a credit gets neither disk nor a worker. */
static void test_upload_needs_credit(void)
{
	struct fake h[MANY] = { 0 };
	struct capture *c;
	struct fleet f;
	char name[16];

	fleet_start(&f, 0, 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "h%02d", i);
		h[i].auto_arm = true;
		fake_connect(&h[i], &f, name);
	}
	c = fleet_begin(&f);
	for (int i = 0; i < MANY; i++)
		WAIT(&f, c->hosts[i].state == HOST_ARMED);
	for (int i = 0; i < UPLOAD_CREDITS; i++) {
		fake_progress(&h[i], "uploading", 10);
		WAIT(&f, c->hosts[i].credit == CREDIT_GRANTED);
	}
	CHECK_EQ(fake_upload(&h[MANY - 1], 1, 10, FLAW_NONE), RPC_RESOURCE_EXHAUSTED);
	CHECK_EQ(c->hosts[MANY - 1].credit, CREDIT_WAITING);
	for (int i = 0; i < MANY; i++)
		deliver(&h[i]);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	fleet_stop(&f);
}

/* Trust: where agents have certificates, who has none of this host uploads nothing for it. */
static void test_upload_needs_certificate(void)
{
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	f.agg.ingest->env.needs_certificate = true;
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_PERMISSION_DENIED);
	CHECK_EQ(fleet_keys(&f), 1); /* the plan */
	f.agg.ingest->env.needs_certificate = false;
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fleet_stop(&f);
}

/* Trust: one message reserved 19 GB. */
static void test_disk_as_bytes_arrive(void)
{
	const struct spooled_upload_id id = { .spool = temp_dir(), .bytes = 300 << 20 };
	uint8_t *chunk = xcalloc(1, LIMIT_CHUNK_BYTES);
	struct spooled_upload p;
	struct stat st;
	struct err e;

	CHECK_OK(spooled_upload_open(&p, &id, &e), e);
	CHECK(!fstat(p.fd, &st));
	CHECK_EQ(st.st_blocks, 0);
	CHECK_OK(spooled_upload_write(&p, chunk, LIMIT_CHUNK_BYTES, 0, &e), e);
	CHECK(!fstat(p.fd, &st));
	CHECK(st.st_blocks * 512 < 20 << 20);
	spooled_upload_close(&p);
	CHECK(!rmdir(id.spool));
	free(chunk);
}

/* Trust: garbage of a calibrated agent is no file of a session. */
static void test_garbage(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_checks_files = true;
	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, c->hosts[0].state == HOST_ARMED);
	CHECK_EQ(fake_upload(&a, 2, LIMIT_CHUNK_BYTES, FLAW_NONE), RPC_INVALID_ARGUMENT);
	WAIT(&f, !f.agg.jobs.n);
	CHECK_EQ(fake_upload(&a, 1, 100, FLAW_NONE), RPC_INVALID_ARGUMENT);
	WAIT(&f, !f.agg.jobs.n);
	CHECK(strstr(c->hosts[0].upload_error, "XSpace"));
	CHECK_EQ(fleet_keys(&f), 1); /* the plan */
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_FAILED);
	CHECK_STR(c->hosts[0].reason, "upload");
	fleet_check_failed(&f, c->session);
	fleet_stop(&f);
	fleet_checks_files = false;
}

static int check_bytes(const struct buf *b)
{
	struct ingest_file file = { .fd = -1, .memory = b->data, .bytes = b->len };
	struct err e;

	return ingest_check_xspace(&file, &e);
}

/* What a file must have, and no more: a merge of nothing passes. */
static void test_file_check(void)
{
	struct buf b = BUF_INIT;
	struct xs_sink sink = xs_sink_buf(&b);
	struct xs_host host = { .hostname = "a", .profile_start_ns = 1, .profile_stop_ns = 2 };
	struct xs_counts counts;
	struct err e;
	static const char *const none[] = { NULL };

	host.warnings = none;
	CHECK_OK(xs_merge(NULL, 0, &host, &sink, &counts, &e), e);
	CHECK(!check_bytes(&b));
	b.len--;
	CHECK(check_bytes(&b));
	b.len = 0;
	CHECK(check_bytes(&b)); /* an empty XSpace lacks the plane */
	buf_add(&b, "\x1a\x01x", 3);
	CHECK(check_bytes(&b)); /* so does one of warnings */
	buf_release(&b);
}

/* ---- a store that is slow or broken ---- */

struct odd_store {
	struct store base;
	struct store *real;
	_Atomic(const char *) fail; /* puts of keys that hold this fail; read by workers */
	const char *block; /* a put of such a key hangs until `go`, and stores only then */
	bool go;
	atomic_bool is_blocked; /* what follows is written */
	char *blocked_key;
	struct buf blocked;
	atomic_bool keeps_all; /* it removes nothing */
	_Atomic(const char *) fail_get; /* gets of keys that hold this fail */
	bool is_full; /* what fails fails for that */
	const char *fail_late; /* the first put of such a key works and is reported as failed */
};

/* Hangs as a worker that the loop does not wait for: odd_unblock() ends it. */
static int odd_block(struct odd_store *o, const struct store_put *put)
{
	CHECK(put->data && !o->blocked_key);
	o->blocked_key = xstrdup(put->key);
	buf_add(&o->blocked, put->data, put->len);
	atomic_store(&o->is_blocked, true);
	virtual_hold_worker(&o->go);
	return 0;
}

static void odd_unblock(struct odd_store *o)
{
	struct err e = { 0 };

	CHECK(atomic_load(&o->is_blocked));
	CHECK_OK(store_put_bytes(o->real, o->blocked_key, o->blocked.data, o->blocked.len,
				 STORE_ABSENT, any_time(), &e),
		 e);
	buf_release(&o->blocked);
	free(o->blocked_key);
	virtual_release_worker(&o->go);
}

static int odd_put(struct store *s, const struct store_put *put, struct store_stat *out,
		   struct err *e)
{
	struct odd_store *o = (struct odd_store *)s;
	const char *fail = atomic_load(&o->fail);

	if (fail && strstr(put->key, fail))
		return err_set(e, o->is_full ? ERR_FULL : ERR_IO, "refused");
	if (o->block && strstr(put->key, o->block))
		return odd_block(o, put);
	if (o->fail_late && strstr(put->key, o->fail_late)) {
		o->fail_late = NULL;
		CHECK_OK(store_put(o->real, put, out, e), *e);
		return err_set(e, ERR_IO, "written, but not known to be durable");
	}
	return store_put(o->real, put, out, e);
}

static int odd_get(struct store *s, const struct store_get *get, struct store_stat *out,
		   struct err *e)
{
	struct odd_store *o = (struct odd_store *)s;
	const char *fail = atomic_load(&o->fail_get);

	if (fail && strstr(get->key, fail))
		return err_set(e, ERR_IO, "the store is away");
	return store_get(o->real, get, out, e);
}

static int odd_stat(struct store *s, const char *key, int64_t deadline_mono_ns,
		    struct store_stat *out, struct err *e)
{
	return store_stat(((struct odd_store *)s)->real, key, deadline_mono_ns, out, e);
}

static int odd_list(struct store *s, const struct store_list *list, struct err *e)
{
	return store_list(((struct odd_store *)s)->real, list, e);
}

static int odd_remove(struct store *s, const char *key, int64_t deadline_mono_ns, struct err *e)
{
	struct odd_store *o = (struct odd_store *)s;

	if (atomic_load(&o->keeps_all))
		return err_set(e, ERR_IO, "the store is away");
	return store_remove(o->real, key, deadline_mono_ns, e);
}

static const struct store_ops odd_ops = {
	.scheme = "odd",
	.put = odd_put,
	.get = odd_get,
	.stat = odd_stat,
	.list = odd_list,
	.remove = odd_remove,
};

static void test_store_refuses(const char *key_part, const char *reason, bool armed)
{
	struct odd_store odd = { .base.ops = &odd_ops, .fail = key_part };
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	odd.real = f.agg.store.store;
	f.agg.store.store = &odd.base;
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	if (armed) {
		WAIT(&f, fleet_host_is(c, 0, "armed"));
		CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_UNAVAILABLE);
		fake_result(&a, false, "upload", "the aggregator did not take it");
	}
	WAIT(&f, fleet_host_is(c, 0, "failed"));
	atomic_store(&odd.fail, NULL);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_FAILED);
	CHECK_EQ(a.arms, armed);
	CHECK_STR(fleet_result(c, 0).reason, reason);
	fleet_check_failed(&f, c->session);
	f.agg.store.store = odd.real;
	fleet_stop(&f);
}

/* A store that fills up in the middle leaves nothing of the host, and takes all of it later. One that fails keeps what it has
 * taken until then: a removal could come late. */
static void test_further_files_that_fail(bool is_full)
{
	struct odd_store odd = { .base.ops = &odd_ops,
				 .fail = "/a~2.xplane.pb",
				 .is_full = is_full };
	struct fleet f;
	struct fake a = { .auto_arm = true, .chunk_files = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	odd.real = f.agg.store.store;
	f.agg.store.store = &odd.base;
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	CHECK_EQ(fake_upload(&a, 3, 100, FLAW_NONE), RPC_UNAVAILABLE);
	WAIT(&f, !f.agg.jobs.n); /* the removal of what it had stored */
	CHECK_EQ(fleet_keys(&f), is_full ? 1 : 2); /* the plan, and the last file */
	atomic_store(&odd.fail, NULL);
	CHECK_EQ(fake_upload(&a, 3, 100, FLAW_NONE), RPC_OK);
	CHECK_EQ(fleet_keys(&f), 4);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	f.agg.store.store = odd.real;
	fleet_stop(&f);
}

static void find_late(void *arg, const char *session, const char *run)
{
	(void)session;
	(void)run;
	++*(int *)arg;
}

/* Whose the files of a failed upload are cannot be told now: they are not forgotten. */
static void test_owner_cannot_be_read(void)
{
	struct odd_store odd = { .base.ops = &odd_ops, .fail = "/a~2.xplane.pb" };
	struct fleet f;
	struct fake a = { .auto_arm = true, .chunk_files = true };
	struct capture *c;
	int n_late = 0;

	fleet_start(&f, 0, 0);
	odd.real = f.agg.store.store;
	f.agg.store.store = &odd.base;
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	atomic_store(&odd.fail_get, "tutti/ledger/");
	CHECK_EQ(fake_upload(&a, 3, 100, FLAW_NONE), RPC_UNAVAILABLE);
	WAIT(&f, !f.agg.jobs.n);
	CHECK_EQ(fleet_keys(&f), 2); /* the plan, and the last file */
	late_list_each(f.spool, find_late, &n_late);
	CHECK_EQ(n_late, 1);
	atomic_store(&odd.fail_get, NULL);
	fake_result(&a, false, "upload", "");
	fleet_wait_over(&f, c->session);
	fleet_check_failed(&f, c->session);
	f.agg.store.store = odd.real;
	fleet_stop(&f);
}

static void check_no_file(struct fleet *f, const char *session, const char *host)
{
	char key[SESSION_KEY_BYTES];

	session_file_key(session, "", host, key);
	CHECK(!fleet_has_key(f, key));
}

/* A put that hangs delays no other upload. What it stores in the end is removed, also by the next start of the
 * aggregator: the ledger stays until then. */
static void test_store_hangs(void)
{
	char late[SESSION_KEY_BYTES];
	struct odd_store odd = { .base.ops = &odd_ops, .block = "b.xplane.pb" };
	struct fleet f;
	struct fake a = { .auto_deliver = true }, b = { .auto_arm = true };
	struct fake_upload stuck = { 0 };
	struct capture *c;

	fleet_start(&f, 20 * NS_PER_MS, 400 * NS_PER_MS);
	odd.real = f.agg.store.store;
	f.agg.store.store = &odd.base;
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 1, "armed"));
	fake_upload_start(&stuck, &b, 1, 10, FLAW_NONE);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK(fleet_host_is(c, 0, "complete"));
	CHECK_STR(fleet_result(c, 1).reason, "stalled");
	WAIT(&f, stuck.closed);
	CHECK_EQ(stuck.code, RPC_FAILED_PRECONDITION);
	WAIT(&f, f.agg.jobs.n == 1);
	CHECK(session_store_has_left(&f.agg.store, c->session));
	session_file_key(c->session, "", "b", late);
	atomic_store(&odd.keeps_all, true);
	odd_unblock(&odd);
	run_for(f.loop, 30 * NS_PER_S);
	CHECK(fleet_has_key(&f, late));
	atomic_store(&odd.keeps_all, false);
	WAIT(&f, !session_store_has_left(&f.agg.store, c->session));
	check_no_file(&f, c->session, "b");
	f.agg.store.store = odd.real;
	fleet_stop(&f);
}

/* The cancel is durable and answered; what the put stores is removed with all the rest. */
static void test_cancel_while_the_store_hangs(void)
{
	struct odd_store odd = { .base.ops = &odd_ops, .block = "a.xplane.pb" };
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct fake_upload stuck = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	odd.real = f.agg.store.store;
	f.agg.store.store = &odd.base;
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	fake_upload_start(&stuck, &a, 1, 10, FLAW_NONE);
	WAIT(&f, atomic_load(&odd.is_blocked));
	CHECK(capture_cancel(c));
	CHECK(!fleet_wait_durable(&f, c));
	run_for(f.loop, 60 * NS_PER_S);
	CHECK_EQ(c->state, CAP_COMMITTING);
	odd_unblock(&odd);
	WAIT(&f, c->state == CAP_FAILED);
	fleet_check_failed(&f, c->session);
	f.agg.store.store = odd.real;
	fleet_stop(&f);
}

static void take_over(struct fleet *f, const char *session)
{
	json_t *left = fleet_left(f, session);
	json_t *record = json_object_get(json_array_get(left, 0), "record");
	unsigned int n = (unsigned int)json_get_int(json_array_get(left, 0), "ledger");
	struct err e = { 0 };

	json_put(record, "owner", json_pack("{s:i, s:s}", "epoch", 2, "nonce", "0123456789abcdef"));
	CHECK_OK(ledger_put(f->agg.store.store, session, record, &n, &e), e);
	json_decref(left);
}

/* One is there already: the same, that of an upload that failed, or that of another aggregator. */
static void file_is_there(const char *bytes, bool is_taken_over, enum rpc_code code)
{
	static const char ours[] = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09";
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct buf got = BUF_INIT;
	char key[SESSION_KEY_BYTES];
	struct err e = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, fleet_host_is(c, 0, "armed"));
	session_file_key(c->session, "", "a", key);
	CHECK_OK(store_put_bytes(f.agg.store.store, key, bytes ? bytes : ours, 10, 0, any_time(),
				 &e),
		 e);
	if (is_taken_over)
		take_over(&f, c->session);
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), code);
	WAIT(&f, !f.agg.jobs.n);
	stored_bytes(&f, c, "a", &got);
	CHECK_EQ(got.len, 10);
	CHECK(!memcmp(got.data, code ? bytes : ours, 10));
	buf_release(&got);
	fleet_stop(&f);
}

/* A commit that took place and was reported as failed is not taken back by the next try. */
static void test_commit_reported_late(void)
{
	struct odd_store odd = { .base.ops = &odd_ops, .fail_late = "manifest.json" };
	struct fleet f;
	struct fake a = { .auto_deliver = true };
	json_t *manifest = NULL;
	struct err e = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	odd.real = f.agg.store.store;
	f.agg.store.store = &odd.base;
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	f.agg.store.store = odd.real;
	CHECK_OK(load_manifest(f.agg.store.store, c->session, &manifest, &e), e);
	json_decref(manifest);
	fleet_stop(&f);
}

static void test_uploads(void)
{
	test_bytes_arrive();
	test_further_files();
	test_flaws();
	test_upload_needs_credit();
	test_upload_needs_certificate();
	test_disk_as_bytes_arrive();
	test_garbage();
	test_file_check();
	test_resumed(false);
	test_resumed(true);
	test_wrong_sum_of_all();
	test_resumed_from_too_much();
	test_broken_by_the_deadline();
	test_retry_replaces();
	test_credits();
	test_credit_that_is_not_used();
}

static void test_stores(void)
{
	test_store_refuses("tutti/ledger/", "store", false);
	test_store_refuses(".xplane.pb", "upload", true);
	test_further_files_that_fail(true);
	test_further_files_that_fail(false);
	test_owner_cannot_be_read();
}

static void test_stores_that_hang(void)
{
	test_store_hangs();
	file_is_there(NULL, false, RPC_OK);
	file_is_there("0123456789", false, RPC_OK);
	file_is_there(NULL, true, RPC_OK);
	file_is_there("0123456789", true, RPC_UNAVAILABLE);
	test_commit_reported_late();
}

/* A test each, because waiting is real under ThreadSanitizer: what agents send; or, by the argument, stores that fail, or hang. */
int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";

	if (!strcmp(part, "stores"))
		test_stores();
	else if (!strcmp(part, "hang"))
		test_stores_that_hang();
	else if (!strcmp(part, "cancel"))
		test_cancel_while_the_store_hangs();
	else
		test_uploads();
	return 0;
}
