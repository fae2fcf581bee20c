/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/import_split.h"

#include <inttypes.h>
#include <string.h>

/* Inside an object. */
static void count(struct import_split *s, char c)
{
	if (s->escaped) {
		s->escaped = false;
	} else if (s->in_text) {
		s->escaped = c == '\\';
		s->in_text = c != '"';
	} else {
		s->in_text = c == '"';
		s->depth += (c == '{') - (c == '}');
	}
}

/* Between objects. */
static int begin(struct import_split *s, char c, struct err *e)
{
	if (c == '{') {
		s->depth = 1;
		s->object_line = s->line + 1;
		return 0;
	}
	if (c && strchr(" \t\r\n,[]", c))
		return 0;
	return err_set(e, ERR_INVALID, "line %" PRIu64 ": no JSON object begins here", s->line + 1);
}

/* Adds bytes of the open object. */
static int extend(struct import_split *s, const char *p, size_t len, struct err *e)
{
	if (s->object.len + len > IMPORT_OBJECT_BYTES)
		return err_set(e, ERR_LIMIT, "line %" PRIu64 ": an object of more than %d bytes",
			       s->object_line, IMPORT_OBJECT_BYTES);
	buf_add(&s->object, p, len);
	return 0;
}

static int deliver(struct import_split *s, import_object_fn fn, void *arg, struct err *e)
{
	struct import_object object = { .text = (const char *)s->object.data,
					.len = s->object.len,
					.offset = s->offset - s->object.len,
					.line = s->object_line };
	int rc = fn(arg, &object, e);

	buf_reset(&s->object);
	return rc;
}

int import_split_add(struct import_split *s, const void *data, size_t len, import_object_fn fn,
		     void *arg, struct err *e)
{
	const char *p = data, *end = p + len, *from = p; /* of the open object's bytes here */
	int rc = 0;

	for (; p < end && !rc; p++) {
		if (!s->depth) {
			from = p;
			rc = begin(s, *p, e);
		} else {
			count(s, *p);
		}
		s->line += *p == '\n';
		s->offset++;
		if (!rc && !s->depth && *p == '}') {
			rc = extend(s, from, (size_t)(p + 1 - from), e);
			if (!rc)
				rc = deliver(s, fn, arg, e);
		}
	}
	return !rc && s->depth ? extend(s, from, (size_t)(end - from), e) : rc;
}

int import_split_end(const struct import_split *s, struct err *e)
{
	if (!s->depth)
		return 0;
	return err_set(e, ERR_INVALID,
		       "line %" PRIu64 ": the object that begins here has no end: the file is cut",
		       s->object_line);
}

void import_split_release(struct import_split *s)
{
	buf_release(&s->object);
}
