/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "net/digest.h"

#define NO_LINE "0000000000000000000000000000000000000000000000000000000000000000"
#define BATCH	256 /* lines that are written together */

struct line {
	json_t *entry;
	int64_t at_ns; /* Unix time */
	audit_fn fn;
	void *arg;
	STAILQ_ENTRY(line) entries;
};
STAILQ_HEAD(lines, line);

/* The end of the log. While a batch is being written, it is the worker's. */
struct tail {
	const char *path;
	char *head_path;
	uint64_t file_bytes; /* of the setting */
	int fd;
	uint64_t size, n;
	char hash[DIGEST_HEX_BYTES]; /* of line n */
};

struct audit {
	struct jobs *jobs;
	struct tail tail;
	struct lines waiting, batch;
	bool is_writing;
	int64_t second; /* of the refusals below */
	unsigned int refusals, uncounted; /* lines in this second; refusals without a line */
	int rc; /* of the last batch */
	struct err e;
	int batch_rc; /* the worker's */
	struct err batch_e;
};

/* ---- lines ---- */

static void put_instant(json_t *o, int64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / NS_PER_S);
	char text[40], day[24];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03dZ", day, (int)(unix_ns % NS_PER_S / NS_PER_MS));
	json_put_text(o, "at", text);
}

static void write_line(const struct tail *t, const struct line *l, struct buf *out)
{
	json_t *o = json_object();

	json_put_int(o, "n", (int64_t)t->n + 1);
	json_put_text(o, "prev", t->hash);
	put_instant(o, l->at_ns);
	json_object_update(o, l->entry);
	json_append(out, o, 0);
	if (out->len > AUDIT_LINE_BYTES) {
		json_object_del(o, "request");
		json_put_bool(o, "shortened", true);
		buf_reset(out);
		json_append(out, o, 0);
	}
	json_decref(o);
}

static void add_line(struct tail *t, const struct line *l, struct buf *text)
{
	struct buf line = BUF_INIT;

	write_line(t, l, &line);
	digest_sha256(line.data, line.len, t->hash);
	t->n++;
	buf_add(text, line.data, line.len);
	buf_add_str(text, "\n");
	buf_release(&line);
}

/* ---- the file ---- */

static int write_head(const struct tail *t, struct err *e)
{
	char text[128];
	int len = snprintf(text, sizeof(text), "{\"n\":%" PRIu64 ",\"hash\":\"%s\"}\n", t->n,
			   t->hash);

	return file_replace(t->head_path, 0600, text, (size_t)len, e);
}

static int open_file(struct tail *t, struct err *e)
{
	struct stat st;
	int rc;

	t->fd = open(t->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (t->fd < 0 || fstat(t->fd, &st))
		return err_errno(e, "%s", t->path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is no file", t->path);
	t->size = (uint64_t)st.st_size;
	/* the chains of two writers would be none */
	if (!flock(t->fd, LOCK_EX | LOCK_NB))
		return 0;
	rc = errno == EWOULDBLOCK
		     ? err_set(e, ERR_BUSY, "%s: another aggregator writes it", t->path)
		     : err_errno(e, "%s", t->path);
	close(t->fd);
	t->fd = -1;
	return rc;
}

/* The full file gets the number of its last line as its name's end; the caller frees it. */
static char *name_of_old(const struct tail *t)
{
	return xasprintf("%s.%012" PRIu64, t->path, t->n);
}

static int rotate(struct tail *t, struct err *e)
{
	char *old = name_of_old(t);
	int rc = rename(t->path, old) ? err_errno(e, "%s", old) : 0;

	free(old);
	if (rc)
		return rc;
	close(t->fd);
	t->fd = -1;
	return open_file(t, e);
}

/* Nothing of a batch that fails stays, so that the chain is whole. */
static int append(struct tail *t, const struct buf *text, struct err *e)
{
	int rc = file_write_all(t->fd, text->data, text->len, t->path, e);

	if (!rc && fdatasync(t->fd))
		rc = err_errno(e, "%s", t->path);
	if (rc && ftruncate(t->fd, (off_t)t->size))
		return err_prefix(e, "a line may be left that is not whole");
	if (!rc)
		t->size += text->len;
	return rc;
}

static int write_batch(struct tail *t, const struct lines *batch, struct err *e)
{
	struct tail next = *t;
	struct buf text = BUF_INIT;
	const struct line *l;
	int rc = 0;

	if (t->fd < 0)
		rc = open_file(t, e);
	else if (t->size > t->file_bytes)
		rc = rotate(t, e);
	next.fd = t->fd;
	next.size = t->size;
	STAILQ_FOREACH(l, batch, entries)
	add_line(&next, l, &text);
	if (!rc)
		rc = append(&next, &text, e);
	if (!rc) {
		*t = next;
		rc = write_head(t, e);
	}
	buf_release(&text);
	return rc;
}

/* ---- batches ---- */

static void begin_batch(struct audit *a);

static void run_batch(void *arg)
{
	struct audit *a = arg;

	a->batch_rc = write_batch(&a->tail, &a->batch, &a->batch_e);
}

static void done_batch(void *arg)
{
	struct audit *a = arg;
	struct lines done = STAILQ_HEAD_INITIALIZER(done);
	struct line *l;

	STAILQ_CONCAT(&done, &a->batch);
	a->is_writing = false;
	a->rc = a->batch_rc;
	a->e = a->batch_e;
	if (a->rc)
		log_error("AGG-AUDIT", "state=failing reason=\"%s\"", a->e.msg);
	while ((l = STAILQ_FIRST(&done)) != NULL) {
		STAILQ_REMOVE_HEAD(&done, entries);
		if (l->fn)
			l->fn(l->arg, a->rc ? &a->e : NULL);
		json_decref(l->entry);
		free(l);
	}
	begin_batch(a);
}

static void begin_batch(struct audit *a)
{
	struct line *l;

	if (a->is_writing || STAILQ_EMPTY(&a->waiting))
		return;
	a->is_writing = true;
	for (int i = 0; i < BATCH && (l = STAILQ_FIRST(&a->waiting)) != NULL; i++) {
		STAILQ_REMOVE_HEAD(&a->waiting, entries);
		STAILQ_INSERT_TAIL(&a->batch, l, entries);
	}
	jobs_work(a->jobs, run_batch, done_batch, a);
}

void audit_write(struct audit *a, json_t *entry_taken, audit_fn fn, void *arg)
{
	struct line *l;

	if (!a) {
		json_decref(entry_taken);
		if (fn)
			fn(arg, NULL);
		return;
	}
	l = xcalloc(1, sizeof(*l));
	*l = (struct line){ .entry = entry_taken, .at_ns = now_real_ns(), .fn = fn, .arg = arg };
	STAILQ_INSERT_TAIL(&a->waiting, l, entries);
	begin_batch(a);
}

void audit_refusal(struct audit *a, json_t *entry_taken, audit_fn fn, void *arg)
{
	int64_t second = now_mono_ns() / NS_PER_S;

	if (a && second != a->second) {
		a->second = second;
		a->refusals = 0;
	}
	if (a && a->refusals == AUDIT_REFUSALS_PER_S) {
		a->uncounted++;
		json_decref(entry_taken);
		if (fn)
			fn(arg, NULL);
		return;
	}
	if (a) {
		a->refusals++;
		if (a->uncounted)
			json_put_int(entry_taken, "refusals_before", a->uncounted);
		a->uncounted = 0;
	}
	audit_write(a, entry_taken, fn, arg);
}

int audit_check(const struct audit *a, struct err *e)
{
	if (!a || !a->rc)
		return 0;
	*e = a->e;
	return err_prefix(e, "the audit log cannot be written");
}

/* ---- opening ---- */

/* The last line of the file, which a kill may have cut: then that part, which was promised to no one, is removed. */
static int read_last_line(struct tail *t, struct buf *line, struct err *e)
{
	uint64_t want = 2 * AUDIT_LINE_BYTES + 2, from = t->size > want ? t->size - want : 0;
	char *text = xcalloc(1, want + 1);
	size_t len = (size_t)(t->size - from), end = len;
	int rc = len ? file_read_exact(t->fd, from, text, len, t->path, e) : 0;

	while (!rc && end && text[end - 1] != '\n')
		end--;
	if (!rc && end < len) {
		log_warn("AGG-AUDIT", "state=cut bytes=%zu reason=\"the last line was not whole\"",
			 len - end);
		t->size -= len - end;
		if (ftruncate(t->fd, (off_t)t->size))
			rc = err_errno(e, "%s", t->path);
	}
	if (!rc && end) {
		size_t begin = --end;

		while (begin && text[begin - 1] != '\n')
			begin--;
		buf_add(line, text + begin, end - begin);
	}
	free(text);
	return rc;
}

static int read_number(const struct buf *text, const char *path, json_t **doc, uint64_t *n,
		       struct err *e)
{
	int rc = json_parse(doc, text->data, text->len, e);

	if (rc)
		return err_prefix(e, "%s", path);
	*n = (uint64_t)json_get_int(*doc, "n");
	return 0;
}

/* `*n` 0: there is none. */
static int read_head(const struct tail *t, uint64_t *n, char hash[DIGEST_HEX_BYTES], struct err *e)
{
	struct buf text = BUF_INIT;
	json_t *doc = NULL;
	int rc = 0;

	*n = 0;
	if (!access(t->head_path, F_OK)) {
		rc = file_load(t->head_path, 4096, &text, e);
		if (!rc)
			rc = read_number(&text, t->head_path, &doc, n, e);
		if (!rc)
			snprintf(hash, DIGEST_HEX_BYTES, "%s", json_get_text(doc, "hash"));
	}
	json_decref(doc);
	buf_release(&text);
	return rc;
}

/* A file without a line: it is the first one, or the one before it is full. Else it was removed. */
static bool is_begun_anew(const struct tail *t)
{
	char *old = name_of_old(t);
	bool is_there = !access(old, F_OK);

	free(old);
	return !t->n || is_there;
}

/* Where the chain goes on. A file may have lines that its head does not know of: the head is written after them. */
static int read_tail(struct tail *t, struct err *e)
{
	char hash[DIGEST_HEX_BYTES] = NO_LINE;
	struct buf line = BUF_INIT;
	json_t *doc = NULL;
	uint64_t head_n = 0;
	int rc = read_head(t, &head_n, hash, e);

	snprintf(t->hash, sizeof(t->hash), "%s", hash);
	t->n = head_n;
	if (!rc)
		rc = read_last_line(t, &line, e);
	if (!rc && line.len) {
		rc = read_number(&line, t->path, &doc, &t->n, e);
		digest_sha256(line.data, line.len, t->hash);
	}
	if (!rc && !line.len && !is_begun_anew(t))
		rc = err_set(e, ERR_INVALID,
			     "%s has no line, and its head says line %" PRIu64
			     ": it was removed. Move the head away to begin another one",
			     t->path, head_n);
	else if (!rc && (t->n < head_n || (t->n == head_n && strcmp(hash, t->hash) != 0)))
		rc = err_set(e, ERR_INVALID,
			     "%s ends with line %" PRIu64 ", and its head says line %" PRIu64
			     ": it was changed (tutti audit verify). Move both away to begin "
			     "another one",
			     t->path, t->n, head_n);
	json_decref(doc);
	buf_release(&line);
	return rc;
}

int audit_open(struct audit **out, const struct audit_env *env, struct err *e)
{
	struct audit *a = xcalloc(1, sizeof(*a));
	int rc;

	a->jobs = env->jobs;
	STAILQ_INIT(&a->waiting);
	STAILQ_INIT(&a->batch);
	a->tail = (struct tail){ .path = env->path,
				 .head_path = xasprintf("%s.head", env->path),
				 .file_bytes = env->file_bytes,
				 .fd = -1 };
	rc = open_file(&a->tail, e);
	if (!rc)
		rc = read_tail(&a->tail, e);
	if (rc) {
		audit_free(a);
		return err_prefix(e, "audit");
	}
	*out = a;
	return 0;
}

void audit_free(struct audit *a)
{
	if (!a)
		return;
	if (a->tail.fd >= 0)
		close(a->tail.fd);
	free(a->tail.head_path);
	free(a);
}
