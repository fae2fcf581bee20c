/* SPDX-License-Identifier: Apache-2.0 */
/*
 * That files were stored is not enough for a commit: one listing of the session's files is compared with what the hosts
 * report. A host whose files are not all there has failed; a file that is not listed is asked for by its key before, since there
 * are stores whose listings come late. Where agents put files into the store themselves, their sizes are compared, too, and where
 * the listing has no other file, the commit need not look for what failed uploads left. Where the aggregator has put them, the
 * removal of a broken one may have come so late that it took the next one with it.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/names.h"
#include "proto/reasons.h"
#include "storage/store.h"

/* After so many hosts whose files are not found by their keys either, no more are asked for: a store that has lost all files is not
 * asked 10,000 times. */
#define LACKING_MOST 256

struct listing {
	struct capture *copy;
	unsigned int *n_right; /* by host: listed files that are as reported */
	size_t n; /* listed files */
	bool was_asked; /* files were asked for by their keys */
};

/* A file that the aggregator has put has the size that was put, and notes. */
static bool has_size(const struct capture_host *h, unsigned int n, uint64_t size)
{
	if (n < 1 || n > h->n_files)
		return false;
	if (!h->capture->captures->env.by_grants)
		return true;
	if (h->n_reported == h->n_files)
		return h->reported_files[n - 1].bytes == size;
	return h->n_files > 1 || h->bytes == size; /* an agent that reports no files */
}

/* "HOST.xplane.pb", "HOST~2.xplane.pb", ...: for store_list(). */
static bool add_listed(void *arg, const char *key, const struct store_stat *st)
{
	struct listing *l = arg;
	const char *name = strrchr(key, '/') + 1;
	size_t len = strlen(name), suffix = strlen(SESSION_FILE_SUFFIX);
	struct capture_host *h;
	char *host, *number;

	if (len <= suffix || strcmp(name + len - suffix, SESSION_FILE_SUFFIX))
		return true;
	l->n++;
	host = xstrndup(name, len - suffix);
	number = strchr(host, '~');
	if (number)
		*number++ = '\0';
	h = capture_find_host_by_name(l->copy, host);
	if (h && has_size(h, number ? (unsigned int)strtoul(number, NULL, 10) : 1, st->size))
		l->n_right[h - l->copy->hosts]++;
	free(host);
	return true;
}

static bool is_checked(const struct capture_host *h)
{
	return h->stored && !h->old_result;
}

static bool is_missing(const struct listing *l, size_t i)
{
	const struct capture_host *h = &l->copy->hosts[i];

	return is_checked(h) && l->n_right[i] != h->n_files;
}

static int count_files(struct store *s, const struct capture *c, const struct capture_host *h,
		       unsigned int *n_right, struct err *e)
{
	char key[SESSION_KEY_BYTES], name[NAME_FILE_BYTES];
	struct store_stat st;
	int rc = 0;

	*n_right = 0;
	for (unsigned int n = 1; !rc && n <= h->n_files; n++) {
		name_of_file(h->name, n, name);
		session_file_key(c->session, c->run, name, key);
		rc = store_stat(s, key, store_within(STORE_PATIENCE_NS), &st, e);
		*n_right += !rc && has_size(h, n, st.size);
	}
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

static int ask_for_missing(struct store *s, struct listing *l, struct err *e)
{
	size_t n_lacking = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i < l->copy->n_hosts && n_lacking < LACKING_MOST; i++) {
		if (!is_missing(l, i))
			continue;
		l->was_asked = true;
		rc = count_files(s, l->copy, &l->copy->hosts[i], &l->n_right[i], e);
		n_lacking += is_missing(l, i);
	}
	return rc;
}

static void fail_missing(struct listing *l)
{
	struct capture *c = l->copy;

	for (size_t i = 0; i < c->n_hosts; i++) {
		struct capture_host *h = &c->hosts[i];

		if (!is_missing(l, i))
			continue;
		h->state = HOST_FAILED;
		h->stored = false;
		h->reason = REASON_UPLOAD;
		h->detail = "its files were reported as stored, but the store does not list them "
			    "all with their sizes";
		c->n_missing++;
		log_warn("AGG-HOST-RESULT",
			 "session=%s host=%s state=failed reason=%s listed=%u files=%u", c->session,
			 h->name, h->reason, l->n_right[i], h->n_files);
	}
}

/* Whether each listed file is one that the manifest will name. One that came late may lack others, too. */
static bool is_tidy(const struct listing *l)
{
	const struct capture *c = l->copy;
	size_t named = 0;

	if (l->was_asked)
		return false;
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (c->hosts[i].stored && l->n_right[i] == c->hosts[i].n_files)
			named += c->hosts[i].n_files;
	}
	return named == l->n;
}

static bool any_host(const struct capture *c, bool (*wants)(const struct capture_host *h))
{
	for (size_t i = 0; i < c->n_hosts; i++) {
		if (wants(&c->hosts[i]))
			return true;
	}
	return false;
}

static bool has_file(const struct capture_host *h)
{
	return h->stored;
}

int capture_check_stored(struct store *s, struct capture *copy, struct err *e)
{
	struct listing l = { .copy = copy };
	char directory[SESSION_KEY_BYTES];
	const struct store_list list = { .prefix = directory,
					 .each = add_listed,
					 .arg = &l,
					 .deadline_mono_ns = store_within(STORE_PATIENCE_NS) };
	int rc;

	if (!any_host(copy, is_checked))
		return 0;
	l.n_right = xcalloc(copy->n_hosts, sizeof(*l.n_right));
	session_directory(copy->session, copy->run, directory);
	rc = store_list(s, &list, e);
	if (!rc)
		rc = ask_for_missing(s, &l, e);
	if (!rc)
		fail_missing(&l);
	copy->is_tidy = !rc && copy->captures->env.by_grants && is_tidy(&l);
	if (!rc && !any_host(copy, has_file))
		err_set(&copy->error, ERR_PEER, "the store lists no host's file");
	free(l.n_right);
	return rc;
}

void capture_apply_stored(struct capture *c, const struct capture *copy)
{
	for (size_t i = 0; copy->n_missing && i < c->n_hosts; i++) {
		if (c->hosts[i].stored && !copy->hosts[i].stored) {
			c->hosts[i].state = copy->hosts[i].state;
			c->hosts[i].reason = copy->hosts[i].reason;
			c->hosts[i].detail = copy->hosts[i].detail;
			c->hosts[i].stored = false;
		}
	}
	if (copy->error.code && !c->error.code)
		c->error = copy->error;
}
