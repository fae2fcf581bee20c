/* SPDX-License-Identifier: Apache-2.0 */
/* A window of a session as a file of another viewer. */
#include <string.h>

#include "aggregator/views/view.h"
#include "base/buf.h"
#include "json/json_text.h"
#include "xspace/exits/exits.h"

#define PS_PER_NS 1000

/* What is written, and when it ends too early. */
struct tracing {
	const struct view_trace *t;
	const struct view_file *f; /* that is read */
	struct buf *out;
	size_t before; /* bytes of `out` that are not ours */
	bool is_full;
};

static int add_bytes(void *arg, const void *data, size_t len, struct err *e)
{
	struct tracing *w = arg;

	w->is_full = w->out->len - w->before + len > VIEW_TRACE_MAX;
	if (w->is_full)
		return err_set(e, ERR_LIMIT, "the trace is full");
	buf_add(w->out, data, len);
	return 0;
}

static int read_file(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	struct tracing *w = arg;
	const struct xs_source from = view_source(w->f);
	int rc = view_check_stop(w->t->stop, e);

	return rc ? rc : from.read(from.arg, offset, buf, len, e);
}

static struct exit_host host_of(const struct view *view, const char *name)
{
	struct exit_host who = { .name = name, .clock_bound_ns = -1 };
	const json_t *host;
	size_t i;

	json_array_foreach(json_object_get(view->manifest, "hosts"), i, host)
	{
		const json_t *bound = json_object_get(host, "clock_bound_ns");

		if (!strcmp(json_get_text(host, "host"), name) && json_is_integer(bound))
			who.clock_bound_ns = json_integer_value(bound);
	}
	return who;
}

/* The first file from `*i` on that can be read, and its host; `*i` is the one after it then. False: there is none. */
static bool next_file(struct tracing *w, const struct view *view, size_t *i, struct exit_host *who,
		      struct xs_source *in)
{
	while (*i < view->n_files) {
		w->f = &view->files[(*i)++];
		if (w->f->state != FILE_READY)
			continue;
		*who = host_of(view, w->f->host);
		*in = (struct xs_source){ .read = read_file, .arg = w, .size = w->f->size };
		return true;
	}
	return false;
}

/* One trace of all files. */
static int write_files(struct tracing *w, const struct view *view, const struct exit_conf *conf,
		       const struct xs_sink *sink, struct err *e)
{
	const struct exit_format *format = exit_format_find(w->t->is_json ? "json" : "pftrace");
	void *trace = format->begin(conf, sink);
	struct exit_counts counts;
	struct exit_host who;
	struct xs_source in;
	size_t i = 0;
	int rc = 0;

	while (!rc && next_file(w, view, &i, &who, &in))
		rc = format->add(trace, &who, &in, e);
	if (!rc)
		rc = format->end(trace, &counts, e);
	format->release(trace);
	return rc;
}

/* Towards the earlier whole nanosecond: events that begin in it are in the trace. */
static int64_t floor_ns(int64_t ps)
{
	return ps / PS_PER_NS - (ps % PS_PER_NS < 0);
}

int view_write_trace(const struct view *view, const struct view_trace *t, struct buf *out,
		     struct err *e)
{
	struct tracing w = { .t = t, .out = out, .before = out->len };
	const struct xs_sink sink = { .write = add_bytes, .arg = &w };
	const struct exit_conf conf = {
		.t0_unix_ns = json_get_int(view->manifest, "t0_ns"),
		.duration_ns = json_get_int(view->manifest, "duration_ns"),
		.filter = { .from_ns = floor_ns(t->from_ps),
			    .to_ns = floor_ns(t->to_ps + PS_PER_NS - 1) },
	};
	int rc = write_files(&w, view, &conf, &sink, e);

	/* the reader's own error says only that it was stopped */
	return w.is_full ? err_set(e, ERR_LIMIT,
				   "this window has more than the %d MB of a trace that another "
				   "viewer opens: use a shorter one, or tutti export",
				   VIEW_TRACE_MAX / 1000000)
			 : rc;
}
