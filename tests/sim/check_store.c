/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the aggregator's store and in the agents' spools. */
#include "tests/lib/manifest.h"
#include "tests/sim/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/aggregator.h"
#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "proto/names.h"
#include "proto/reasons.h"
#include "storage/store.h"
#include "tests/lib/store.h"
#include "tests/sim/daemon.h"
#include "tests/sim/sim.h"
#include "tests/sim/user.h"

/* ---- what can be seen ---- */

static void check_sizes(struct store *s, const json_t *manifest)
{
	const json_t *hosts = json_object_get(manifest, "hosts");
	char directory[SESSION_KEY_BYTES];

	session_directory(json_get_text(manifest, "session"), json_get_text(manifest, "run"),
			  directory);
	for (size_t i = 0; i < json_array_size(hosts); i++) {
		const json_t *host = json_array_get(hosts, i);
		const json_t *files = json_object_get(host, "files");
		uint64_t bytes = 0;

		for (size_t k = 0; k < json_array_size(files); k++) {
			char *key = xasprintf("%s%s", directory,
					      json_string_value(json_array_get(files, k)));
			struct store_stat st = { 0 };
			struct err e;

			if (store_stat(s, key, any_time(), &st, &e))
				sim_fail("torn: %s", e.msg);
			bytes += st.size;
			free(key);
		}
		if (bytes != (uint64_t)json_get_int(host, "bytes") && json_array_size(files))
			sim_fail("torn: session %s host %s has %llu bytes, the manifest says %lld",
				 json_get_text(manifest, "session"), json_get_text(host, "host"),
				 (unsigned long long)bytes, (long long)json_get_int(host, "bytes"));
	}
}

static bool on_visible(void *arg, const char *key, const struct store_stat *st)
{
	struct store *s = arg;
	char session[128], name[64];
	json_t *manifest = NULL;
	struct err e;

	(void)st;
	if (sscanf(key, "tutti/sessions/%127[^/]/%63s", session, name) != 2 ||
	    strcmp(name, "manifest.json"))
		return true;
	if (load_manifest(s, session, &manifest, &e))
		sim_fail("torn: %s", e.msg);
	else
		check_sizes(s, manifest);
	json_decref(manifest);
	return true;
}

void check_visible(void)
{
	struct store *s = the_store();
	struct err e;

	if (list_keys(s, "tutti/sessions/", NULL, on_visible, s, &e))
		sim_fail("the store cannot be listed: %s", e.msg);
	store_free(s);
}

typedef int (*load_fn)(struct store *s, const char *session, json_t **out, struct err *e);

static bool has_document(struct store *s, load_fn load, const char *session)
{
	json_t *document = NULL;
	struct err e;
	bool found = !load(s, session, &document, &e);

	json_decref(document);
	return found;
}

bool check_has_record(const char *session)
{
	struct store *s = the_store();
	struct session_keys left = { 0 };
	struct err e;
	bool found = has_document(s, load_manifest, session) ||
		     has_document(s, session_load_failure, session);

	if (session_list_left(s, &left, &e))
		sim_fail("the store cannot be listed: %s", e.msg);
	for (size_t i = 0; i < left.n; i++)
		found |= !strcmp(left.items[i], session);
	session_keys_release(&left);
	store_free(s);
	return found;
}

/* ---- the store ---- */

/* The manifest that was read last: with a thousand hosts a session has as many keys, one after the other. */
struct last_manifest {
	struct store *store;
	char session[128];
	json_t *manifest; /* NULL: it has none, because of `e` */
	json_t *named; /* an object whose members are the files that it names */
	struct err e;
};

struct listing {
	struct last_manifest last;
	char foreign[128]; /* of the sessions that no request knows: the one checked last */
};

static json_t *names_of_files(const json_t *manifest)
{
	const json_t *hosts = json_object_get(manifest, "hosts"), *file;
	json_t *names = json_object();
	size_t k;

	for (size_t i = 0; i < json_array_size(hosts); i++)
		json_array_foreach(json_object_get(json_array_get(hosts, i), "files"), k, file)
			json_put_bool(names, json_string_value(file), true);
	return names;
}

static void last_manifest_release(struct last_manifest *l)
{
	json_decref(l->manifest);
	json_decref(l->named);
	l->manifest = l->named = NULL;
}

/* Borrowed, until the next one is read. */
static const json_t *last_manifest_read(struct last_manifest *l, const char *session)
{
	if (!strcmp(l->session, session))
		return l->manifest;
	last_manifest_release(l);
	snprintf(l->session, sizeof(l->session), "%s", session);
	if (!load_manifest(l->store, session, &l->manifest, &l->e))
		l->named = names_of_files(l->manifest);
	return l->manifest;
}

/* What became of a capture that is no session. */
static void check_failure(struct store *s, const char *session)
{
	json_t *record = NULL, *manifest = NULL;
	struct err e;

	if (session_load_failure(s, session, &record, &e))
		sim_fail("session %s failed: %s", session, e.msg);
	else if (strcmp(json_get_text(record, "state"), "failed") ||
		 !*json_get_text(record, "error"))
		sim_fail("session %s failed without a reason", session);
	if (!load_manifest(s, session, &manifest, &e))
		sim_fail("session %s failed, and is committed", session);
	json_decref(manifest);
	json_decref(record);
}

static void check_foreign(struct listing *l, const char *session, const json_t *manifest)
{
	if (user_find(session) || !strcmp(l->foreign, session))
		return;
	snprintf(l->foreign, sizeof(l->foreign), "%s", session);
	check_foreign_session(l->last.store, manifest);
}

/* Below profiles/ a key is plugins/profile/<session>/<file>, below tutti/sessions/ <session>/<file>,
 * below tutti/index/ and tutti/runs/~/ <day>/<hour>/<time>-<session>~<line>, below tutti/failed/ <session>.json. */
static bool on_key(void *arg, const char *key, const struct store_stat *st)
{
	struct listing *l = arg;
	const json_t *manifest;
	char session[128];

	(void)st;
	if (sscanf(key, "tutti/failed/%127[^.]", session) == 1) {
		check_failure(l->last.store, session);
		return true;
	}
	if (sscanf(key, "profiles/plugins/profile/%127[^/]/", session) != 1 &&
	    sscanf(key, "tutti/sessions/%127[^/]/", session) != 1 &&
	    sscanf(key, "tutti/index/%*[0-9]/%*[0-9]/%*[0-9]-%127[^~]", session) != 1 &&
	    sscanf(key, "tutti/runs/~/%*[0-9]/%*[0-9]/%*[0-9]-%127[^~]", session) != 1) {
		sim_fail("the store has a key %s", key);
		return true;
	}
	manifest = last_manifest_read(&l->last, session);
	if (!manifest)
		sim_fail("%s is left over: %s", key, l->last.e.msg);
	else if (!strncmp(key, "profiles/", 9) &&
		 !json_object_get(l->last.named, strrchr(key, '/') + 1))
		sim_fail("%s is left over: the manifest does not name it", key);
	else
		check_foreign(l, session, manifest);
	return true;
}

void check_store(void)
{
	struct listing l = { .last.store = the_store() };
	const struct request *w;
	struct err e;

	if (list_keys(l.last.store, "", NULL, on_key, &l, &e))
		sim_fail("the store cannot be listed: %s", e.msg);
	last_manifest_release(&l.last);
	store_free(l.last.store);
	TAILQ_FOREACH (w, user_requests(), entry) {
		if (w->committed)
			check_session(w);
	}
}

/* ---- spools ---- */

/* The host's result in a manifest; or NULL. */
static const json_t *find_result(const json_t *manifest, const char *host)
{
	const json_t *hosts = json_object_get(manifest, "hosts");

	for (size_t i = 0; i < json_array_size(hosts); i++) {
		if (!strcmp(json_get_text(json_array_get(hosts, i), "host"), host))
			return json_array_get(hosts, i);
	}
	return NULL;
}

/* A retry may fetch it, as may another one after a retry that failed. What was deleted is left to the lease after a
 * restart. */
static bool may_stay(struct last_manifest *last, const char *session, const char *host)
{
	const json_t *result = find_result(last_manifest_read(last, session), host);
	const struct request *w = user_find(session);
	const struct reason *r = result ? reason_find(json_get_text(result, "reason")) : NULL;
	bool may_be_fetched = r && !*json_get_text(result, "file") &&
			      ((w && w->retried) || (r->flags & REASON_DELIVERABLE));

	return may_be_fetched || (w && w->removal);
}

/* What is left in the spools. By session, since a thousand hosts have files of the same one. */
struct spooled {
	char session[256];
	const char *host;
};

struct spools {
	struct spooled *items;
	size_t n;
};

static void add_spool(struct spools *spools, const char *host)
{
	char *path = daemon_folder(host);
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		if (name_is_session(names[i]->d_name)) {
			spools->items = xrealloc(spools->items,
						 (spools->n + 1) * sizeof(*spools->items));
			spools->items[spools->n].host = host;
			snprintf(spools->items[spools->n++].session, sizeof(spools->items->session),
				 "%s", names[i]->d_name);
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	free(path);
}

static int by_session(const void *a, const void *b)
{
	const struct spooled *x = a, *y = b;
	int order = strcmp(x->session, y->session);

	return order ? order : strcmp(x->host, y->host);
}

void check_spools(bool leases_over)
{
	struct last_manifest last = { .store = the_store() };
	struct spools spools = { 0 };

	for (size_t i = 1; i < sim.n_hosts; i++)
		add_spool(&spools, sim.hosts[i]->name);
	if (spools.n)
		qsort(spools.items, spools.n, sizeof(*spools.items), by_session);
	for (size_t i = 0; i < spools.n; i++) {
		const struct spooled *f = &spools.items[i];

		if (leases_over || !may_stay(&last, f->session, f->host))
			sim_fail("the spool of %s has %s", f->host, f->session);
	}
	free(spools.items);
	check_counts.spools += sim.n_hosts - 1;
	check_counts.spools_late += leases_over ? sim.n_hosts - 1 : 0;
	last_manifest_release(&last);
	store_free(last.store);
}
