/* SPDX-License-Identifier: Apache-2.0 */
/* Listings in XML: those of S3 and of Azure differ in their names only. */
#include "storage/cloud_page.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/percent.h"
#include "storage/xml.h"

void cloud_page_release(struct cloud_page *page)
{
	for (size_t i = 0; i < page->n; i++)
		free(page->items[i].key);
	free(page->items);
	free(page->next);
	*page = (struct cloud_page){ 0 };
}

int cloud_page_add(struct cloud_page *page, struct cloud_listed **out, struct err *e)
{
	if (page->n == CLOUD_PAGE_KEYS)
		return err_set(e, ERR_LIMIT, "more than %d keys in a page", CLOUD_PAGE_KEYS);
	if (page->n == page->cap) {
		page->cap = page->cap ? 2 * page->cap : 64;
		page->items = xrealloc(page->items, page->cap * sizeof(*page->items));
	}
	*out = &page->items[page->n++];
	**out = (struct cloud_listed){ 0 };
	return 0;
}

/* The elements of one kind of listing. */
struct page_names {
	const char *root, *item; /* paths */
	const char *key, *size, *modified; /* below an item */
	bool key_is_encoded; /* %XX */
	int64_t (*read_time)(const char *text);
	const char *next; /* below the root */
	const char *
		truncated; /* below the root, "true" if there is a next page; NULL = if `next` has a text */
};

static const struct page_names s3_names = {
	"ListBucketResult",
	"ListBucketResult/Contents",
	"Key",
	"Size",
	"LastModified",
	true,
	iso_time_read,
	"NextContinuationToken",
	"IsTruncated",
};

static const struct page_names az_names = {
	"EnumerationResults",
	"EnumerationResults/Blobs/Blob",
	"Name",
	"Properties/Content-Length",
	"Properties/Last-Modified",
	false,
	http_time_read,
	"NextMarker",
	NULL,
};

struct page_reading {
	const struct page_names *names;
	struct cloud_page *page;
	struct cloud_listed *item; /* NULL = none is open */
	bool is_page, truncated;
};

static int set_key(struct cloud_listed *item, const char *text, bool is_encoded, struct err *e)
{
	size_t len = strlen(text);

	free(item->key);
	item->key = xmalloc(len + 1);
	if (is_encoded)
		return percent_decode(text, len, true, item->key, e);
	memcpy(item->key, text, len + 1);
	return 0;
}

static int on_member(const struct page_names *names, struct cloud_listed *item, const char *name,
		     const char *text, struct err *e)
{
	if (!strcmp(name, names->key))
		return set_key(item, text, names->key_is_encoded, e);
	if (!strcmp(name, names->size) && !cloud_read_u64(text, &item->st.size))
		return err_set(e, ERR_PEER, "a size that is no number");
	if (!strcmp(name, names->modified))
		item->st.modified_ns = cloud_time_ns(names->read_time(text));
	return 0;
}

static int end_item(struct page_reading *r, struct err *e)
{
	if (!r->item || !r->item->key)
		return err_set(e, ERR_PEER, "an entry without a key");
	r->item = NULL;
	return 0;
}

/* What stands below `path`; NULL if the element does not. */
static const char *below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return !strncmp(path, above, len) && path[len] == '/' ? path + len + 1 : NULL;
}

/* The first member of an item makes it. */
static int on_page_part(void *arg, const char *path, const char *text, struct err *e)
{
	struct page_reading *r = arg;
	const char *member = below(path, r->names->item), *name = below(path, r->names->root);
	int rc = 0;

	if (!strcmp(path, r->names->root)) {
		r->is_page = true;
	} else if (!strcmp(path, r->names->item)) {
		rc = end_item(r, e);
	} else if (member) {
		if (!r->item)
			rc = cloud_page_add(r->page, &r->item, e);
		if (!rc && text)
			rc = on_member(r->names, r->item, member, text, e);
	} else if (name && text && r->names->truncated && !strcmp(name, r->names->truncated)) {
		r->truncated = !strcmp(text, "true");
	} else if (name && text && *text && !strcmp(name, r->names->next)) {
		free(r->page->next);
		r->page->next = xstrdup(text);
	}
	return rc;
}

static int read_page(const struct page_names *names, struct cloud_page *page, const void *data,
		     size_t len, struct err *e)
{
	struct page_reading r = { .names = names, .page = page };
	int rc = xml_read(data, len, on_page_part, &r, e);

	if (!rc && !r.is_page)
		rc = err_set(e, ERR_PEER, "XML, but no listing");
	if (!rc && r.truncated && !page->next)
		rc = err_set(e, ERR_PEER, "a page without the token of the next one");
	if (!rc && names->truncated && !r.truncated) {
		free(page->next);
		page->next = NULL;
	}
	if (rc)
		err_prefix(e, "a listing that cannot be read");
	return rc;
}

int s3_page_read(struct cloud_page *page, const void *data, size_t len, struct err *e)
{
	return read_page(&s3_names, page, data, len, e);
}

int az_page_read(struct cloud_page *page, const void *data, size_t len, struct err *e)
{
	return read_page(&az_names, page, data, len, e);
}

static int on_removed_part(void *arg, const char *path, const char *text, struct err *e)
{
	(void)text;
	(void)e;
	if (!strcmp(path, "DeleteResult"))
		*(bool *)arg = true;
	return strcmp(path, "DeleteResult/Error") ? 0 : ERR_PEER;
}

bool s3_removed_read(const void *data, size_t len, size_t n)
{
	bool is_result = false;

	(void)n;
	return !xml_read(data, len, on_removed_part, &is_result, NULL) && is_result;
}
