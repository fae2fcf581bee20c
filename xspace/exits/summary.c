/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session in a page of text. Names are added up by kind of plane, so that the processes and devices of all hosts share
 * a table: "/host:CPU [4711]" counts as "/host:CPU", "/device:GPU:3" as "/device:GPU".
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "xspace/exits/lanes.h"
#include "xspace/exits/self_time.h"

#define TOP	   15 /* names of a kind of plane */
#define NAME_SHOWN 96 /* bytes of them */
#define IS_STEP	   UINT32_MAX /* the id of an event that is no name */

/* Of all events with one name, in all planes of a kind. */
struct name_time {
	uint32_t kind, name; /* numbers in `kinds` and `all_names`; set at the end */
	uint64_t events;
	int64_t self_ns, total_ns, longest_ns;
};

/* Of a host. */
struct host_steps {
	char host[132];
	uint64_t events;
	int64_t total_ns, shortest_ns, longest_ns;
};

struct exit_summary {
	struct exit_conf conf;
	struct xs_sink out;
	struct exit_counts counts;
	struct names kinds, all_names, pairs; /* pairs: of both numbers */
	struct name_time *times; /* by the pair's number */
	size_t cap_times;
	struct host_steps *hosts;
	size_t n_hosts;
	/* the present plane and line */
	uint32_t kind;
	struct self_stack *stacks; /* ids are pairs */
	struct lanes_names names, stat_names;
	struct err *e;
};

static void add_ns(int64_t *to, int64_t ns)
{
	if (__builtin_add_overflow(*to, ns, to))
		*to = INT64_MAX;
}

/* ---- the visitor ---- */

static size_t kind_length(const char *plane)
{
	const char *process = strstr(plane, " [");
	size_t len = process ? (size_t)(process - plane) : strlen(plane), digits = len;

	while (digits && isdigit((unsigned char)plane[digits - 1]))
		digits--;
	if (!strncmp(plane, "/device:", 8) && digits > 8 && digits < len &&
	    plane[digits - 1] == ':')
		len = digits - 1;
	return len;
}

static int on_plane(void *arg, const struct lanes_plane *plane)
{
	struct exit_summary *s = arg;

	return names_add(&s->kinds, plane->name, kind_length(plane->name), &s->kind, s->e);
}

static int on_line(void *arg, const struct xs_line *line)
{
	struct exit_summary *s = arg;

	(void)line;
	self_clear(s->stacks);
	s->counts.tracks++;
	return 0;
}

static int find_pair(struct exit_summary *s, uint32_t name, uint32_t *out)
{
	const char *text = "?";
	size_t len = 1;
	uint32_t pair[2] = { s->kind };
	int rc;

	if (name != LANES_NO_NAME)
		text = lanes_text(&s->names, name, &len);
	rc = names_add(&s->all_names, text, len, &pair[1], s->e);
	if (!rc)
		rc = names_add(&s->pairs, pair, sizeof(pair), out, s->e);
	if (rc || *out < s->cap_times)
		return rc;
	s->times = xrealloc(s->times, (2 * s->cap_times + 1024) * sizeof(*s->times));
	memset(s->times + s->cap_times, 0, (s->cap_times + 1024) * sizeof(*s->times));
	s->cap_times = 2 * s->cap_times + 1024;
	return 0;
}

static bool is_step(const struct exit_summary *s, const struct lane_event *ev)
{
	for (size_t i = 0; i < ev->n_stats; i++) {
		if (lanes_is_stat(&s->stat_names, &ev->stats[i], "step_num"))
			return true;
	}
	return false;
}

static void add_step(struct exit_summary *s, int64_t ns)
{
	struct host_steps *h = &s->hosts[s->n_hosts - 1];

	if (!h->events || ns < h->shortest_ns)
		h->shortest_ns = ns;
	if (ns > h->longest_ns)
		h->longest_ns = ns;
	add_ns(&h->total_ns, ns);
	h->events++;
}

static int on_begin(void *arg, const struct lane_event *ev)
{
	struct exit_summary *s = arg;
	int64_t ns = self_clip(&s->conf.filter, ev->start_ns, ev->end_ns);
	uint32_t pair = IS_STEP;
	int rc = 0;

	s->counts.slices++;
	if (is_step(s, ev)) {
		add_step(s, ns);
	} else {
		struct name_time *t;

		rc = find_pair(s, ev->name, &pair);
		if (rc)
			return rc;
		t = &s->times[pair];
		t->events++;
		add_ns(&t->total_ns, ns);
		if (ns > t->longest_ns)
			t->longest_ns = ns;
	}
	if (ev->end_ns > ev->start_ns)
		self_push(&s->stacks[ev->lane], pair, ns);
	return 0;
}

static int on_end(void *arg, uint32_t lane, int64_t end_ns)
{
	struct exit_summary *s = arg;
	uint32_t pair;
	int64_t ns = self_pop(&s->stacks[lane], &pair);

	(void)end_ns;
	if (pair != IS_STEP)
		add_ns(&s->times[pair].self_ns, ns);
	return 0;
}

/* ---- the text ---- */

static void put_steps(const struct exit_summary *s, struct buf *text)
{
	bool is_first = true;

	for (size_t i = 0; i < s->n_hosts; i++) {
		const struct host_steps *h = &s->hosts[i];

		if (!h->events)
			continue;
		if (is_first)
			buf_addf(text, "\nsteps, in ms\n  %10s %12s %12s %12s  host\n", "number",
				 "mean", "shortest", "longest");
		is_first = false;
		buf_addf(text, "  %10" PRIu64 " %12.3f %12.3f %12.3f  %s\n", h->events,
			 (double)h->total_ns / (double)h->events / 1e6,
			 (double)h->shortest_ns / 1e6, (double)h->longest_ns / 1e6, h->host);
	}
}

static int by_self_time(const void *a, const void *b)
{
	const struct name_time *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->self_ns != y->self_ns)
		return x->self_ns > y->self_ns ? -1 : 1;
	if (x->events != y->events)
		return x->events > y->events ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

static void put_text(struct buf *text, const struct names *n, uint32_t number)
{
	uint64_t begin = number ? n->ends[number - 1] : 0;
	char clean[NAME_SHOWN + 5];

	clean_sentence(clean, sizeof(clean), (const char *)n->text.data + begin,
		       (size_t)(n->ends[number] - begin));
	buf_add_str(text, *clean ? clean : "?");
}

/* The names of a kind of plane: times[0 .. n), those with the most time first. */
static void put_kind(const struct exit_summary *s, const struct name_time *times, size_t n,
		     struct buf *text)
{
	int64_t sum_ns = 0, rest_ns = 0;

	for (size_t i = 0; i < n; i++) {
		add_ns(&sum_ns, times[i].self_ns);
		if (i >= TOP)
			add_ns(&rest_ns, times[i].self_ns);
	}
	buf_addf(text, "\n");
	put_text(text, &s->kinds, times->kind);
	buf_addf(text, ": names by their own time, in ms\n  %12s %6s %12s %12s %10s  name\n", "own",
		 "", "with inner", "longest", "events");
	for (size_t i = 0; i < n && i < TOP; i++) {
		const struct name_time *t = &times[i];

		buf_addf(text, "  %12.3f %5.1f%% %12.3f %12.3f %10" PRIu64 "  ",
			 (double)t->self_ns / 1e6,
			 sum_ns ? 100 * (double)t->self_ns / (double)sum_ns : 0,
			 (double)t->total_ns / 1e6, (double)t->longest_ns / 1e6, t->events);
		put_text(text, &s->all_names, t->name);
		buf_addf(text, "\n");
	}
	if (n > TOP)
		buf_addf(text, "  %12.3f %5.1f%% %36zu  other names\n", (double)rest_ns / 1e6,
			 sum_ns ? 100 * (double)rest_ns / (double)sum_ns : 0, n - TOP);
}

static void put_names(struct exit_summary *s, struct buf *text)
{
	size_t n = s->pairs.n, end;

	for (size_t i = 0; i < n; i++) {
		uint32_t pair[2];

		memcpy(pair, s->pairs.text.data + i * sizeof(pair), sizeof(pair));
		s->times[i].kind = pair[0];
		s->times[i].name = pair[1];
	}
	sort_array(s->times, n, sizeof(*s->times), by_self_time);
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && s->times[end].kind == s->times[i].kind;)
			end++;
		put_kind(s, s->times + i, end - i, text);
	}
}

/* ---- all ---- */

struct exit_summary *exit_summary_new(const struct exit_conf *conf, const struct xs_sink *out)
{
	struct exit_summary *s = xcalloc(1, sizeof(*s));

	s->conf = *conf;
	s->out = *out;
	s->stacks = xcalloc(EXIT_LANES_MAX, sizeof(*s->stacks));
	return s;
}

/* The files of a host follow one another. */
static void find_host(struct exit_summary *s, const char *name)
{
	if (s->n_hosts && !strcmp(s->hosts[s->n_hosts - 1].host, name))
		return;
	s->hosts = xrealloc(s->hosts, (s->n_hosts + 1) * sizeof(*s->hosts));
	s->hosts[s->n_hosts] = (struct host_steps){ 0 };
	clean_text(s->hosts[s->n_hosts].host, sizeof(s->hosts->host), name, strlen(name));
	s->n_hosts++;
}

int exit_summary_add(struct exit_summary *s, const struct exit_host *host,
		     const struct xs_source *in, struct err *e)
{
	static const struct lanes_visitor visitor = {
		.plane = on_plane,
		.line = on_line,
		.begin = on_begin,
		.end = on_end,
	};

	s->e = e;
	find_host(s, host->name);
	return lanes_read(in, &s->conf.filter, &visitor, s, &s->names, &s->stat_names, &s->counts,
			  e);
}

int exit_summary_end(struct exit_summary *s, struct exit_counts *counts, struct err *e)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	put_steps(s, &text);
	put_names(s, &text);
	if (text.len)
		rc = s->out.write(s->out.arg, text.data, text.len, e);
	s->counts.bytes = text.len;
	*counts = s->counts;
	buf_release(&text);
	return rc;
}

void exit_summary_free(struct exit_summary *s)
{
	if (!s)
		return;
	names_release(&s->kinds);
	names_release(&s->all_names);
	names_release(&s->pairs);
	self_release(s->stacks);
	free(s->times);
	free(s->hosts);
	free(s);
}
