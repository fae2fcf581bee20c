/* SPDX-License-Identifier: Apache-2.0 */
/* Objects and listings of Google's JSON API. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json_text.h"
#include "storage/cloud_page.h"

/* Numbers of 64 bits are texts in this API. */
static int read_stat(struct store_stat *st, const json_t *o, struct err *e)
{
	if (!cloud_read_u64(json_get_text(o, "size"), &st->size))
		return err_set(e, ERR_PEER, "an object without a size");
	st->modified_ns = cloud_time_ns(iso_time_read(json_get_text(o, "updated")));
	return 0;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* 32 bits are five digits of six bits, and one of two. */
void gs_crc32c_text(uint32_t crc32c, char out[GS_CRC32C_BYTES])
{
	for (int i = 0; i < 5; i++)
		out[i] = digits[crc32c >> (26 - 6 * i) & 63];
	out[5] = digits[(crc32c & 3) << 4];
	memcpy(out + 6, "==", 3);
}

static bool read_crc32c(const char *text, uint32_t *out)
{
	char again[GS_CRC32C_BYTES];

	*out = 0;
	if (strlen(text) != GS_CRC32C_BYTES - 1)
		return false;
	for (int i = 0; i < 6; i++) {
		const char *digit = strchr(digits, text[i]);
		uint32_t value = digit ? (uint32_t)(digit - digits) : 0;

		*out = i < 5 ? *out << 6 | value : *out << 2 | value >> 4;
	}
	gs_crc32c_text(*out, again);
	return !strcmp(again, text);
}

int gs_object_read(struct cloud_answer *a, const void *data, size_t len, struct err *e)
{
	struct store_stat st = { 0 };
	json_t *o = NULL;
	int rc = json_parse(&o, data, len, NULL);

	if (rc)
		return err_set(e, ERR_PEER, "an object whose description is no JSON");
	rc = read_stat(&st, o, e);
	if (!rc) {
		a->length = st.size;
		a->modified_ns = st.modified_ns;
		cloud_copy_tag(a->tag, json_get_text(o, "generation"));
		a->has_crc32c = read_crc32c(json_get_text(o, "crc32c"), &a->crc32c);
		snprintf(a->nonce, sizeof(a->nonce), "%s",
			 json_get_text(json_object_get(o, "metadata"), "tutti-put"));
	}
	json_decref(o);
	return rc;
}

static int read_items(struct cloud_page *page, const json_t *items, struct err *e)
{
	struct cloud_listed *item;
	const json_t *o;
	size_t i;
	int rc = 0;

	json_array_foreach(items, i, o)
	{
		if (!*json_get_text(o, "name"))
			return err_set(e, ERR_PEER, "an entry without a key");
		rc = cloud_page_add(page, &item, e);
		if (!rc) {
			item->key = xstrdup(json_get_text(o, "name"));
			rc = read_stat(&item->st, o, e);
		}
		if (rc)
			break;
	}
	return rc;
}

int gs_page_read(struct cloud_page *page, const void *data, size_t len, struct err *e)
{
	json_t *doc = NULL;
	int rc = 0;

	if (json_parse(&doc, data, len, NULL) || !json_is_object(doc))
		rc = err_set(e, ERR_PEER, "no JSON object");
	if (!rc)
		rc = read_items(page, json_object_get(doc, "items"), e);
	if (!rc && *json_get_text(doc, "nextPageToken"))
		page->next = xstrdup(json_get_text(doc, "nextPageToken"));
	if (rc)
		err_prefix(e, "a listing that cannot be read");
	json_decref(doc);
	return rc;
}
