/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/xml.h"

#include <expat.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"

struct reading {
	XML_Parser parser;
	xml_fn fn;
	void *arg;
	char path[XML_PATH_MAX + 1];
	size_t len; /* of the path */
	int depth;
	bool has_elements; /* the element that is open has had elements inside */
	struct buf text;
	int stop; /* the error that ended the reading */
	struct err *e;
};

static void stop(struct reading *r, int rc)
{
	r->stop = rc;
	XML_StopParser(r->parser, XML_FALSE);
}

static void on_start(void *arg, const char *name, const char **attributes)
{
	struct reading *r = arg;
	size_t n = strlen(name);

	(void)attributes;
	if (r->stop)
		return;
	if (r->depth == XML_DEPTH_MAX || r->len + n + 1 > XML_PATH_MAX) {
		stop(r, err_set(r->e, ERR_LIMIT, "XML too deep"));
		return;
	}
	if (r->depth++)
		r->path[r->len++] = '/';
	memcpy(r->path + r->len, name, n + 1);
	r->len += n;
	r->has_elements = false;
	buf_reset(&r->text);
}

static const char *trimmed(struct buf *text)
{
	const char *from;

	while (text->len && strchr(" \t\r\n", text->data[text->len - 1]))
		buf_cut(text, text->len - 1);
	from = buf_str(text);
	return from + strspn(from, " \t\r\n");
}

static void on_end(void *arg, const char *name)
{
	struct reading *r = arg;
	size_t n = strlen(name);
	int rc;

	if (r->stop)
		return;
	rc = r->fn(r->arg, r->path, r->has_elements ? NULL : trimmed(&r->text), r->e);
	if (rc)
		stop(r, rc);
	r->len -= n;
	if (--r->depth)
		r->len--;
	r->path[r->len] = '\0';
	r->has_elements = true;
	buf_reset(&r->text);
}

static void on_text(void *arg, const char *text, int len)
{
	struct reading *r = arg;

	if (r->stop)
		return;
	if (r->text.len + (size_t)len > XML_TEXT_MAX)
		stop(r, err_set(r->e, ERR_LIMIT, "XML with a text beyond %zu bytes", XML_TEXT_MAX));
	else
		buf_add(&r->text, text, (size_t)len);
}

static void on_document_type(void *arg, const char *name, const char *system, const char *public,
			     int has_subset)
{
	struct reading *r = arg;

	(void)name;
	(void)system;
	(void)public;
	(void)has_subset;
	stop(r, err_set(r->e, ERR_PEER, "XML with a document type"));
}

int xml_read(const void *data, size_t len, xml_fn fn, void *arg, struct err *e)
{
	struct reading r = { .fn = fn, .arg = arg, .e = e };
	int rc = 0;

	if (len > INT_MAX)
		return err_set(e, ERR_LIMIT, "XML of %zu bytes", len);
	r.parser = XML_ParserCreate("UTF-8");
	if (!r.parser)
		return err_set(e, ERR_LIMIT, "no memory for an XML parser");
	XML_SetUserData(r.parser, &r);
	XML_SetElementHandler(r.parser, on_start, on_end);
	XML_SetCharacterDataHandler(r.parser, on_text);
	XML_SetStartDoctypeDeclHandler(r.parser, on_document_type);
	if (XML_Parse(r.parser, len ? data : "", (int)len, 1) != XML_STATUS_OK)
		rc = r.stop ? r.stop
			    : err_set(e, ERR_PEER, "not XML: %s",
				      XML_ErrorString(XML_GetErrorCode(r.parser)));
	else
		rc = r.stop;
	XML_ParserFree(r.parser);
	if (r.text.data)
		explicit_bzero(r.text.data, r.text.cap); /* an answer of STS has secrets */
	buf_release(&r.text);
	return rc;
}
