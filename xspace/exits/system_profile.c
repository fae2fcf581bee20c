/* SPDX-License-Identifier: Apache-2.0 */
/* The system profile of AWS's Neuron Profiler, as its viewer writes it in JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/exits/json_out.h"
#include "xspace/text.h"

#define FLUSH_BYTES ((size_t)1 << 20)

struct system_profile {
	struct exit_conf conf;
	struct xs_sink out;
	struct exit_counts counts;
	struct buf text;
	struct buf memory, cpu; /* samples, which have lists of their own behind the events */
	bool is_begun; /* an event has been written */
	const struct exit_host *host;
	char line[1024];
	int64_t line_id, process_id;
	bool has_process;
	bool line_is_told; /* an event of the line has been written */
	struct lanes_names names, stat_names;
	struct err *e;
};

static int flush(struct system_profile *p)
{
	int rc = p->text.len ? p->out.write(p->out.arg, p->text.data, p->text.len, p->e) : 0;

	p->counts.bytes += p->text.len;
	buf_reset(&p->text);
	return rc;
}

static void put_text(struct buf *out, const char *s)
{
	json_out_string(out, s, strlen(s));
}

/* ---- the visitor ---- */

static int on_plane(void *arg, const struct lanes_plane *plane)
{
	struct system_profile *p = arg;

	p->has_process = plane->has_process;
	p->process_id = plane->process_id;
	return 0;
}

static int on_line(void *arg, const struct xs_line *line)
{
	struct system_profile *p = arg;

	snprintf(p->line, sizeof(p->line), "%s", line->display_name);
	p->line_id = line->id;
	p->line_is_told = false;
	return 0;
}

static const char *name_of(const struct system_profile *p, uint32_t number, size_t *len)
{
	*len = 1;
	return number == LANES_NO_NAME ? "?" : lanes_text(&p->names, number, len);
}

/* The stats that no member of every event is called by. True: one of them was the thread. */
static bool put_stats(struct system_profile *p, struct buf *out, const struct lane_event *ev,
		      const char *const *taken)
{
	bool has_thread = false;

	for (size_t i = 0; i < ev->n_stats; i++) {
		const struct xs_stat *s = &ev->stats[i];
		bool is_taken = !json_out_is_member(ev, i);
		const char *name;
		size_t len;

		for (size_t k = 0; taken[k] && !is_taken; k++)
			is_taken = lanes_is_stat(&p->stat_names, s, taken[k]);
		if (is_taken)
			continue;
		has_thread |= lanes_is_stat(&p->stat_names, s, "thread_id");
		name = lanes_text(&p->stat_names, (uint32_t)s->metadata_id, &len);
		buf_add_u8(out, ',');
		json_out_string(out, name, len);
		buf_add_u8(out, ':');
		json_out_stat(out, &p->stat_names, s);
	}
	return has_thread;
}

/* {"timestamp": Unix time, "instance_id": the host */
static void begin_object(struct system_profile *p, struct buf *out, bool is_first, int64_t at_ns)
{
	buf_addf(out, "%s\n{\"timestamp\":%" PRId64 ",\"instance_id\":", is_first ? "" : ",",
		 p->conf.t0_unix_ns + at_ns);
	put_text(out, p->host->name);
}

static int on_begin(void *arg, const struct lane_event *ev)
{
	static const char *const taken[] = { "timestamp", "instance_id", "duration", "name",
					     "group",	  "process_id",	 NULL };
	struct system_profile *p = arg;
	const char *name;
	size_t len;

	begin_object(p, &p->text, !p->is_begun, ev->start_ns);
	p->is_begun = true;
	buf_addf(&p->text, ",\"duration\":%" PRId64 ",\"name\":", ev->end_ns - ev->start_ns);
	name = name_of(p, ev->name, &len);
	json_out_string(&p->text, name, len);
	buf_add_str(&p->text, ",\"group\":");
	put_text(&p->text, p->line);
	if (p->has_process)
		buf_addf(&p->text, ",\"process_id\":\"%" PRId64 "\"", p->process_id);
	if (!put_stats(p, &p->text, ev, taken))
		buf_addf(&p->text, ",\"thread_id\":%" PRId64, p->line_id);
	buf_add_u8(&p->text, '}');
	p->counts.slices++;
	p->counts.tracks += !p->line_is_told;
	p->line_is_told = true;
	return p->text.len < FLUSH_BYTES ? 0 : flush(p);
}

/* "cpu_util 47" of an import, "cpu 47 busy %" of the tracer metrics: the core, or false. */
static bool core_of(const char *name, size_t len, char out[16])
{
	static const char *const prefixes[] = { "cpu_util ", "cpu " };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		size_t n = strlen(prefixes[i]), digits;

		if (len <= n || memcmp(name, prefixes[i], n) != 0)
			continue;
		for (digits = 0; n + digits < len && digits < 15; digits++) {
			if (name[n + digits] < '0' || name[n + digits] > '9')
				break;
			out[digits] = name[n + digits];
		}
		out[digits] = '\0';
		return digits && (n + digits == len ||
				  text_equals(name + n + digits, len - n - digits, " busy %"));
	}
	return false;
}

/* The list of this counter, with the value in its unit and the member that it is called; NULL: there is none. */
static struct buf *find_list(struct system_profile *p, const char *name, size_t len, char core[16],
			     double *value)
{
	*core = '\0';
	if (text_equals(name, len, "mem used MB")) {
		*value *= 1e6;
		return &p->memory;
	}
	if (text_equals(name, len, "mem_usage"))
		return &p->memory;
	return text_equals(name, len, "cpu_util") || core_of(name, len, core) ? &p->cpu : NULL;
}

static int on_sample(void *arg, const struct lane_event *ev, double value)
{
	static const char *const taken[] = { "timestamp", "instance_id", "value",
					     "cpu_id",	  "thread_id",	 NULL };
	struct system_profile *p = arg;
	char core[16];
	size_t len;
	const char *name = name_of(p, ev->name, &len);
	struct buf *list = find_list(p, name, len, core, &value);

	if (!list) {
		p->counts.left_out++;
		return 0;
	}
	begin_object(p, list, !list->len, ev->start_ns);
	buf_addf(list, ",\"%s\":", list == &p->memory ? "usage" : "util");
	json_out_double(list, value);
	if (*core)
		buf_addf(list, ",\"cpu_id\":\"%s\"", core);
	put_stats(p, list, ev, taken);
	buf_add_u8(list, '}');
	p->counts.samples++;
	if (p->memory.len + p->cpu.len > SYSTEM_PROFILE_SAMPLES_BYTES)
		return err_set(
			p->e, ERR_LIMIT,
			"more than %zu MiB of samples: use a part of the session, or some of "
			"its tracks",
			SYSTEM_PROFILE_SAMPLES_BYTES >> 20);
	return 0;
}

/* ---- all ---- */

struct system_profile *system_profile_new(const struct exit_conf *conf, const struct xs_sink *out)
{
	struct system_profile *p = xcalloc(1, sizeof(*p));

	p->conf = *conf;
	p->out = *out;
	buf_add_str(&p->text, "{\"trace_events\":[");
	return p;
}

int system_profile_add(struct system_profile *p, const struct exit_host *host,
		       const struct xs_source *in, struct err *e)
{
	static const struct lanes_visitor visitor = {
		.plane = on_plane,
		.line = on_line,
		.begin = on_begin,
		.sample = on_sample,
		.wants_sample_stats = true,
	};

	p->e = e;
	p->host = host;
	return lanes_read(in, &p->conf.filter, &visitor, p, &p->names, &p->stat_names, &p->counts,
			  e);
}

int system_profile_end(struct system_profile *p, struct exit_counts *counts, struct err *e)
{
	int rc;

	p->e = e;
	buf_add_str(&p->text, "\n],\"mem_usage\":[");
	buf_add(&p->text, p->memory.data, p->memory.len);
	buf_add_str(&p->text, "\n],\"cpu_util\":[");
	buf_add(&p->text, p->cpu.data, p->cpu.len);
	buf_add_str(&p->text, "\n]}\n");
	rc = flush(p);
	*counts = p->counts;
	return rc;
}

void system_profile_free(struct system_profile *p)
{
	if (!p)
		return;
	buf_release(&p->text);
	buf_release(&p->memory);
	buf_release(&p->cpu);
	free(p);
}
