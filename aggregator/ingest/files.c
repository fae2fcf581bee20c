/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/ingest/files.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/sessions.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/names.h"
#include "storage/store.h"

static void file_key(const struct ingest_files *f, unsigned int n, char out[SESSION_KEY_BYTES])
{
	char name[NAME_FILE_BYTES];

	name_of_file(f->host, n, name);
	session_file_key(f->session, f->run, name, out);
}

/* ---- a file that is there already ---- */

struct comparison {
	const struct store_put *put;
	uint64_t at;
	bool differs;
	uint8_t *bytes; /* bytes read from the spool */
};

/* A store_sink_fn. */
static int compare(void *arg, const void *data, size_t len, struct err *e)
{
	struct comparison *c = arg;
	const struct store_put *put = c->put;
	const uint8_t *ours = put->data ? (const uint8_t *)put->data + c->at : c->bytes;
	int rc = 0;

	if (c->differs || len > put->len - c->at) {
		c->differs = true;
		return 0;
	}
	if (!put->data)
		rc = file_read_exact(put->fd, put->offset + c->at, c->bytes, len, "the spool", e);
	c->differs = !rc && memcmp(ours, data, len);
	c->at += len;
	return rc;
}

static int is_same(struct store *s, const struct store_put *put, bool *same, struct err *e)
{
	struct comparison c = { .put = put, .bytes = xmalloc(STORE_CHUNK_BYTES) };
	const struct store_get get = { .key = put->key,
				       .len = put->len + 1,
				       .sink = compare,
				       .arg = &c,
				       .deadline_mono_ns = put->deadline_mono_ns };
	int rc = store_get(s, &get, NULL, e);

	*same = !rc && !c.differs && c.at == put->len;
	free(c.bytes);
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

/* Replaces a file that an earlier upload left: its aggregator ended before it recorded the file, or could not
 * remove it. */
static int replace_file(const struct ingest_files *f, const struct store_put *put, struct err *e)
{
	bool same = false;
	int rc = is_same(f->store, put, &same, e);

	if (rc || same)
		return rc;
	rc = session_check_owner(f->store, f->session, f->nonce, e);
	if (!rc)
		rc = store_remove(f->store, put->key, put->deadline_mono_ns, e);
	return rc ? rc : store_put(f->store, put, NULL, e);
}

/* ---- all files of a host ---- */

static int put_file(const struct ingest_files *f, unsigned int n, struct store_put *put,
		    struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	file_key(f, n, key);
	put->key = key;
	rc = store_put(f->store, put, NULL, e);
	return rc == ERR_EXISTS ? replace_file(f, put, e) : rc;
}

int ingest_files_put(const struct ingest_files *f, const struct spooled_upload *upload,
		     struct err *e)
{
	uint64_t offset = upload->bytes;
	int rc = 0;

	for (unsigned int n = f->n; n > 0 && !rc; n--) {
		struct store_put put = { .fd = upload->fd,
					 .len = f->bytes[n - 1],
					 .flags = STORE_ABSENT | STORE_TAKE,
					 .deadline_mono_ns = store_within(STORE_FILE_PATIENCE_NS) };

		offset -= put.len;
		if (upload->memory)
			put.data = upload->memory + offset;
		else
			put.offset = offset;
		rc = put_file(f, n, &put, e);
	}
	return rc;
}

bool ingest_files_remove(const struct ingest_files *f)
{
	char key[SESSION_KEY_BYTES];
	bool removed = true;
	struct err e;

	for (unsigned int n = 1; n <= f->n; n++) {
		file_key(f, n, key);
		if (!store_remove(f->store, key, store_within(STORE_PATIENCE_NS), &e))
			continue;
		log_error("AGG-STORE", "key=%s action=remove reason=\"%s\"", key, e.msg);
		removed = false;
	}
	return removed;
}
