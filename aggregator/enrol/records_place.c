/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/enrol/records_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "storage/store.h"

#define MAX_BYTES ((size_t)16 << 20)
#define FOLDER	  "tutti/enrol/"
#define DIGITS	  10
#define KEY_BYTES (sizeof(FOLDER) + 20 + sizeof(".json"))
#define TRIES	  8 /* more former leaders than that do not write at the same time */

static void make_key(uint64_t number, char key[KEY_BYTES])
{
	snprintf(key, KEY_BYTES, FOLDER "%0*" PRIu64 ".json", DIGITS, number);
}

/* 0 if the key is not that of records. */
static uint64_t number_of(const char *key)
{
	const char *digits = key + strlen(FOLDER);

	if (strspn(digits, "0123456789") != DIGITS || strcmp(digits + DIGITS, ".json"))
		return 0;
	return strtoull(digits, NULL, 10);
}

static bool note_highest(void *arg, const char *key, const struct store_stat *st)
{
	uint64_t *highest = arg, number = number_of(key);

	(void)st;
	if (number > *highest)
		*highest = number;
	return true;
}

static int load_object(struct records_place *p, struct buf *text, struct err *e)
{
	const struct store_list list = { .prefix = FOLDER,
					 .each = note_highest,
					 .arg = &p->number,
					 .deadline_mono_ns = store_within(STORE_PATIENCE_NS) };
	char key[KEY_BYTES];
	int rc = store_list(p->store, &list, e);

	if (rc)
		return rc;
	if (!p->number && !access(p->path, F_OK))
		return err_set(e, ERR_INVALID,
			       "%s has records, and the store has none: put the file into the "
			       "store as " FOLDER "0000000001.json, or remove it",
			       p->path);
	if (!p->number)
		return 0;
	make_key(p->number, key);
	return store_get_bytes(p->store, key, MAX_BYTES, store_within(STORE_PATIENCE_NS), text, e);
}

int records_place_load(struct records_place *p, struct buf *text, struct err *e)
{
	if (p->store)
		return load_object(p, text, e);
	return access(p->path, F_OK) ? 0 : file_load(p->path, MAX_BYTES, text, e);
}

/* Whether a put whose answer was lost has created this object. */
static bool is_stored(struct store *s, const char *key, const struct buf *text)
{
	struct buf stored = BUF_INIT;
	bool same = !store_get_bytes(s, key, MAX_BYTES, store_within(STORE_PATIENCE_NS), &stored,
				     NULL) &&
		    stored.len == text->len && !memcmp(stored.data, text->data, text->len);

	buf_release(&stored);
	return same;
}

static void remove_former(struct store *s, uint64_t number)
{
	char key[KEY_BYTES];
	struct err e;

	if (!number)
		return;
	make_key(number, key);
	if (store_remove(s, key, store_within(STORE_PATIENCE_NS), &e))
		log_warn("AGG-ENROL", "state=left key=%s reason=\"%s\"", key, e.msg);
}

static int save_object(struct records_place *p, const struct buf *text, struct err *e)
{
	uint64_t former = p->number;
	char key[KEY_BYTES];
	int rc = ERR_EXISTS;

	for (int i = 0; i < TRIES && rc == ERR_EXISTS; i++) {
		make_key(++p->number, key);
		rc = store_put_bytes(p->store, key, text->data, text->len, STORE_ABSENT,
				     store_within(STORE_PATIENCE_NS), e);
		if (rc == ERR_EXISTS && is_stored(p->store, key, text))
			rc = 0;
	}
	if (rc && rc != ERR_EXISTS)
		p->number--; /* the next save tries the same one again */
	else if (!rc)
		remove_former(p->store, former);
	return rc;
}

int records_place_save(struct records_place *p, const struct buf *text, struct err *e)
{
	if (p->store)
		return save_object(p, text, e);
	return file_replace(p->path, 0600, text->data, text->len, e);
}
