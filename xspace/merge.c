/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads everything before it writes anything. First the names of the planes of all inputs (gather), then the
 * places of their lines (plan), then their new names (merge_names): now the size of each plane is known.
 * Writing is the second pass of a rebase, with a few more splices per plane.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/merge_names.h"
#include "xspace/merge_texts.h"
#include "xspace/plan.h"
#include "xspace/text.h"

/* The hostname of a further file is longer by at most this. */
#define HOSTNAME_SLACK 16

struct merging {
	const struct xs_input *inputs;
	size_t n_inputs;
	const struct xs_host *host;
	const struct xs_sink *out;
	struct plan *plans; /* one per input */
	size_t *first_plane; /* of each input: index in `planes` */
	struct merge_plane *planes; /* of all inputs, in order */
	size_t n_planes, planes_cap;
	struct merge_texts errors, warnings;
	size_t input; /* the one being read */
	/* counts of the output; counts.bytes lacks the bytes of the input that is being written */
	struct xs_counts counts;
	/* bytes that the planes of one file may have; UINT64_MAX = no limit */
	uint64_t space_bytes;
	uint64_t file_began; /* offset in the whole output */
	unsigned int file; /* 1, 2, ... */
	const char *hostname; /* of this file */
};

/* ---- gather ---- */

static int gather_plane(void *arg, const struct xs_plane *p)
{
	struct merging *m = arg;

	if (m->n_planes == m->planes_cap) {
		m->planes_cap = m->planes_cap ? 2 * m->planes_cap : 64;
		m->planes = xrealloc(m->planes, m->planes_cap * sizeof(*m->planes));
	}
	m->planes[m->n_planes++] = (struct merge_plane){
		.input = m->input,
		.pid = m->inputs[m->input].pid,
		.name = xstrdup(p->name),
		.id = p->id,
	};
	return 0;
}

static int gather_stat_metadata(void *arg, int64_t id, const char *name, size_t len)
{
	static const char wanted[] = "process_id";
	struct merging *m = arg;
	struct merge_plane *p = &m->planes[m->n_planes - 1];

	if (id > p->greatest_stat)
		p->greatest_stat = id;
	if (len == strlen(wanted) && !memcmp(name, wanted, len))
		p->process_id_stat = id;
	return 0;
}

static int gather_plane_stat(void *arg, const struct xs_stat *s)
{
	struct merging *m = arg;
	struct merge_plane *p = &m->planes[m->n_planes - 1];

	if (p->process_id_stat && s->metadata_id == p->process_id_stat && s->kind == XS_INT) {
		p->has_process_id = true;
		p->process_id = s->i;
	}
	return 0;
}

static int gather_text(void *arg, int field, const char *s, size_t len)
{
	struct merging *m = arg;
	const char *label = m->inputs[m->input].label;

	if (field == XSPACE_ERRORS)
		merge_texts_add(&m->errors, label, s, len);
	else if (field == XSPACE_WARNINGS)
		merge_texts_add(&m->warnings, label, s, len);
	return 0;
}

static void name_input(const struct xs_input *in, struct err *e)
{
	if (in->label && *in->label)
		err_prefix(e, "%s", in->label);
}

static int read_input(struct merging *m, size_t i, struct err *e)
{
	static const struct xs_visitor gather = {
		.plane_begin = gather_plane,
		.stat_metadata = gather_stat_metadata,
		.plane_stat = gather_plane_stat,
		.text = gather_text,
	};
	const struct xs_input *in = &m->inputs[i];
	struct wire w;
	int rc;

	m->input = i;
	m->first_plane[i] = m->n_planes;
	rc = xs_read(&in->source, &gather, m, e);
	if (!rc) {
		wire_open(&w, &in->source);
		rc = plan_make(&m->plans[i], &w, &in->rebase, e);
		wire_close(&w);
	}
	if (!rc && m->plans[i].n_planes != m->n_planes - m->first_plane[i])
		rc = err_set(e, ERR_INVALID, "the input changed");
	if (rc)
		name_input(in, e);
	return rc;
}

static void add_texts(struct merge_texts *t, const char *const *texts)
{
	for (; texts && *texts; texts++)
		merge_texts_add(t, NULL, *texts, strlen(*texts));
}

/* XProf looks for HLO only in the plane of that name. */
static void warn_of_hidden_hlo(struct merging *m)
{
	for (size_t i = 0; i < m->n_planes; i++) {
		const struct merge_plane *p = &m->planes[i];
		char *text;

		if (strcmp(p->name, METADATA_PLANE) || !strcmp(p->new_name, METADATA_PLANE))
			continue;
		text = xasprintf(
			"its HLO is in the plane %s: XProf shows the HLO of one process of "
			"a host",
			p->new_name);
		merge_texts_add(&m->warnings, m->inputs[p->input].label, text, strlen(text));
		free(text);
	}
}

/* ---- write ---- */

/* The splices of one plane, and their bytes. */
struct plane_splices {
	struct splice all[3];
	size_t n;
	struct buf name, stats;
};

static void add_splice(struct plane_splices *s, const struct splice *splice)
{
	size_t i = s->n++;

	for (; i > 0 && s->all[i - 1].at > splice->at; i--)
		s->all[i] = s->all[i - 1];
	s->all[i] = *splice;
}

static void splice_name(struct plane_splices *s, const struct plan_plane *plane, const char *name)
{
	size_t len = strlen(name);
	struct buf scratch = BUF_INIT;
	struct splice splice = { .at = plane->field.body, .until = plane->field.body };

	if (plane->name.end) {
		splice.at = plane->name.at;
		splice.until = plane->name.end;
	}
	buf_add_u8(&s->name, WIRE_TAG(XPLANE_NAME, WIRE_LEN));
	buf_add_varint(&s->name, len);
	buf_add(&s->name, text_clean(name, len, &scratch), len);
	splice.bytes = s->name.data;
	splice.len = s->name.len;
	add_splice(s, &splice);
	buf_release(&scratch);
}

static void put_message(struct buf *out, uint32_t number, const struct buf *message)
{
	buf_add_u8(out, WIRE_TAG(number, WIRE_LEN));
	buf_add_varint(out, message->len);
	buf_add(out, message->data, message->len);
}

/* An entry {id: {id, name}} of the plane's stat metadata. */
static void put_stat_metadata(struct buf *out, int64_t id, const char *name)
{
	struct buf value = BUF_INIT, entry = BUF_INIT;

	buf_add_u8(&value, WIRE_TAG(METADATA_ID, WIRE_VARINT));
	buf_add_varint(&value, (uint64_t)id);
	buf_add_u8(&value, WIRE_TAG(METADATA_NAME, WIRE_LEN));
	buf_add_varint(&value, strlen(name));
	buf_add_str(&value, name);
	buf_add_u8(&entry, WIRE_TAG(ENTRY_KEY, WIRE_VARINT));
	buf_add_varint(&entry, (uint64_t)id);
	put_message(&entry, ENTRY_VALUE, &value);
	put_message(out, XPLANE_STAT_METADATA, &entry);
	buf_release(&value);
	buf_release(&entry);
}

static void put_stat(struct buf *out, int64_t id, const struct xs_known *k)
{
	struct buf stat = BUF_INIT, scratch = BUF_INIT;

	buf_add_u8(&stat, WIRE_TAG(XSTAT_METADATA_ID, WIRE_VARINT));
	buf_add_varint(&stat, (uint64_t)id);
	if (k->text) {
		size_t len = strlen(k->text);

		buf_add_u8(&stat, WIRE_TAG(XSTAT_STR, WIRE_LEN));
		buf_add_varint(&stat, len);
		buf_add(&stat, text_clean(k->text, len, &scratch), len);
	} else {
		buf_add_u8(&stat, WIRE_TAG(XSTAT_INT, WIRE_VARINT));
		buf_add_varint(&stat, (uint64_t)k->number);
	}
	put_message(out, XPLANE_STATS, &stat);
	buf_release(&stat);
	buf_release(&scratch);
}

/* The stats that a plane gets: process_id, and what is known of the process. */
static size_t list_stats(const struct xs_host *host, const struct merge_plane *p,
			 struct xs_known out[XS_KNOWN_MOST + 1])
{
	int64_t pid = p->pid ? p->pid : p->has_process_id ? p->process_id : 0;
	size_t n = 0;

	if (p->pid > 0 && !p->has_process_id)
		out[n++] = (struct xs_known){ .name = "process_id", .number = p->pid };
	if (pid > 0 && host->process)
		n += host->process(host->arg, pid, out + n);
	return n;
}

/* Stats are added at the end of the plane, unless its metadata has no free ids. */
static void splice_stats(struct plane_splices *s, const struct plan_plane *plane,
			 const struct merge_plane *p, const struct xs_known *known, size_t n)
{
	struct splice splice = { .at = plane->field.end, .until = plane->field.end };
	int64_t last = p->greatest_stat;

	if (!n || last > INT64_MAX - XS_KNOWN_MOST - 1)
		return;
	for (size_t i = 0; i < n; i++) {
		bool is_known = p->process_id_stat && !strcmp(known[i].name, "process_id");
		int64_t id = is_known ? p->process_id_stat : ++last;

		if (!is_known)
			put_stat_metadata(&s->stats, id, known[i].name);
		put_stat(&s->stats, id, &known[i]);
	}
	splice.bytes = s->stats.data;
	splice.len = s->stats.len;
	add_splice(s, &splice);
}

static void make_splices(const struct xs_host *host, const struct merge_plane *p,
			 const struct plan_plane *plane, struct plane_splices *s)
{
	struct xs_known known[XS_KNOWN_MOST + 1];

	*s = (struct plane_splices){ .n = 0 };
	if (p->new_id != p->id) {
		struct splice id = splice_varint(&plane->id, &plane->field, XPLANE_ID,
						 (uint64_t)p->new_id);

		add_splice(s, &id);
	}
	if (strcmp(p->new_name, p->name))
		splice_name(s, plane, p->new_name);
	splice_stats(s, plane, p, known, list_stats(host, p, known));
}

static void release_splices(struct plane_splices *s)
{
	buf_release(&s->name);
	buf_release(&s->stats);
}

/* ---- files ---- */

/* Task Environment, errors, warnings, hostname. */
static void build_host(const struct merging *m, struct buf *out)
{
	const struct xs_host *host = m->host;
	struct xs_builder *b = xs_builder_new();

	xs_plane(b, 0, ENVIRONMENT_PLANE);
	xs_stat_uint(b, "profile_start_time", host->profile_start_ns);
	xs_stat_uint(b, "profile_stop_time", host->profile_stop_ns);
	if (host->profile_options)
		xs_stat_bytes(b, "profile_options", host->profile_options,
			      host->profile_options_len);
	if (host->environment)
		host->environment(host->arg, b);
	merge_texts_build(&m->errors, b, xs_error);
	merge_texts_build(&m->warnings, b, xs_warning);
	if (m->hostname)
		xs_hostname(b, m->hostname);
	xs_finish(b, out);
	xs_builder_free(b);
}

static int write_host(struct merging *m, struct err *e)
{
	struct buf bytes = BUF_INIT;
	int rc;

	build_host(m, &bytes);
	rc = m->out->write(m->out->arg, bytes.data, bytes.len, e);
	m->counts.planes++;
	m->counts.bytes += bytes.len;
	buf_release(&bytes);
	return rc;
}

static int find_space(struct merging *m, struct err *e)
{
	struct buf bytes = BUF_INIT;
	uint64_t used;

	m->space_bytes = UINT64_MAX;
	if (!m->host->file_bytes)
		return 0;
	build_host(m, &bytes);
	used = bytes.len + HOSTNAME_SLACK;
	buf_release(&bytes);
	if (used > m->host->file_bytes)
		return err_set(e, ERR_LIMIT,
			       "files of %" PRIu64 " bytes are too small for their own metadata",
			       m->host->file_bytes);
	m->space_bytes = m->host->file_bytes - used;
	return 0;
}

static void leave_out(struct merging *m, struct merge_plane *p, uint64_t bytes)
{
	char *text = xasprintf("plane %s is left out: it has %" PRIu64 " bytes, a file has %" PRIu64
			       " at most",
			       p->new_name, bytes, m->host->file_bytes);

	p->dropped = true;
	merge_texts_add(&m->errors, m->inputs[p->input].label, text, strlen(text));
	if (m->host->too_large)
		m->host->too_large(m->host->arg, p->input, p->new_name, bytes);
	free(text);
}

static size_t leave_out_large(struct merging *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_planes; i++) {
		struct merge_plane *p = &m->planes[i];
		const struct plan *plan = &m->plans[p->input];
		const struct plan_plane *plane = &plan->planes[i - m->first_plane[p->input]];
		struct plane_splices s;
		uint64_t bytes;

		if (p->dropped)
			continue;
		make_splices(m->host, p, plane, &s);
		bytes = plan_plane_bytes(plane, s.all, s.n);
		release_splices(&s);
		if (bytes <= m->space_bytes)
			continue;
		leave_out(m, p, bytes);
		n++;
	}
	return n;
}

/* The error about a plane that is left out takes space too. */
static int fit_planes(struct merging *m, struct err *e)
{
	int rc;

	do
		rc = find_space(m, e);
	while (!rc && leave_out_large(m));
	return rc;
}

/* If the plane does not fit, ends the file and begins the next one. */
static int next_file_if_full(struct merging *m, uint64_t plane_bytes, struct splicer *sp,
			     struct err *e)
{
	uint64_t used = m->counts.bytes + sp->written - m->file_began;
	int rc;

	if (!used || used <= m->space_bytes - plane_bytes)
		return 0;
	rc = splicer_flush(sp, e);
	if (!rc)
		rc = write_host(m, e);
	if (rc)
		return rc;
	m->file_began = m->counts.bytes + sp->written;
	m->hostname = m->host->next_file(m->host->arg, ++m->file);
	return m->hostname ? 0 : err_set(e, ERR_LIMIT, "%u files are not enough", m->file - 1);
}

/* ---- the inputs, written ---- */

static int write_plane(struct merging *m, const struct merge_plane *p,
		       const struct plan_plane *plane, struct wire *w, struct splicer *sp,
		       struct err *e)
{
	struct plane_splices s;
	int rc = splicer_copy(sp, plane->field.at, e);

	make_splices(m->host, p, plane, &s);
	if (!rc)
		rc = next_file_if_full(m, plan_plane_bytes(plane, s.all, s.n), sp, e);
	if (!rc)
		rc = plan_write_plane(&m->plans[p->input], plane, s.all, s.n, w, sp, &m->counts, e);
	release_splices(&s);
	return rc;
}

/* Writes the k-th plane of an input as planned. */
static int write_or_drop(struct merging *m, size_t i, size_t k, const struct wire_field *f,
			 struct wire *w, struct splicer *sp, struct err *e)
{
	const struct plan *plan = &m->plans[i];
	const struct merge_plane *p;

	if (k >= plan->n_planes || plan->planes[k].field.at != f->at)
		return err_set(e, ERR_INVALID, "at byte %" PRIu64 ": the input changed", f->at);
	p = &m->planes[m->first_plane[i] + k];
	if (p->dropped)
		return splicer_cut(sp, f->at, f->end, e);
	return write_plane(m, p, &plan->planes[k], w, sp, e);
}

/* Writes planes and unknown fields; cuts out hostnames and texts, which were gathered before. */
static int write_fields(struct merging *m, size_t i, struct wire *w, struct splicer *sp,
			struct err *e)
{
	struct wire_field root = wire_root(w->src), f;
	struct wire_walk walk = wire_walk(w, &root, schema_xspace);
	size_t k = 0;
	int rc;

	while ((rc = wire_next(&walk, &f, e)) > 0) {
		rc = 0;
		if (f.number == XSPACE_PLANES)
			rc = write_or_drop(m, i, k++, &f, w, sp, e);
		else if (f.number <= XSPACE_HOSTNAMES)
			rc = splicer_cut(sp, f.at, f.end, e);
		if (rc)
			return rc;
	}
	return rc ? rc : splicer_copy(sp, root.end, e);
}

static int write_input(struct merging *m, size_t i, struct err *e)
{
	const struct xs_source *in = &m->inputs[i].source;
	struct splicer sp;
	struct wire w;
	int rc;

	wire_open(&w, in);
	splicer_open(&sp, in, m->out);
	rc = write_fields(m, i, &w, &sp, e);
	if (!rc)
		rc = splicer_flush(&sp, e);
	m->counts.bytes += sp.written;
	splicer_close(&sp);
	wire_close(&w);
	if (rc)
		name_input(&m->inputs[i], e);
	return rc;
}

static void release(struct merging *m)
{
	for (size_t i = 0; i < m->n_inputs; i++)
		plan_release(&m->plans[i]);
	for (size_t i = 0; i < m->n_planes; i++) {
		free(m->planes[i].name);
		free(m->planes[i].new_name);
	}
	merge_texts_release(&m->errors);
	merge_texts_release(&m->warnings);
	free(m->planes);
	free(m->plans);
	free(m->first_plane);
}

int xs_merge(const struct xs_input *inputs, size_t n, const struct xs_host *host,
	     const struct xs_sink *out, struct xs_counts *counts, struct err *e)
{
	struct merging m = {
		.inputs = inputs,
		.n_inputs = n,
		.host = host,
		.out = out,
		.file = 1,
		.hostname = host->hostname,
	};
	int rc = 0;

	m.plans = xcalloc(n, sizeof(*m.plans));
	m.first_plane = xcalloc(n, sizeof(*m.first_plane));
	add_texts(&m.errors, host->errors);
	add_texts(&m.warnings, host->warnings);
	for (size_t i = 0; !rc && i < n; i++)
		rc = read_input(&m, i, e);
	if (!rc) {
		merge_names(m.planes, m.n_planes);
		warn_of_hidden_hlo(&m);
		rc = fit_planes(&m, e);
	}
	for (size_t i = 0; !rc && i < n; i++)
		rc = write_input(&m, i, e);
	if (!rc)
		rc = write_host(&m, e);
	if (!rc && counts)
		*counts = m.counts;
	release(&m);
	return rc;
}
