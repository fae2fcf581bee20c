/* SPDX-License-Identifier: Apache-2.0 */
/* How long the events of one name take: quantiles, a histogram, host by host, and the longest ones. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/views/view.h"
#include "base/mem.h"
#include "json/json_text.h"

#define FINE_BITS    7 /* buckets of an octave as a power of two: quantiles are right to 1 % */
#define FINE	     (64 << FINE_BITS)
#define SHOWN_BITS   2 /* buckets of an octave in the answer */
#define LONGEST	     8
#define STARTS	     256 /* of a host that the answer has */
#define CHECK_EVENTS 4096 /* between two looks at `stop` */

struct one_event {
	struct view_place at;
	int64_t start_ps;
	uint64_t length_ps;
};

/* The starts tell which host is late. */
struct host_sum {
	uint64_t count, max_ps;
	ps_sum total_ps;
	int64_t starts[STARTS]; /* the earliest ones */
	size_t n_starts;
	struct one_event first;
};

struct durations {
	const struct view_durations *what;
	uint64_t fine[FINE];
	uint64_t count, min_ps, max_ps, n_seen;
	ps_sum total_ps;
	struct one_event longest[LONGEST];
	size_t n_longest;
	struct host_sum *host; /* of the file that is read */
	struct view_place here;
	uint32_t name; /* in that file */
	struct err *e;
};

/* Buckets that are as wide as 2^-bits of their octave. */
static size_t bucket_of(uint64_t v, unsigned int bits)
{
	unsigned int octave;

	if (v >> bits == 0)
		return (size_t)v;
	octave = 63 - (unsigned int)__builtin_clzll(v);
	return ((size_t)(octave - bits + 1) << bits) |
	       (size_t)(v >> (octave - bits) & ((1u << bits) - 1));
}

static uint64_t bucket_begin(size_t i, unsigned int bits)
{
	size_t octave = i >> bits;

	if (!octave)
		return i;
	return ((UINT64_C(1) << bits) | (i & ((1u << bits) - 1))) << (octave - 1);
}

static void note_longest(struct durations *d, struct one_event one)
{
	size_t i;

	if (d->n_longest == LONGEST && one.length_ps <= d->longest[LONGEST - 1].length_ps)
		return;
	if (d->n_longest < LONGEST)
		d->n_longest++;
	for (i = d->n_longest - 1; i && d->longest[i - 1].length_ps < one.length_ps; i--)
		d->longest[i] = d->longest[i - 1];
	d->longest[i] = one;
}

static void note_start(struct host_sum *h, int64_t start_ps)
{
	size_t i;

	if (h->n_starts == STARTS && start_ps >= h->starts[STARTS - 1])
		return;
	if (h->n_starts < STARTS)
		h->n_starts++;
	for (i = h->n_starts - 1; i && h->starts[i - 1] > start_ps; i--)
		h->starts[i] = h->starts[i - 1];
	h->starts[i] = start_ps;
}

static int add_event(void *arg, const struct tvx_entry *en)
{
	struct durations *d = arg;
	struct one_event one = { d->here, en->start_ps, en->length_ps };

	if (!(++d->n_seen % CHECK_EVENTS) && view_check_stop(d->what->stop, d->e))
		return ERR_CANCELLED;
	if (en->name != d->name || en->start_ps < d->what->from_ps)
		return 0;
	d->fine[bucket_of(en->length_ps, FINE_BITS)]++;
	if (!d->count++ || en->length_ps < d->min_ps)
		d->min_ps = en->length_ps;
	if (en->length_ps > d->max_ps)
		d->max_ps = en->length_ps;
	d->total_ps += en->length_ps;
	one.at.event = en->event;
	if (!d->host->count++ || en->start_ps < d->host->first.start_ps)
		d->host->first = one;
	note_start(d->host, en->start_ps);
	d->host->total_ps += en->length_ps;
	if (en->length_ps > d->host->max_ps)
		d->host->max_ps = en->length_ps;
	note_longest(d, one);
	return 0;
}

/* Only tracks that have the name are read. */
static int add_file(struct durations *d, const struct view *view, uint32_t file, uint32_t name,
		    struct err *e)
{
	const struct tvx_window w = { .from_ps = d->what->from_ps, .to_ps = d->what->to_ps };
	const struct tvx *x = view->files[file].x;
	const struct tvx_total *totals;
	const struct tvx_track *tracks;
	size_t n = tvx_totals(x, &totals);
	int rc = 0;

	tvx_tracks(x, &tracks);
	d->name = name;
	d->here.file = file;
	for (size_t i = 0; !rc && i < n; i++) {
		if (totals[i].name != name || tracks[totals[i].track].kind != TVX_EVENTS)
			continue;
		d->here.track = totals[i].track;
		rc = tvx_query(x, totals[i].track, &w, add_event, d, e);
	}
	return rc;
}

/* The name's number in this file; false: the file does not have it. */
static bool find_name(const struct tvx *x, const char *text, size_t len, uint32_t *out)
{
	size_t n = tvx_names(x), have;

	for (uint32_t i = 0; i < n; i++) {
		const char *other = tvx_name(x, i, &have);

		if (have == len && !memcmp(other, text, len)) {
			*out = i;
			return true;
		}
	}
	return false;
}

/* ---- the answer ---- */

static uint64_t quantile(const struct durations *d, double share)
{
	uint64_t want = (uint64_t)(share * (double)d->count), sum = 0, v;

	for (size_t i = 0; i < FINE; i++) {
		sum += d->fine[i];
		if (sum <= want)
			continue;
		v = (bucket_begin(i, FINE_BITS) + bucket_begin(i + 1, FINE_BITS) - 1) / 2;
		return v < d->min_ps ? d->min_ps : v > d->max_ps ? d->max_ps : v;
	}
	return d->max_ps;
}

static json_t *bins_json(const struct durations *d)
{
	uint64_t bins[64 << SHOWN_BITS] = { 0 };
	json_t *list = json_array();

	for (size_t i = 0; i < FINE; i++) {
		if (d->fine[i])
			bins[bucket_of(bucket_begin(i, FINE_BITS), SHOWN_BITS)] += d->fine[i];
	}
	for (size_t i = 0; i < ARRAY_SIZE(bins); i++) {
		if (bins[i])
			json_array_append_new(
				list, json_pack("[I,I,I]", (json_int_t)bucket_begin(i, SHOWN_BITS),
						(json_int_t)bucket_begin(i + 1, SHOWN_BITS),
						(json_int_t)bins[i]));
	}
	return list;
}

static json_t *event_json(const struct one_event *one)
{
	json_t *doc = json_object();

	json_put_int(doc, "file", one->at.file);
	json_put_int(doc, "track", one->at.track);
	json_put_int(doc, "event", (int64_t)one->at.event);
	view_put_ps(doc, "start_ps", one->start_ps);
	view_put_ps(doc, "duration_ps", (int64_t)one->length_ps);
	return doc;
}

static json_t *longest_json(const struct durations *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->n_longest; i++)
		json_array_append_new(list, event_json(&d->longest[i]));
	return list;
}

static void add_host(json_t *list, const char *host, const struct host_sum *sum)
{
	json_t *doc = json_object(), *starts = json_array();

	for (size_t i = 0; i < sum->n_starts; i++)
		json_array_append_new(starts, json_integer(sum->starts[i]));
	json_put_text(doc, "host", host);
	json_put_int(doc, "count", (int64_t)sum->count);
	view_put_sum(doc, "total_ps", sum->total_ps);
	view_put_ps(doc, "max_ps", (int64_t)sum->max_ps);
	json_put(doc, "starts_ps", starts);
	json_put(doc, "first", event_json(&sum->first));
	json_array_append_new(list, doc);
}

static void write(const struct durations *d, json_t *name, json_t *hosts, struct buf *out)
{
	json_t *doc = json_object();

	json_put(doc, "name", name);
	json_put_int(doc, "count", (int64_t)d->count);
	view_put_sum(doc, "total_ps", d->total_ps);
	view_put_ps(doc, "min_ps", (int64_t)d->min_ps);
	view_put_ps(doc, "p50_ps", (int64_t)quantile(d, 0.5));
	view_put_ps(doc, "p90_ps", (int64_t)quantile(d, 0.9));
	view_put_ps(doc, "p99_ps", (int64_t)quantile(d, 0.99));
	view_put_ps(doc, "max_ps", (int64_t)d->max_ps);
	json_put(doc, "bins", bins_json(d));
	json_put(doc, "longest", longest_json(d));
	json_put(doc, "hosts", hosts);
	json_write(out, doc, 0);
}

int view_write_durations(const struct view *view, const struct view_durations *what,
			 struct buf *out, struct err *e)
{
	struct durations *d;
	struct host_sum sum = { 0 };
	const struct tvx_track *t;
	struct tvx_entry en;
	json_t *hosts;
	const char *text;
	size_t len;
	uint32_t name;
	int rc = view_check_track(view, what->of.file, what->of.track, &t, e);

	if (!rc)
		rc = tvx_event(view->files[what->of.file].x, what->of.track, what->of.event, &en,
			       e);
	if (rc)
		return rc;
	text = tvx_name(view->files[what->of.file].x, en.name, &len);
	d = xcalloc(1, sizeof(*d));
	d->what = what;
	d->host = &sum;
	d->e = e;
	hosts = json_array();
	/* the files of a host follow each other */
	for (uint32_t i = 0; !rc && i < view->n_files; i++) {
		const char *host = view->files[i].host;

		if (find_name(view->files[i].x, text, len, &name))
			rc = add_file(d, view, i, name, e);
		if (i + 1 == view->n_files || strcmp(view->files[i + 1].host, host)) {
			if (sum.count)
				add_host(hosts, host, &sum);
			sum = (struct host_sum){ 0 };
		}
	}
	if (rc)
		json_decref(hosts);
	else
		write(d, view_text_json(text, len, VIEW_NAME_BYTES), hosts, out);
	free(d);
	return rc;
}
