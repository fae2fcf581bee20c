/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/evidence/causality.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json/json_text.h"
#include "json/packed.h"
#include "aggregator/evidence/refine_report.h"
#include "aggregator/sessions/sessions.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"
#include "proto/names.h"
#include "storage/store.h"
#include "xspace/causality.h"

#define LISTED_MAX   100 /* violations in a manifest */
#define NAMES_MAX    3 /* hosts that a sentence names for one reason */
#define WINDOW_BYTES (256 << 10)
#define PREFIX	     "causality: "

enum skip {
	SKIP_OFF,
	SKIP_UNCALIBRATED,
	SKIP_OTHER_WINDOW,
	SKIP_UNREADABLE,
	SKIP_NO_REPORT,
	SKIP_TIME,
	SKIPS,
};

static const char *const skip_words[SKIPS] = {
	[SKIP_OFF] = "not checked, switched off",
	[SKIP_UNCALIBRATED] = "not checked, clock uncalibrated",
	[SKIP_OTHER_WINDOW] = "not checked, recorded in another window",
	[SKIP_UNREADABLE] = "not checked, file cannot be read",
	[SKIP_NO_REPORT] = "not checked, its observations are not known here",
	[SKIP_TIME] = "not checked, it would take too long",
};

struct checking {
	struct store *store; /* NULL: files are not read */
	const struct causality_report *reports;
	json_t *manifest;
	int64_t budget_ns, deadline_mono_ns;
	struct xs_causality *found;
	json_t *results; /* the manifest's hosts */
	char **names; /* places of the hosts that are read, in the order of xs_causality_add() */
	size_t *at; /* their places in `results` */
	size_t n_hosts;
	struct buf skipped[SKIPS]; /* names */
	size_t n_skipped[SKIPS];
};

/* A host's files, read as one: concatenated XSpaces are an XSpace. */
struct files {
	struct {
		int fd;
		uint64_t begin, end;
	} all[LIMIT_HOST_FILES];
	size_t n, at; /* `at`: the file that was read last */
	int64_t deadline_mono_ns;
};

static bool seek_file(struct files *f, uint64_t offset)
{
	for (size_t i = 0; i < f->n; i++) {
		if (offset >= f->all[f->at].begin && offset < f->all[f->at].end)
			return true;
		f->at = (f->at + 1) % f->n;
	}
	return false;
}

/* Some of the bytes at `offset`; 0 at the end. */
static ssize_t read_some(struct files *f, uint64_t offset, void *out, size_t len)
{
	uint64_t left;

	if (!seek_file(f, offset))
		return 0;
	left = f->all[f->at].end - offset;
	return pread(f->all[f->at].fd, out, len < left ? len : (size_t)left,
		     (off_t)(offset - f->all[f->at].begin));
}

static int files_read(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	struct files *f = arg;
	size_t done = 0;

	if (now_mono_ns() >= f->deadline_mono_ns)
		return err_set(e, ERR_TIMEOUT, "the time for the check is used up");
	while (done < len) {
		ssize_t n = read_some(f, offset + done, (char *)out + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(e, "reading");
		if (!n)
			return err_set(e, ERR_INVALID, "the file ends too early");
		done += (size_t)n;
	}
	return 0;
}

static int open_files(struct files *f, const struct checking *k, const json_t *host, struct err *e)
{
	size_t n = json_array_size(json_object_get(host, "files"));
	char name[NAME_FILE_BYTES], key[SESSION_KEY_BYTES];
	uint64_t size = 0, end = 0;
	int rc = 0;

	for (f->n = 0; f->n < n && f->n < LIMIT_HOST_FILES; f->n++) {
		name_of_file(json_get_text(host, "host"), (unsigned int)f->n + 1, name);
		session_file_key(json_get_text(k->manifest, "session"),
				 json_get_text(k->manifest, "run"), name, key);
		rc = store_open_fd(k->store, key, store_within(STORE_PATIENCE_NS), &f->all[f->n].fd,
				   &size, e);
		if (rc)
			break;
		f->all[f->n].begin = end;
		f->all[f->n].end = end += size;
	}
	return rc;
}

static void begin_host(struct checking *k, const json_t *host, size_t at)
{
	k->names[k->n_hosts] = xstrdup(json_get_text(host, "host"));
	k->at[k->n_hosts++] = at;
}

static bool has_report(const struct checking *k, size_t at)
{
	return k->reports && k->reports[at].len;
}

static int take_report(struct checking *k, const json_t *host, size_t at, struct err *e)
{
	begin_host(k, host, at);
	return xs_causality_add_packed(k->found, k->reports[at].data, k->reports[at].len,
				       json_get_int(host, "clock_bound_ns"), e);
}

static int read_files(struct checking *k, const json_t *host, size_t at, struct err *e)
{
	struct files f = { .deadline_mono_ns = k->deadline_mono_ns };
	struct xs_source in = { .read = files_read, .arg = &f, .window_bytes = WINDOW_BYTES };
	int rc = open_files(&f, k, host, e);

	if (!rc) {
		in.size = f.n ? f.all[f.n - 1].end : 0;
		begin_host(k, host, at);
		rc = xs_causality_add(k->found, &in, json_get_int(host, "clock_bound_ns"), e);
	}
	while (f.n-- > 0)
		close(f.all[f.n].fd);
	return rc;
}

static int read_host(struct checking *k, const json_t *host, size_t at, struct err *e)
{
	return has_report(k, at) ? take_report(k, host, at, e) : read_files(k, host, at, e);
}

static void skip_host(struct checking *k, const json_t *host, enum skip why)
{
	if (k->n_skipped[why]++ < NAMES_MAX)
		buf_addf(&k->skipped[why], "%s%s", k->skipped[why].len ? ", " : "",
			 json_get_text(host, "host"));
}

static void check_host(struct checking *k, const json_t *host, size_t at)
{
	struct err e = { 0 };

	if (!k->budget_ns) {
		skip_host(k, host, SKIP_OFF);
	} else if (!json_is_integer(json_object_get(host, "clock_bound_ns"))) {
		skip_host(k, host, SKIP_UNCALIBRATED);
	} else if (json_object_get(host, "t0_ns")) {
		skip_host(k, host, SKIP_OTHER_WINDOW);
	} else if (!has_report(k, at) && !k->store) {
		skip_host(k, host, SKIP_NO_REPORT);
	} else if (now_mono_ns() >= k->deadline_mono_ns) {
		skip_host(k, host, SKIP_TIME);
	} else if (read_host(k, host, at, &e)) {
		skip_host(k, host, e.code == ERR_TIMEOUT ? SKIP_TIME : SKIP_UNREADABLE);
		if (e.code != ERR_TIMEOUT)
			log_warn("AGG-CAUSALITY", "session=%s host=%s reason=\"%s\"",
				 json_get_text(k->manifest, "session"), json_get_text(host, "host"),
				 e.msg);
	}
}

/* ---- the report ---- */

static void put_skipped(const struct checking *k, json_t *o)
{
	struct buf text = BUF_INIT;

	for (size_t i = 0; i < SKIPS; i++) {
		if (!k->n_skipped[i])
			continue;
		buf_addf(&text, "%s%s: %s", text.len ? "; " : "", skip_words[i],
			 buf_str(&k->skipped[i]));
		if (k->n_skipped[i] > NAMES_MAX)
			buf_addf(&text, " and %zu more", k->n_skipped[i] - NAMES_MAX);
	}
	json_put_text(o, "skipped", buf_str(&text));
	buf_release(&text);
}

static const char *name_of(const struct checking *k, size_t host)
{
	return k->names[host];
}

static json_t *violation_json(const struct checking *k, const struct xs_violation *v)
{
	json_t *o = json_object();

	json_put_text(o, "key", v->key);
	json_put_text(o, "early", name_of(k, v->early));
	json_put_text(o, "late", name_of(k, v->late));
	json_put_int(o, "by_ns", v->by_ns);
	return o;
}

static const char *suspect_name(const struct checking *k, const struct xs_verdict *v)
{
	return v->suspect == XS_NO_HOST ? "" : name_of(k, v->suspect);
}

static json_t *collectives_json(const struct xs_verdict *v)
{
	json_t *o = json_object();

	json_put_int(o, "recorded", (int64_t)v->collectives);
	json_put_int(o, "matched", (int64_t)v->matched_collectives);
	json_put_int(o, "ambiguous", (int64_t)v->ambiguous_collectives);
	return o;
}

static json_t *verdict_json(const struct checking *k, const struct xs_verdict *v)
{
	json_t *o = json_object(), *list = json_array();
	size_t n = v->n_violations < LISTED_MAX ? v->n_violations : LISTED_MAX;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, violation_json(k, &v->violations[i]));
	json_put_int(o, "checked", (int64_t)v->checked);
	json_put(o, "violations", list);
	json_put_int(o, "more", (int64_t)(v->n_violations - n));
	json_put_text(o, "guilty", suspect_name(k, v));
	json_put_int(o, "ambiguous", (int64_t)v->ambiguous);
	json_put_int(o, "left_out", (int64_t)v->left_out);
	json_put(o, "collectives", collectives_json(v));
	put_skipped(k, o);
	return o;
}

/* Removes the warning of an earlier commit: a retry has added files. */
static void remove_warning(json_t *warnings)
{
	for (size_t i = json_array_size(warnings); i-- > 0;) {
		const char *text = json_string_value(json_array_get(warnings, i));

		if (text && !strncmp(text, PREFIX, strlen(PREFIX)))
			json_array_remove(warnings, i);
	}
}

static void add_warning(const struct checking *k, const struct xs_verdict *v, json_t *warnings)
{
	const char *suspect = suspect_name(k, v);
	char *text = xasprintf(
		PREFIX "%zu of %zu flows, barriers and collectives run backwards, up to %" PRId64
		       " us beyond the clocks' bounds; %s%s",
		v->n_violations, v->checked, v->violations[0].by_ns / NS_PER_US,
		*suspect ? "most involve " : "no host stands out", suspect);

	log_warn("AGG-CAUSALITY",
		 "session=%s violations=%zu checked=%zu by_ns=%" PRId64 " guilty=%s",
		 json_get_text(k->manifest, "session"), v->n_violations, v->checked,
		 v->violations[0].by_ns, suspect);
	json_array_append_new(warnings, json_text(text));
	free(text);
}

static json_t *steps_json(const struct xs_steps *s)
{
	json_t *o = json_object();

	json_put_int(o, "first", s->first);
	json_put_int(o, "last", s->last);
	json_put_int(o, "first_at_ns", s->first_at_ns);
	json_put_int(o, "end_at_ns", s->end_at_ns);
	return o;
}

/* Sets the steps of hosts that do not mark them. */
static void put_steps(const struct checking *k, const struct xs_verdict *v)
{
	for (size_t i = 0; i < k->n_hosts; i++) {
		json_t *host;

		if (!v->steps[i].known)
			continue;
		host = packed_get(k->results, k->at[i]);
		if (!json_object_get(host, "steps"))
			json_put(host, "steps", steps_json(&v->steps[i]));
		packed_set(k->results, k->at[i], host);
	}
}

static void check_hosts(struct checking *k)
{
	for (size_t i = 0; i < json_array_size(k->results); i++) {
		json_t *host = packed_get(k->results, i);

		if (*json_get_text(host, "file"))
			check_host(k, host, i);
		json_decref(host);
	}
}

static void release(struct checking *k)
{
	for (size_t i = 0; i < SKIPS; i++)
		buf_release(&k->skipped[i]);
	for (size_t i = 0; i < k->n_hosts; i++)
		free(k->names[i]);
	xs_causality_free(k->found);
	free(k->names);
	free(k->at);
}

void causality_check(struct store *s, json_t *manifest, const struct causality_report *reports,
		     int64_t budget_ns)
{
	json_t *results = json_object_get(manifest, "hosts");
	json_t *warnings = json_object_get(manifest, "warnings");
	struct checking k = {
		.store = s,
		.reports = reports,
		.manifest = manifest,
		.budget_ns = budget_ns,
		.deadline_mono_ns = now_mono_ns() + budget_ns,
		.found = xs_causality_new(),
		.results = results,
		.names = xcalloc(json_array_size(results), sizeof(char *)),
		.at = xcalloc(json_array_size(results), sizeof(size_t)),
	};
	struct xs_verdict verdict;

	xs_causality_set_window(k.found, json_get_int(manifest, "duration_ns"));
	check_hosts(&k);
	xs_causality_judge(k.found, &verdict);
	json_put(manifest, "causality", verdict_json(&k, &verdict));
	put_steps(&k, &verdict);
	remove_warning(warnings);
	if (*json_get_text(manifest, "refine"))
		refine_report(manifest, k.at, k.n_hosts, &verdict);
	if (verdict.n_violations)
		add_warning(&k, &verdict, warnings);
	release(&k);
}
