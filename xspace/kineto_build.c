/* SPDX-License-Identifier: Apache-2.0 */
/* From the tables of a kineto file to planes. */
#include "xspace/kineto_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How many events back the search for the event around a flow's end goes: as many as calls are nested. */
#define NESTING_MAX 64

static int compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* Threads first, then device by device its streams and their annotations. */
static int by_plane(const void *a, const void *b)
{
	const struct kineto_line *x = *(struct kineto_line *const *)a;
	const struct kineto_line *y = *(struct kineto_line *const *)b;
	int order = compare(x->key.kind != KINETO_HOST, y->key.kind != KINETO_HOST);

	if (!order)
		order = compare(x->key.device, y->key.device);
	if (!order)
		order = compare(x->key.kind, y->key.kind);
	return order ? order : compare(x->key.id, y->key.id);
}

/* An event that contains others comes before them. */
static int by_time(const void *a, const void *b)
{
	const struct kineto_event *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->duration_ns != y->duration_ns)
		return x->duration_ns > y->duration_ns ? -1 : 1;
	return compare(x->args_at, y->args_at);
}

static void sort_tables(struct kineto *k)
{
	uint32_t *place = xcalloc(k->n_lines + 1, sizeof(*place));

	sort_array(k->lines, k->n_lines, sizeof(struct kineto_line *), by_plane);
	for (size_t i = 0; i < k->n_lines; i++) {
		place[k->lines[i]->index] = (uint32_t)i;
		k->lines[i]->index = (uint32_t)i;
	}
	for (size_t i = 0; i < k->n_events; i++)
		k->events[i].line = place[k->events[i].line];
	for (size_t i = 0; i < k->n_flows; i++)
		k->flows[i].line = place[k->flows[i].line];
	free(place);
	sort_array(k->events, k->n_events, sizeof(*k->events), by_time);
}

/* ---- flows ---- */

/* How many events of the sorted table begin before this instant of the line, or at it. */
static size_t count_before(const struct kineto *k, uint32_t line, int64_t at_ns)
{
	size_t low = 0, high = k->n_events;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct kineto_event *ev = &k->events[middle];

		if (ev->line < line || (ev->line == line && ev->start_ns <= at_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Gives each end of a flow to the innermost event around it; an event gets at most one. */
static void place_flows(struct kineto *k)
{
	for (size_t i = 0; i < k->n_flows; i++) {
		const struct kineto_flow *flow = &k->flows[i];
		size_t at = count_before(k, flow->line, flow->at_ns);

		for (size_t back = 0; at && back < NESTING_MAX; back++) {
			struct kineto_event *ev = &k->events[--at];

			if (ev->line != flow->line)
				break;
			if (ev->start_ns + ev->duration_ns < flow->at_ns)
				continue;
			if (!ev->flow)
				ev->flow = flow->value;
			break;
		}
	}
}

/* ---- output ---- */

static void begin_plane(struct xs_builder *b, const struct kineto_line *line)
{
	char name[64] = "/host:CPU";

	if (line->key.kind != KINETO_HOST)
		snprintf(name, sizeof(name), "/device:GPU:%" PRId64, line->key.device);
	xs_plane(b, 0, name);
}

static void begin_line(struct xs_builder *b, const struct kineto_line *line, int64_t line_ns)
{
	static const char *const prefixes[] = {
		[KINETO_HOST] = "thread ",
		[KINETO_STREAM] = "Stream #",
		[KINETO_STREAM_ANNOTATIONS] = "Annotations of stream #"
	};
	char name[64];
	int64_t id = line->key.id;

	snprintf(name, sizeof(name), "%s%" PRId64, prefixes[line->key.kind], id);
	if (line->key.kind == KINETO_STREAM_ANNOTATIONS)
		id += 1 << 20; /* viewers tell rows apart by the id alone */
	xs_line(b, id, line->name ? line->name : name, line_ns);
}

/* "ProfilerStep#7" is a step: an event without the number in its name; the number is a stat. */
static size_t step_name_len(const char *name, int64_t *step)
{
	static const char prefix[] = "ProfilerStep#";
	const size_t len = sizeof(prefix) - 1;
	struct scan_text number = { .s = name + len };

	if (strncmp(name, prefix, len) != 0)
		return 0;
	number.len = strlen(number.s);
	return scan_decimal(&number, 0, step) ? len - 1 : 0;
}

static int put_event(struct xs_builder *b, struct kineto *k, const struct kineto_event *ev,
		     struct buf *scratch, struct err *e)
{
	const char *name = k->names.texts[ev->name];
	int64_t step;
	size_t step_len = step_name_len(name, &step);
	int rc;

	buf_reset(scratch);
	buf_add(scratch, name, step_len ? step_len : strlen(name));
	xs_event(b, buf_str(scratch), (ev->start_ns - k->first_ns) * 1000, ev->duration_ns * 1000);
	rc = kineto_put_args(k, ev, b, scratch, &k->counts, e);
	if (step_len)
		xs_stat_int(b, "step_num", step);
	if (ev->flow)
		xs_stat_uint(b, "flow", ev->flow);
	return rc ? rc : kineto_check_memory(k, xs_builder_bytes(b), e);
}

int kineto_build(struct kineto *k, struct xs_builder *b, struct err *e)
{
	const struct kineto_line *before = NULL;
	struct buf scratch = BUF_INIT;
	int rc = 0;

	sort_tables(k);
	place_flows(k);
	for (size_t i = 0; !rc && i < k->n_events; i++) {
		const struct kineto_event *ev = &k->events[i];
		const struct kineto_line *line = k->lines[ev->line];

		if (!before || line->key.device != before->key.device ||
		    (line->key.kind == KINETO_HOST) != (before->key.kind == KINETO_HOST))
			begin_plane(b, line);
		if (line != before)
			begin_line(b, line, k->line_ns);
		before = line;
		rc = put_event(b, k, ev, &scratch, e);
	}
	buf_release(&scratch);
	return rc;
}
