/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome's trace events: a "process" for each plane of a host, a "thread" for each lane of a line. Times are decimals of
 * microseconds with three digits, which are whole nanoseconds: a reader that rounds them finds no overlap.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/exits/json_out.h"

#define FLUSH_BYTES ((size_t)1 << 20)

struct chrome_trace {
	struct exit_conf conf;
	struct xs_sink out;
	struct exit_counts counts;
	struct buf text;
	bool is_begun; /* an event has been written */
	unsigned int pid, tid; /* of the plane, of the line's first lane */
	const struct exit_host *host;
	const struct lanes_plane *plane;
	char line[1024];
	bool plane_is_told;
	uint32_t n_lanes; /* that are told */
	struct lanes_names names, stat_names;
	struct json_out_names written, written_stats; /* of them */
	struct err *e;
};

/* ---- text ---- */

static int flush(struct chrome_trace *t)
{
	int rc = t->text.len ? t->out.write(t->out.arg, t->text.data, t->text.len, t->e) : 0;

	t->counts.bytes += t->text.len;
	buf_reset(&t->text);
	return rc;
}

static void begin_event(struct chrome_trace *t, char phase, unsigned int tid)
{
	char begin[] = "\n{\"ph\":\"?\",\"pid\":";

	begin[8] = phase;
	if (t->is_begun)
		buf_add_u8(&t->text, ',');
	buf_add(&t->text, begin, sizeof(begin) - 1);
	json_out_uint(&t->text, t->pid);
	buf_add_str(&t->text, ",\"tid\":");
	json_out_uint(&t->text, tid);
	t->is_begun = true;
}

static int end_event(struct chrome_trace *t)
{
	buf_add_u8(&t->text, '}');
	return t->text.len < FLUSH_BYTES ? 0 : flush(t);
}

static int put_name(struct chrome_trace *t, const char *what, unsigned int tid, const char *name)
{
	begin_event(t, 'M', tid);
	buf_addf(&t->text, ",\"name\":\"%s\",\"args\":{\"name\":", what);
	json_out_string(&t->text, name, strlen(name));
	buf_add_u8(&t->text, '}');
	return end_event(t);
}

/* ---- the visitor ---- */

static int on_plane(void *arg, const struct lanes_plane *plane)
{
	struct chrome_trace *t = arg;

	t->plane = plane;
	t->plane_is_told = false;
	t->tid = 0;
	t->n_lanes = 0;
	json_out_names_reset(&t->written);
	json_out_names_reset(&t->written_stats);
	return 0;
}

static int on_line(void *arg, const struct xs_line *line)
{
	struct chrome_trace *t = arg;
	char name[1400];

	t->tid += t->n_lanes;
	t->n_lanes = 0;
	snprintf(t->line, sizeof(t->line), "%s", line->display_name);
	if (t->plane_is_told)
		return 0;
	t->plane_is_told = true;
	t->pid++;
	t->tid = 1;
	snprintf(name, sizeof(name), "%.128s %s", t->host->name, t->plane->title);
	return put_name(t, "process_name", 0, name);
}

static int tell_lanes(struct chrome_trace *t, uint32_t lane)
{
	char name[1100];
	int rc = 0;

	for (; t->n_lanes <= lane && !rc; t->n_lanes++) {
		snprintf(name, sizeof(name), t->n_lanes ? "%s (%u)" : "%s", t->line,
			 t->n_lanes + 1);
		rc = put_name(t, "thread_name", t->tid + t->n_lanes, name);
		t->counts.tracks++;
	}
	return rc;
}

static void put_event_name(struct chrome_trace *t, uint32_t number)
{
	buf_add_str(&t->text, ",\"name\":");
	if (number == LANES_NO_NAME)
		json_out_string(&t->text, "?", 1);
	else
		json_out_name(&t->text, &t->written, &t->names, number);
}

static void put_args(struct chrome_trace *t, const struct lane_event *ev)
{
	const char *comma = "";

	for (size_t i = 0; i < ev->n_stats; i++) {
		const struct xs_stat *s = &ev->stats[i];

		if (!json_out_is_member(ev, i))
			continue;
		buf_add_str(&t->text, *comma ? comma : ",\"args\":{");
		comma = ",";
		json_out_name(&t->text, &t->written_stats, &t->stat_names,
			      (uint32_t)s->metadata_id);
		buf_add_u8(&t->text, ':');
		if (s->kind == XS_REF)
			json_out_name(&t->text, &t->written_stats, &t->stat_names, (uint32_t)s->u);
		else
			json_out_stat(&t->text, &t->stat_names, s);
	}
	if (*comma)
		buf_add_u8(&t->text, '}');
}

static int on_begin(void *arg, const struct lane_event *ev)
{
	struct chrome_trace *t = arg;
	int rc = tell_lanes(t, ev->lane);

	if (rc)
		return rc;
	begin_event(t, 'X', t->tid + ev->lane);
	put_event_name(t, ev->name);
	buf_add_str(&t->text, ",\"ts\":");
	json_out_us(&t->text, ev->start_ns);
	buf_add_str(&t->text, ",\"dur\":");
	json_out_us(&t->text, ev->end_ns - ev->start_ns);
	put_args(t, ev);
	t->counts.slices++;
	return end_event(t);
}

static int on_sample(void *arg, const struct lane_event *ev, double value)
{
	struct chrome_trace *t = arg;

	begin_event(t, 'C', t->tid);
	put_event_name(t, ev->name);
	buf_add_str(&t->text, ",\"ts\":");
	json_out_us(&t->text, ev->start_ns);
	buf_addf(&t->text,
		 isfinite(value) ? ",\"args\":{\"value\":%.17g}" : ",\"args\":{\"value\":0}",
		 value);
	t->counts.samples++;
	return end_event(t);
}

/* ---- all ---- */

struct chrome_trace *chrome_trace_new(const struct exit_conf *conf, const struct xs_sink *out)
{
	struct chrome_trace *t = xcalloc(1, sizeof(*t));

	t->conf = *conf;
	t->out = *out;
	buf_addf(&t->text,
		 "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"t0_unix_ns\":\"%" PRId64
		 "\"},\"traceEvents\":[",
		 conf->t0_unix_ns);
	return t;
}

int chrome_trace_add(struct chrome_trace *t, const struct exit_host *host,
		     const struct xs_source *in, struct err *e)
{
	static const struct lanes_visitor visitor = {
		.plane = on_plane,
		.line = on_line,
		.begin = on_begin,
		.sample = on_sample,
	};

	t->e = e;
	t->host = host;
	return lanes_read(in, &t->conf.filter, &visitor, t, &t->names, &t->stat_names, &t->counts,
			  e);
}

int chrome_trace_end(struct chrome_trace *t, struct exit_counts *counts, struct err *e)
{
	int rc;

	t->e = e;
	buf_add_str(&t->text, "\n]}\n");
	rc = flush(t);
	*counts = t->counts;
	return rc;
}

void chrome_trace_free(struct chrome_trace *t)
{
	if (!t)
		return;
	buf_release(&t->text);
	json_out_names_release(&t->written);
	json_out_names_release(&t->written_stats);
	free(t);
}
