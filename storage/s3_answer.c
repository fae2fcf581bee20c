/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/s3_answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/percent.h"
#include "storage/xml.h"

void s3_answer_release(struct s3_answer *a)
{
	buf_release(&a->body);
}

/* ---- single values ---- */

static bool read_u64(const char *text, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && *end == '\0';
}

static void copy_tag(char out[STORE_TAG_MAX + 1], const char *text)
{
	size_t len = strlen(text);

	if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
		text++;
		len -= 2;
	}
	snprintf(out, STORE_TAG_MAX + 1, "%.*s", (int)(len > STORE_TAG_MAX ? STORE_TAG_MAX : len),
		 text);
}

/* "Fri, 24 May 2013 00:00:00 GMT"; 0 if it is none. */
static int64_t http_time_read(const char *text)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);

	return end && !*end ? timegm(&tm) : 0;
}

int64_t iso_time_read(const char *text)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (!end)
		return -1;
	if (*end == '.')
		end += 1 + strspn(end + 1, "0123456789");
	return !strcmp(end, "Z") || !strcmp(end, "+00:00") ? timegm(&tm) : -1;
}

void s3_answer_header(struct s3_answer *a, const char *name, const char *value)
{
	const char *slash;

	if (!strcmp(name, "etag"))
		copy_tag(a->tag, value);
	else if (!strcmp(name, "last-modified"))
		a->modified_ns = http_time_read(value) * NS_PER_S;
	else if (!strcmp(name, "date"))
		a->date_s = http_time_read(value);
	else if (!strcmp(name, "content-length"))
		read_u64(value, &a->length);
	else if (!strcmp(name, "content-range") && (slash = strchr(value, '/')))
		a->has_total = read_u64(slash + 1, &a->total);
	else if (!strcmp(name, "x-amz-meta-tutti-put"))
		snprintf(a->nonce, sizeof(a->nonce), "%s", value);
	else if (!strcmp(name, "x-amz-bucket-region"))
		snprintf(a->region, sizeof(a->region), "%s", value);
}

/* ---- errors ---- */

static int on_error_part(void *arg, const char *path, const char *text, struct err *e)
{
	struct s3_answer *a = arg;
	const char *name = strrchr(path, '/');

	(void)e;
	if (!name || !text)
		return 0;
	if (!strcmp(name, "/Code"))
		clean_text(a->code, sizeof(a->code), text, strlen(text));
	else if (!strcmp(name, "/Message"))
		clean_sentence(a->message, sizeof(a->message), text, strlen(text));
	return 0;
}

void s3_answer_read_error(struct s3_answer *a)
{
	if (a->body.len && xml_read(a->body.data, a->body.len, on_error_part, a, NULL))
		a->code[0] = a->message[0] = '\0';
}

/* ---- pages ---- */

static void add_item(struct s3_page *page)
{
	if (page->n == page->cap) {
		page->cap = page->cap ? 2 * page->cap : 64;
		page->items = xrealloc(page->items, page->cap * sizeof(*page->items));
	}
	page->items[page->n++] = (struct s3_listed){ 0 };
}

static int set_key(struct s3_listed *item, const char *text, struct err *e)
{
	size_t len = strlen(text);

	free(item->key);
	item->key = xmalloc(len + 1);
	return percent_decode(text, len, true, item->key, e);
}

/* One member of <Contents>; the first makes the item. */
static int on_member(struct s3_page *page, const char *name, const char *text, struct err *e)
{
	struct s3_listed *item = &page->items[page->n - 1];
	int64_t modified_s = 0;

	if (!strcmp(name, "Key"))
		return set_key(item, text, e);
	if (!strcmp(name, "Size") && !read_u64(text, &item->st.size))
		return err_set(e, ERR_PEER, "a size that is no number");
	if (!strcmp(name, "ETag"))
		copy_tag(item->st.tag, text);
	if (!strcmp(name, "LastModified"))
		modified_s = iso_time_read(text);
	if (modified_s > 0)
		item->st.modified_ns = modified_s * NS_PER_S;
	return 0;
}

struct page_reading {
	struct s3_page *page;
	bool inside; /* the last item is not whole yet */
	bool is_page;
};

static int end_item(struct page_reading *r, struct err *e)
{
	if (!r->inside || !r->page->items[r->page->n - 1].key)
		return err_set(e, ERR_PEER, "an entry without a key");
	r->inside = false;
	return 0;
}

static int begin_item(struct page_reading *r, struct err *e)
{
	if (r->page->n == S3_PAGE_KEYS)
		return err_set(e, ERR_LIMIT, "more than %d keys in a page", S3_PAGE_KEYS);
	add_item(r->page);
	r->inside = true;
	return 0;
}

static int on_page_part(void *arg, const char *path, const char *text, struct err *e)
{
	static const char root[] = "ListBucketResult/", contents[] = "ListBucketResult/Contents";
	struct page_reading *r = arg;
	const char *name = path + strlen(root);
	int rc = 0;

	if (!strcmp(path, "ListBucketResult"))
		r->is_page = true;
	if (strncmp(path, root, strlen(root)))
		return 0;
	if (!strcmp(path, contents))
		return end_item(r, e);
	if (!strncmp(path, contents, strlen(contents)) && path[strlen(contents)] == '/') {
		if (!r->inside)
			rc = begin_item(r, e);
		if (!rc && text)
			rc = on_member(r->page, path + sizeof(contents), text, e);
	} else if (text && !strcmp(name, "IsTruncated")) {
		r->page->truncated = !strcmp(text, "true");
	} else if (text && !strcmp(name, "NextContinuationToken")) {
		free(r->page->next);
		r->page->next = xstrdup(text);
	}
	return rc;
}

int s3_page_read(struct s3_page *page, const void *data, size_t len, struct err *e)
{
	struct page_reading r = { .page = page };
	int rc = xml_read(data, len, on_page_part, &r, e);

	if (!rc && !r.is_page)
		rc = err_set(e, ERR_PEER, "XML, but no listing");
	if (!rc && page->truncated && (!page->next || !*page->next))
		rc = err_set(e, ERR_PEER, "a page without the token of the next one");
	if (rc)
		err_prefix(e, "a listing that cannot be read");
	return rc;
}

void s3_page_release(struct s3_page *page)
{
	for (size_t i = 0; i < page->n; i++)
		free(page->items[i].key);
	free(page->items);
	free(page->next);
	*page = (struct s3_page){ 0 };
}
