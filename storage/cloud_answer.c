/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/cloud_answer.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "storage/xml.h"

void cloud_answer_release(struct cloud_answer *a)
{
	if (a->location)
		explicit_bzero(a->location, strlen(a->location));
	free(a->location);
	buf_release(&a->body);
	*a = (struct cloud_answer){ 0 };
}

/* ---- single values ---- */

bool cloud_read_u64(const char *text, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && *end == '\0';
}

void cloud_copy_tag(char out[STORE_TAG_MAX + 1], const char *text)
{
	size_t len = strlen(text);

	if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
		text++;
		len -= 2;
	}
	snprintf(out, STORE_TAG_MAX + 1, "%.*s", (int)(len > STORE_TAG_MAX ? STORE_TAG_MAX : len),
		 text);
}

int64_t cloud_time_ns(int64_t unix_s)
{
	return unix_s > 0 && unix_s < INT64_MAX / NS_PER_S ? unix_s * NS_PER_S : 0;
}

int64_t http_time_read(const char *text)
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

/* Eight hexadecimal digits. */
static bool read_crc32c(const char *text, uint32_t *out)
{
	if (strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8)
		return false;
	*out = (uint32_t)strtoul(text, NULL, 16);
	return true;
}

/* Each kind of store has a name of its own for the header that holds a put's nonce. */
static bool is_nonce(const char *name)
{
	static const char *const names[] = { "x-amz-meta-tutti-put", "x-goog-meta-tutti-put",
					     "x-ms-meta-tuttiput" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

void cloud_answer_header(struct cloud_answer *a, const char *name, const char *value)
{
	const char *slash;

	if (!strcmp(name, "etag") && !a->has_generation)
		cloud_copy_tag(a->tag, value);
	else if (!strcmp(name, "x-goog-generation")) {
		cloud_copy_tag(a->tag, value);
		a->has_generation = true;
	} else if (!strcmp(name, "last-modified"))
		a->modified_ns = cloud_time_ns(http_time_read(value));
	else if (!strcmp(name, "date"))
		a->date_s = http_time_read(value);
	else if (!strcmp(name, "content-length"))
		cloud_read_u64(value, &a->length);
	else if (!strcmp(name, "content-range") && (slash = strchr(value, '/')))
		a->has_total = cloud_read_u64(slash + 1, &a->total);
	else if (!strcmp(name, "x-amz-meta-tutti-crc32c") || !strcmp(name, "x-ms-meta-tutticrc32c"))
		a->has_crc32c = read_crc32c(value, &a->crc32c);
	else if (is_nonce(name))
		snprintf(a->nonce, sizeof(a->nonce), "%s", value);
	else if (!strcmp(name, "x-amz-bucket-region"))
		snprintf(a->region, sizeof(a->region), "%s", value);
	else if (!strcmp(name, "x-ms-error-code"))
		clean_text(a->code, sizeof(a->code), value, strlen(value));
	else if (!strcmp(name, "location") && !a->location)
		a->location = xstrdup(value);
}

/* ---- errors ---- */

static int on_error_part(void *arg, const char *path, const char *text, struct err *e)
{
	struct cloud_answer *a = arg;
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

static void take_text(char *out, size_t size, const char *text)
{
	clean_sentence(out, size, text, strlen(text));
}

/* Google's {"error": {"message", "errors": [{"reason"}]}}, and {"error", "error_description"} of OAuth. */
static void read_json(struct cloud_answer *a)
{
	json_t *doc = NULL;
	const json_t *error;

	if (json_parse(&doc, a->body.data, a->body.len, NULL))
		return;
	error = json_object_get(doc, "error");
	if (json_is_string(error)) {
		take_text(a->code, sizeof(a->code), json_string_value(error));
		take_text(a->message, sizeof(a->message), json_get_text(doc, "error_description"));
	} else if (json_is_object(error)) {
		const json_t *first = json_array_get(json_object_get(error, "errors"), 0);

		take_text(a->code, sizeof(a->code), json_get_text(first, "reason"));
		take_text(a->message, sizeof(a->message), json_get_text(error, "message"));
	}
	json_decref(doc);
}

void cloud_answer_read_error(struct cloud_answer *a)
{
	if (!a->body.len)
		return;
	if (a->body.data[0] == '{')
		read_json(a);
	else if (xml_read(a->body.data, a->body.len, on_error_part, a, NULL))
		a->code[0] = a->message[0] = '\0';
}
