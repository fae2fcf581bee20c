/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes into a file of the session which hosts are missing, because XProf shows the warnings of files, but
 * no manifest. One file is enough: XProf's pages about all hosts show the warnings of every file. It is the
 * smallest file of this commit; files of an earlier commit are never changed. All other warnings in files are
 * from the agents.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>

#include "aggregator/evidence/notes.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/names.h"

#define MAX_NOTES 100

/* One text for each missing host; at the limit, one text for all further hosts. */
static size_t make_texts(const struct capture *c, char *texts[MAX_NOTES + 1])
{
	size_t n = 0, missing = 0;

	for (size_t i = 0; i < c->n_hosts; i++) {
		const struct capture_host *h = &c->hosts[i];

		if (h->state != HOST_FAILED)
			continue;
		if (missing++ < MAX_NOTES)
			texts[n++] = xasprintf("%s is missing: %s: %s", h->name, h->reason,
					       h->detail);
	}
	if (missing > MAX_NOTES)
		texts[n++] = xasprintf("%zu more hosts are missing", missing - MAX_NOTES);
	return n;
}

/* None where agents put their files into the store themselves: no byte of them comes here. */
static struct capture_host *find_smallest(struct capture *c)
{
	struct capture_host *smallest = NULL;

	for (size_t i = 0; i < c->n_hosts && !c->captures->env.by_grants; i++) {
		struct capture_host *h = &c->hosts[i];

		if (h->stored && !h->old_result && h->n_files == 1 &&
		    (!smallest || h->bytes < smallest->bytes))
			smallest = h;
	}
	return smallest;
}

struct owned {
	struct store *store;
	const struct capture *copy;
};

/* An aggregator that was frozen may not know that another one has ended the session: its manifest has the file's checksum. */
static int check_owner(void *arg, struct err *e)
{
	const struct owned *o = arg;

	return session_check_owner(o->store, o->copy->session, o->copy->captures->env.store->nonce,
				   e);
}

/* A failure to add warnings does not fail the commit: the manifest has them, too. But the manifest also needs
 * the file's size, so an unknown size is an error. `*crc32c` as for notes_put(), or NULL. */
static int put(struct store *s, struct capture *copy, struct capture_host *h, char *const *texts,
	       size_t n, uint32_t *crc32c, struct err *e)
{
	char key[SESSION_KEY_BYTES], name[NAME_FILE_BYTES];
	struct owned owned = { s, copy };
	const struct notes_file file = { .store = s,
					 .key = key,
					 .spool = copy->captures->env.spool,
					 .may_replace = check_owner,
					 .arg = &owned };
	uint64_t size = h->n_reported == 1 ? h->reported_files[0].bytes : h->bytes;
	int rc;

	name_of_file(h->name, 1, name);
	session_file_key(copy->session, copy->run, name, key);
	rc = notes_put(&file, texts, n, &size, crc32c, e);
	if (!size)
		return rc;
	if (rc)
		log_warn("AGG-NOTES", "session=%s reason=\"%s\"", copy->session, e->msg);
	h->bytes = h->bytes_done = size;
	return 0;
}

/* What the host reported is shared with other copies of the capture, so the new checksum stands in the copy. */
static int put_noted(struct store *s, struct capture *copy, struct capture_host *h,
		     char *const *texts, size_t n, struct err *e)
{
	bool is_reported = h->n_reported == 1;
	int rc;

	if (is_reported)
		copy->noted_file = h->reported_files[0];
	rc = put(s, copy, h, texts, n, is_reported ? &copy->noted_file.crc32c : NULL, e);
	if (rc) /* the next try needs the host's own report */
		return rc;
	if (is_reported)
		h->reported_files = &copy->noted_file;
	copy->noted_file.bytes = h->bytes;
	copy->noted = (size_t)(h - copy->hosts) + 1;
	return 0;
}

/* The file is longer than its agent says: an aggregator that did not live to commit gave it warnings, which may not be
 * true any more. */
static bool has_old_notes(const struct capture_host *h)
{
	return h->stored && !h->old_result && h->n_files == 1 && h->n_reported == 1 &&
	       h->bytes > h->reported_files[0].bytes;
}

int capture_store_notes(struct store *s, struct capture *copy, struct err *e)
{
	char *texts[MAX_NOTES + 1];
	size_t n = make_texts(copy, texts);
	struct capture_host *noted = n ? find_smallest(copy) : NULL;
	int rc = 0;

	for (size_t i = 0; i < copy->n_hosts && !rc && !copy->captures->env.by_grants; i++) {
		if (&copy->hosts[i] == noted || !has_old_notes(&copy->hosts[i]))
			continue;
		rc = put(s, copy, &copy->hosts[i], NULL, 0, NULL, e);
		copy->n_cleared++;
	}
	if (!rc && noted)
		rc = put_noted(s, copy, noted, texts, n, e);
	while (n)
		free(texts[--n]);
	return rc;
}
