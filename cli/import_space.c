/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/import_space.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json/json_text.h"
#include "logs/log_event.h"
#include "proto/limits.h"

/* The plane and the line that are open. */
struct writing {
	struct import_space *space;
	const struct xs_sink *out;
	struct xs_builder *b;
	char job[IMPORT_NAME_BYTES];
	unsigned int planes; /* of this job */
	int64_t line; /* its id */
	uint32_t group; /* of the line; UINT32_MAX = none */
	uint32_t node_group; /* for which offset_ns is; UINT32_MAX = none */
	int64_t offset_ns; /* by which its node's wall clock was ahead of the session's clock */
	uint64_t bytes; /* written */
};

static int flush(struct writing *w, struct err *e)
{
	struct buf bytes = BUF_INIT;
	int rc;

	xs_finish(w->b, &bytes);
	w->bytes += bytes.len;
	if (w->bytes > LIMIT_XSPACE_FILE_BYTES)
		rc = err_set(e, ERR_LIMIT,
			     "the result has more than 2 GB, which no viewer opens: filter the "
			     "export");
	else
		rc = w->out->write(w->out->arg, bytes.data, bytes.len, e);
	buf_release(&bytes);
	return rc;
}

static int64_t find_offset(const struct import_space *space, const char *node)
{
	const json_t *host;
	size_t i;

	json_array_foreach(space->hosts, i, host)
	{
		const json_t *clock = json_object_get(host, "clock");

		if (!strcmp(json_get_text(host, "host"), node) &&
		    json_get_bool(clock, "calibrated"))
			return json_get_int(clock, "offset_ns");
	}
	return 0;
}

static void begin_plane(struct writing *w, const struct import_entry *entry)
{
	char name[IMPORT_NAME_BYTES + 32], number[16] = "";

	if (strcmp(w->job, entry->job)) {
		memcpy(w->job, entry->job, sizeof(w->job));
		w->planes = 0;
		w->space->jobs++;
	}
	if (++w->planes > 1)
		snprintf(number, sizeof(number), " #%u", w->planes);
	snprintf(name, sizeof(name), "/host:CPU logs %s%s", entry->job, number);
	xs_plane(w->b, 0, name);
	w->line = 0;
	w->group = UINT32_MAX;
}

static void begin_line(struct writing *w, const struct import_entry *entry, uint32_t group)
{
	char name[IMPORT_NAME_BYTES + 32];

	snprintf(name, sizeof(name), "%s %s", entry->pod, severity_name(entry->severity));
	xs_line(w->b, ++w->line, name, 0);
	w->group = group;
	w->space->lines++;
}

static int write_entry(struct writing *w, const struct import_entry *entry, uint32_t group,
		       struct err *e)
{
	struct import_space *space = w->space;
	int64_t ns = entry->unix_ns - w->offset_ns;
	const struct log_event event = { .severity = entry->severity,
					 .source = "cloud",
					 .namespace = entry->namespace,
					 .pod = entry->pod,
					 .container = entry->container,
					 .node = entry->node,
					 .time = w->offset_ns ? "node, moved" : "node",
					 .text = entry->text };
	int rc = 0;

	if (ns < space->t0_ns || ns >= space->t1_ns) {
		space->outside++;
		return 0;
	}
	if (!w->planes || strcmp(w->job, entry->job)) {
		if (w->planes)
			rc = flush(w, e);
		begin_plane(w, entry);
	} else if (xs_builder_bytes(w->b) > IMPORT_PLANE_BYTES) {
		rc = flush(w, e);
		begin_plane(w, entry);
	}
	if (w->group != group)
		begin_line(w, entry, group);
	log_event_add(w->b, &event, (ns - space->t0_ns) * 1000);
	space->entries++;
	space->moved += w->offset_ns != 0;
	return rc;
}

/* All entries of a group are of one node. */
static void set_offset(struct writing *w, const struct import_entry *entry, uint32_t group)
{
	if (w->node_group == group)
		return;
	w->node_group = group;
	w->offset_ns = find_offset(w->space, entry->node);
}

static int write_environment(struct writing *w, struct err *e)
{
	xs_plane(w->b, 0, "Task Environment");
	xs_stat_uint(w->b, "profile_start_time", (uint64_t)w->space->t0_ns);
	xs_stat_uint(w->b, "profile_stop_time", (uint64_t)w->space->t1_ns);
	xs_hostname(w->b, w->space->hostname);
	return flush(w, e);
}

int import_space_write(struct import_space *space, const struct import_index *index, int fd,
		       const struct xs_sink *out, struct err *e)
{
	struct writing w = {
		.space = space, .out = out, .b = xs_builder_new(), .node_group = UINT32_MAX
	};
	struct import_entry entry;
	int rc = 0;

	if (space->t1_ns - space->t0_ns > IMPORT_SPAN_MAX_NS)
		rc = err_set(e, ERR_LIMIT,
			     "%.100s: entries of more than 100 days: filter the export",
			     space->name);
	for (size_t i = 0; i < index->n && !rc; i++) {
		rc = import_index_entry(&index->slots[i], fd, space->name, &entry, e);
		if (!rc)
			set_offset(&w, &entry, index->slots[i].group);
		if (!rc)
			rc = write_entry(&w, &entry, index->slots[i].group, e);
	}
	if (!rc && !space->entries)
		rc = err_set(e, ERR_NOT_FOUND,
			     "%.100s: none of its %zu entries is in the session's window",
			     space->name, index->n);
	if (!rc)
		rc = flush(&w, e);
	if (!rc)
		rc = write_environment(&w, e);
	xs_builder_free(w.b);
	return rc;
}
