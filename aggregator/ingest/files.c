/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/ingest/files.h"

#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "proto/names.h"
#include "storage/store.h"

static void file_key(const struct ingest_files *f, unsigned int n, char out[SESSION_KEY_BYTES])
{
	char name[NAME_FILE_BYTES];

	name_of_file(f->host, n, name);
	session_file_key(f->session, f->run, name, out);
}

/* Replaces a file of this name that no manifest names: an earlier aggregator stored it and ended before it
 * recorded that. */
static int replace_file(struct store *s, const struct store_put *put, struct err *e)
{
	int rc = store_remove(s, put->key, put->deadline_mono_ns, e);

	return rc ? rc : store_put(s, put, NULL, e);
}

static int put_file(const struct ingest_files *f, unsigned int n, struct store_put *put,
		    struct err *e)
{
	char key[SESSION_KEY_BYTES];
	int rc;

	file_key(f, n, key);
	put->key = key;
	rc = store_put(f->store, put, NULL, e);
	return rc == ERR_EXISTS ? replace_file(f->store, put, e) : rc;
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

void ingest_files_remove(const struct ingest_files *f)
{
	char key[SESSION_KEY_BYTES];
	struct err e;

	for (unsigned int n = 1; n <= f->n; n++) {
		file_key(f, n, key);
		if (store_remove(f->store, key, store_within(STORE_PATIENCE_NS), &e))
			log_error("AGG-STORE", "key=%s action=remove reason=\"%s\"", key, e.msg);
	}
}
