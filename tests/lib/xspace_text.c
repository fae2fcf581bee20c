/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/xspace_text.h"

#include <math.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "xspace/xspace.h"

struct name {
	int64_t id;
	char *text;
};

struct names {
	struct name *items;
	size_t n;
};

struct dump {
	struct buf out;
	struct names stats, events; /* of this plane */
	size_t plane_stats;
	bool whole; /* not only lines */
};

/* ---- names ---- */

static void names_add(struct names *names, int64_t id, const char *text, size_t len)
{
	names->items = xrealloc(names->items, (names->n + 1) * sizeof(*names->items));
	names->items[names->n++] = (struct name){ id, xstrndup(text, len) };
}

static const char *names_get(const struct names *names, int64_t id)
{
	for (size_t i = names->n; i > 0; i--) {
		if (names->items[i - 1].id == id)
			return names->items[i - 1].text;
	}
	return "?";
}

static void names_reset(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i].text);
	free(names->items);
	*names = (struct names){ 0 };
}

/* ---- values ---- */

/* Picoseconds as milliseconds, without zeros at the end. */
static void add_ms(struct buf *out, int64_t ps)
{
	uint64_t left = ps < 0 ? -(uint64_t)ps : (uint64_t)ps;
	char text[32];
	int len = snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, left / 1000000000,
			   left % 1000000000);

	while (text[len - 1] == '0')
		len--;
	if (text[len - 1] == '.')
		len--;
	buf_addf(out, "%s%.*s", ps < 0 ? "-" : "", len, text);
}

static void add_stat(struct dump *d, const struct xs_stat *s)
{
	buf_addf(&d->out, "%s=", names_get(&d->stats, s->metadata_id));
	switch (s->kind) {
	case XS_INT:
		buf_addf(&d->out, "%" PRId64, s->i);
		break;
	case XS_UINT:
		buf_addf(&d->out, "%" PRIu64 "u", s->u);
		break;
	case XS_DOUBLE:
		buf_addf(&d->out, "%.17gf", s->d);
		break;
	case XS_REF:
		buf_addf(&d->out, "\"%s\"", names_get(&d->stats, (int64_t)s->u));
		break;
	case XS_STR:
		buf_addf(&d->out, "\"%.*s\"", (int)s->len, (const char *)s->bytes);
		break;
	case XS_BYTES:
		buf_addf(&d->out, "[%zu]", s->len);
		break;
	case XS_NONE:
		buf_addf(&d->out, "none");
		break;
	}
}

/* ---- the visit ---- */

static int on_stat_name(void *arg, int64_t id, const char *name, size_t len)
{
	names_add(&((struct dump *)arg)->stats, id, name, len);
	return 0;
}

static int on_event_name(void *arg, int64_t id, const char *name, size_t len)
{
	names_add(&((struct dump *)arg)->events, id, name, len);
	return 0;
}

static int on_plane(void *arg, const struct xs_plane *p)
{
	struct dump *d = arg;

	d->plane_stats = 0;
	buf_addf(&d->out, "plane %s\n", p->name);
	return 0;
}

static int on_plane_stat(void *arg, const struct xs_stat *s)
{
	struct dump *d = arg;

	buf_addf(&d->out, " ");
	add_stat(d, s);
	d->plane_stats++;
	return 0;
}

static int on_lines(void *arg)
{
	struct dump *d = arg;

	if (d->plane_stats)
		buf_addf(&d->out, "\n");
	return 0;
}

static int on_line(void *arg, const struct xs_line *l)
{
	struct dump *d = arg;

	buf_addf(&d->out, "%s", l->name);
	if (d->whole)
		buf_addf(&d->out, " #%" PRId64, l->id);
	if (l->timestamp_ns)
		buf_addf(&d->out, " @%" PRId64, l->timestamp_ns);
	buf_addf(&d->out, ":");
	return 0;
}

static int on_event(void *arg, const struct xs_event *ev)
{
	struct dump *d = arg;

	buf_addf(&d->out, " %s ", names_get(&d->events, ev->metadata_id));
	if (ev->is_aggregate) {
		buf_addf(&d->out, "x%" PRId64, ev->num_occurrences);
	} else {
		add_ms(&d->out, ev->offset_ps);
		buf_addf(&d->out, "-");
		add_ms(&d->out, ev->offset_ps + ev->duration_ps);
	}
	for (size_t i = 0; i < ev->n_stats; i++) {
		buf_addf(&d->out, i ? " " : " {");
		add_stat(d, &ev->stats[i]);
	}
	if (ev->n_stats)
		buf_addf(&d->out, "}");
	return 0;
}

static int on_line_end(void *arg)
{
	buf_addf(&((struct dump *)arg)->out, "\n");
	return 0;
}

static int on_plane_end(void *arg)
{
	struct dump *d = arg;

	names_reset(&d->stats);
	names_reset(&d->events);
	return 0;
}

static int on_text(void *arg, int field, const char *s, size_t len)
{
	static const char *const kinds[] = { [2] = "error", [3] = "warning", [4] = "host" };

	buf_addf(&((struct dump *)arg)->out, "%s %.*s\n", kinds[field], (int)len, s);
	return 0;
}

static char *dump(const void *data, size_t len, const struct xs_visitor *v)
{
	struct xs_source in = xs_source_memory(data, len);
	struct dump d = { .out = BUF_INIT, .whole = v->plane_begin };
	struct err e;
	size_t n;

	CHECK_OK(xs_read(&in, v, &d, &e), e);
	buf_add(&d.out, "", 1);
	return (char *)buf_detach(&d.out, &n);
}

char *xspace_text(const void *data, size_t len)
{
	static const struct xs_visitor v = {
		.plane_begin = on_plane,
		.stat_metadata = on_stat_name,
		.event_metadata = on_event_name,
		.plane_stat = on_plane_stat,
		.lines = on_lines,
		.line_begin = on_line,
		.event = on_event,
		.line_end = on_line_end,
		.plane_end = on_plane_end,
		.text = on_text,
		.want_stats = true,
	};

	return dump(data, len, &v);
}

char *xspace_lines(const void *data, size_t len)
{
	static const struct xs_visitor v = {
		.event_metadata = on_event_name,
		.line_begin = on_line,
		.event = on_event,
		.line_end = on_line_end,
		.plane_end = on_plane_end,
	};

	return dump(data, len, &v);
}

char *xspace_text_of_file(const char *path)
{
	struct buf bytes = BUF_INIT;
	struct err e;
	char *text;

	CHECK_OK(file_load(path, SIZE_MAX, &bytes, &e), e);
	text = xspace_text(bytes.data, bytes.len);
	buf_release(&bytes);
	return text;
}

/* ---- searching ---- */

size_t text_count(const char *text, const char *part)
{
	size_t n = 0;

	while ((text = strstr(text, part))) {
		text += strlen(part);
		n++;
	}
	return n;
}

int64_t text_number(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	if (!at)
		fprintf(stderr, "no \"%s\" in:\n%s", key, text);
	CHECK(at);
	return strtoll(at + strlen(key), NULL, 10);
}

/* What follows the name of this line. */
static const char *find_line(const char *text, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL) {
		if (!strncmp(at, line, len) && !strncmp(at + len, " #", 2))
			return at + len;
	}
	fprintf(stderr, "no line \"%s\" in:\n%s", line, text);
	CHECK(!"the line");
	return NULL;
}

/* The "from" of an event whose "from-to" begins after `at`; NULL = none on this line. */
static const char *next_event(const char *at, double *from_ms)
{
	while (*at && *at != '\n') {
		char *end;

		*from_ms = strtod(++at, &end);
		if (at[-1] == ' ' && end != at && *end == '-')
			return end;
	}
	return NULL;
}

static int64_t event_ns(const char *text, const char *line, bool last)
{
	const char *at = find_line(text, line), *colon = strchr(at, ':');
	const char *stamp = memchr(at, '@', (size_t)(colon - at));
	int64_t line_ns = stamp ? strtoll(stamp + 1, NULL, 10) : 0;
	double from_ms, ms = NAN;

	at = colon;
	while ((isnan(ms) || last) && at && (at = next_event(at, &from_ms)))
		ms = from_ms;
	CHECK(!isnan(ms));
	return line_ns + llround(ms * 1e6);
}

int64_t text_first_ns(const char *text, const char *line)
{
	return event_ns(text, line, false);
}

int64_t text_last_ns(const char *text, const char *line)
{
	return event_ns(text, line, true);
}
