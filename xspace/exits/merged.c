/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XSpaces of several hosts as one: XSpaces that follow one another are one XSpace, so files are copied, with the names
 * of planes and the ids of devices spliced in.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/exits/exits.h"
#include "xspace/splice.h"
#include "xspace/text.h"

struct merged {
	struct xs_sink out;
	struct exit_counts counts;
	uint64_t next_device; /* the id of the next plane of a device */
	bool has_host_plane, has_environment; /* one has that name already */
	char host[132]; /* of the file before */
	bool is_further; /* the present file is not the first of its host */
	struct buf text, scratch;
};

/* What is spliced into a plane. */
struct found {
	struct wire_field name, id; /* their last occurrence; end = 0: absent */
	const char *text; /* the name; borrowed until the next step of the wire */
	size_t len;
};

static int find_fields(struct merged *m, struct wire *w, const struct wire_field *plane,
		       struct found *out, struct err *e)
{
	struct wire_walk walk = wire_walk(w, plane, schema_xplane);
	const uint8_t *bytes = NULL;
	struct wire_field f;
	int rc;

	*out = (struct found){ .text = "" };
	while ((rc = wire_next(&walk, &f, e)) > 0) {
		if (f.number == XPLANE_NAME)
			out->name = f;
		else if (f.number == XPLANE_ID)
			out->id = f;
		else if (f.number == XPLANE_LINES)
			m->counts.tracks++;
	}
	if (rc || !out->name.end)
		return rc;
	rc = wire_peek(w, out->name.body, out->name.value, &bytes, e);
	if (rc)
		return rc;
	out->text = (const char *)bytes;
	out->len = (size_t)out->name.value;
	return 0;
}

/* Readers look for these two by name, and expect one of each. */
static bool keeps_name(struct merged *m, const struct found *plane)
{
	bool *has = NULL;

	if (text_equals(plane->text, plane->len, HOST_PLANE))
		has = &m->has_host_plane;
	else if (text_equals(plane->text, plane->len, ENVIRONMENT_PLANE))
		has = &m->has_environment;
	if (!has || *has)
		return false;
	return *has = true;
}

static struct splice splice_name(struct merged *m, const struct found *plane,
				 const struct wire_field *message)
{
	struct splice s = { .at = message->body, .until = message->body };
	const char *clean = text_clean(plane->text, plane->len, &m->scratch);

	if (plane->name.end) {
		s.at = plane->name.at;
		s.until = plane->name.end;
	}
	buf_reset(&m->text);
	buf_add_u8(&m->text, WIRE_TAG(XPLANE_NAME, WIRE_LEN));
	buf_add_varint(&m->text, plane->len + strlen(m->host) + 3);
	buf_add(&m->text, clean, plane->len);
	buf_addf(&m->text, " [%s]", m->host);
	s.bytes = m->text.data;
	s.len = m->text.len;
	return s;
}

static int write_plane(struct merged *m, struct wire *w, const struct wire_field *f,
		       struct splicer *sp, struct err *e)
{
	struct splice head, splices[2];
	struct found plane;
	uint64_t len = f->end - f->body;
	size_t n = 0;
	int rc = find_fields(m, w, f, &plane, e);

	if (rc)
		return rc;
	if (m->is_further && text_equals(plane.text, plane.len, ENVIRONMENT_PLANE))
		return splicer_cut(sp, f->at, f->end, e); /* it repeats the first file's */
	if (plane.len > 8 && !memcmp(plane.text, "/device:", 8))
		splices[n++] = splice_varint(&plane.id, f, XPLANE_ID, m->next_device++);
	if (!keeps_name(m, &plane))
		splices[n++] = splice_name(m, &plane, f);
	if (n == 2 && splices[0].at > splices[1].at) {
		struct splice first = splices[1];

		splices[1] = splices[0];
		splices[0] = first;
	}
	for (size_t i = 0; i < n; i++)
		len += (uint64_t)splice_growth(&splices[i]);
	head = splice_head(f, len);
	rc = splicer_put(sp, &head, e);
	for (size_t i = 0; i < n && !rc; i++)
		rc = splicer_put(sp, &splices[i], e);
	return rc ? rc : splicer_copy(sp, f->end, e);
}

/* An error or a warning, with the host that it is of. */
static int write_text(struct merged *m, struct wire *w, const struct wire_field *f,
		      struct splicer *sp, struct err *e)
{
	struct splice s = { .at = f->at, .until = f->end };
	const uint8_t *bytes;
	int rc = wire_peek(w, f->body, f->value, &bytes, e);

	if (rc)
		return rc;
	buf_reset(&m->text);
	buf_add_u8(&m->text, WIRE_TAG(f->number, WIRE_LEN));
	buf_add_varint(&m->text, f->value + strlen(m->host) + 2);
	buf_addf(&m->text, "%s: ", m->host);
	buf_add(&m->text, text_clean((const char *)bytes, (size_t)f->value, &m->scratch),
		(size_t)f->value);
	s.bytes = m->text.data;
	s.len = m->text.len;
	return splicer_put(sp, &s, e);
}

static int write_fields(struct merged *m, struct wire *w, struct splicer *sp, struct err *e)
{
	struct wire_field root = wire_root(w->src), f;
	struct wire_walk walk = wire_walk(w, &root, schema_xspace);
	int rc;

	while ((rc = wire_next(&walk, &f, e)) > 0) {
		rc = 0;
		if (f.number == XSPACE_PLANES)
			rc = write_plane(m, w, &f, sp, e);
		else if (f.number == XSPACE_ERRORS || f.number == XSPACE_WARNINGS)
			rc = write_text(m, w, &f, sp, e);
		if (rc)
			return rc;
	}
	return rc ? rc : splicer_copy(sp, root.end, e);
}

/* ---- all ---- */

struct merged *merged_new(const struct exit_conf *conf, const struct xs_sink *out)
{
	struct merged *m = xcalloc(1, sizeof(*m));

	(void)conf;
	m->out = *out;
	return m;
}

int merged_add(struct merged *m, const struct exit_host *host, const struct xs_source *in,
	       struct err *e)
{
	struct splicer sp;
	struct wire w;
	int rc;

	m->is_further = !strcmp(m->host, host->name);
	snprintf(m->host, sizeof(m->host), "%s", host->name);
	wire_open(&w, in);
	splicer_open(&sp, in, &m->out);
	rc = write_fields(m, &w, &sp, e);
	if (!rc)
		rc = splicer_flush(&sp, e);
	m->counts.bytes += sp.written;
	splicer_close(&sp);
	wire_close(&w);
	if (!rc && m->counts.bytes > INT32_MAX)
		rc = err_set(e, ERR_LIMIT,
			     "one XSpace has at most 2 GiB, as protobuf reads no more: export "
			     "fewer hosts (--host), or without --merge");
	return rc;
}

int merged_end(struct merged *m, struct exit_counts *counts, struct err *e)
{
	(void)e;
	*counts = m->counts;
	return 0;
}

void merged_free(struct merged *m)
{
	if (!m)
		return;
	buf_release(&m->text);
	buf_release(&m->scratch);
	free(m);
}
