/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/manifest.h"
#include "tests/sim/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "json/json_text.h"
#include "aggregator/sessions/sessions.h"
#include "base/buf.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "proto/reasons.h"
#include "storage/store.h"
#include "tests/lib/store.h"
#include "tests/sim/burst.h"
#include "tests/sim/daemon.h"
#include "tests/sim/job.h"
#include "tests/sim/session_time.h"
#include "tests/sim/snapshots.h"
#include "tests/sim/user.h"
#include "xspace/xspace.h"

#define ROUNDING_NS 2
#define FILE_MAX    (64 << 20)
#define READY_NS \
	(40 * NS_PER_S) /* after a failure: a host is connected, and its clock calibrated */
#define ARMED_NS       (5 * NS_PER_S) /* after a request all hosts are armed */
#define FAST_BYTES     10000000 /* a second: an upload fits into the shortest grace */
#define XSPACE_WARNING 3

struct check_counts check_counts;

/* ---- events ---- */

struct file_check {
	const struct request *request;
	const char *host;
	const struct sim_host *sim_host;
	int64_t shift_ns, t0_ns, duration_ns, bound_ns;
	int64_t line_ns;
	int64_t first_k, last_k, n;
	int64_t k_name, depth_name; /* ids of the stats */
	int64_t depth; /* that was asked for */
	int64_t n_wrong; /* events outside the bound */
	bool own_window; /* cut by the host's own clock, or by the agent's start, and said so */
	bool lacks_begin; /* of a snapshot: all that is missing is what the ring does not reach, and it said so */
	bool may_be_empty; /* its tracer failed, or its plane was left out, and it said so */
	bool no_truth; /* the session clock of then is not known here */
};

/* A true time, since T0. */
static int64_t since_t0_ns(const struct file_check *f, int64_t true_ns)
{
	return session_time_ns(f->shift_ns, true_ns) - f->t0_ns;
}

/* When the k-th burst was. */
static int64_t truth_ns(const struct file_check *f, int64_t k)
{
	return since_t0_ns(f, burst_ns(k));
}

/* The next burst that the host was awake for, forwards or backwards. */
static int64_t next_burst(const struct file_check *f, int64_t k, int step)
{
	do
		k += step;
	while (host_is_asleep(f->sim_host, burst_ns(k)));
	return k;
}

static int on_name(void *arg, int64_t id, const char *name, size_t len)
{
	struct file_check *f = arg;

	if (len == 1 && *name == 'k') /* the only plane that has one */
		f->k_name = id;
	if (len == 5 && !memcmp(name, "depth", 5))
		f->depth_name = id;
	return 0;
}

static int on_line(void *arg, const struct xs_line *l)
{
	struct file_check *f = arg;

	f->line_ns = l->timestamp_ns;
	return 0;
}

static int64_t stat_of(const struct xs_event *ev, int64_t name)
{
	for (size_t i = 0; i < ev->n_stats && name >= 0; i++) {
		if (ev->stats[i].metadata_id == name)
			return ev->stats[i].i;
	}
	return -1;
}

static void check_depth(struct file_check *f, int64_t depth)
{
	if (depth < 0 || depth == f->depth || !f->request->has_settings || f->n_wrong++)
		return;
	sim_fail("session %s host %s: recorded with depth %" PRId64 ", asked for was %" PRId64,
		 f->request->session, f->host, depth, f->depth);
}

static int on_event(void *arg, const struct xs_event *ev)
{
	struct file_check *f = arg;
	int64_t k = stat_of(ev, f->k_name), published = f->line_ns + ev->offset_ps / 1000;
	int64_t truth, error;

	check_depth(f, stat_of(ev, f->depth_name));
	if (k < 0 || f->no_truth)
		return 0;
	truth = truth_ns(f, k);
	error = llabs(published - truth);
	if (error > f->bound_ns + ROUNDING_NS && !f->n_wrong++)
		sim_fail("session %s host %s: burst %" PRId64 " is off by %" PRId64
			 " ns, the bound is %" PRId64,
			 f->request->session, f->host, k, published - truth, f->bound_ns);
	if (error > check_counts.worst_error_ns)
		check_counts.worst_error_ns = error;
	if (f->n && k != next_burst(f, f->last_k, 1))
		sim_fail("session %s host %s: no bursts between %" PRId64 " and %" PRId64,
			 f->request->session, f->host, f->last_k, k);
	f->first_k = f->n ? f->first_k : k;
	f->last_k = k;
	f->n++;
	return 0;
}

/* A host that learnt the session clock only while it recorded; or whose tracer lacks a part of the window, which the
 * manifest does not say of a host with another reason. */
static int on_text(void *arg, int field, const char *text, size_t len)
{
	static const char words[] = "clock: calibrated only during the capture";
	static const char cut[] = ", window-cut: ";
	struct file_check *f = arg;

	if (field == XSPACE_WARNING && len > sizeof(words) && !strncmp(text, words, strlen(words)))
		f->own_window = true;
	if (field == XSPACE_WARNING && memmem(text, len, cut, strlen(cut)))
		f->own_window = true;
	return 0;
}

/* Between the last probe before a sleep and the first one after it, the place of an edge is unknown. */
static bool slept_near_window(const struct file_check *f)
{
	const struct sim_host *h = f->sim_host;

	for (size_t i = 0; i < h->n_sleeps; i++) {
		if (since_t0_ns(f, h->sleeps[i].to_ns) > -NS_PER_S &&
		    since_t0_ns(f, h->sleeps[i].from_ns) < f->duration_ns + NS_PER_S)
			return true;
	}
	return false;
}

/* A host that the early end of the window reached too late has all of it. How long that is of a window of
 * steps is known only once it begins. */
static int64_t longest_ns(const struct file_check *f)
{
	if (f->request->by_step)
		return INT64_MAX / 2;
	return f->request->stop ? f->request->longest_ns : f->duration_ns;
}

/* The first burst that is certainly after the window's begin. */
static int64_t first_inside(const struct file_check *f)
{
	int64_t low = 0, high = sim.now_ns / BURST_EVERY_NS;

	while (low < high) {
		int64_t k = low + (high - low) / 2;

		if (truth_ns(f, k) <= f->bound_ns + ROUNDING_NS)
			low = k + 1;
		else
			high = k;
	}
	return low;
}

/* A file without any burst is of a window that had none. */
static void check_empty(const struct file_check *f)
{
	int64_t k = first_inside(f);

	if (truth_ns(f, k) < f->duration_ns - f->bound_ns - ROUNDING_NS &&
	    !host_is_asleep(f->sim_host, burst_ns(k)))
		sim_fail("session %s host %s: no burst, and the window had burst %" PRId64
			 " at %" PRId64 " of %" PRId64 " ns, bound %" PRId64,
			 f->request->session, f->host, k, truth_ns(f, k), f->duration_ns,
			 f->bound_ns);
}

/* Both edges, against the bursts next to them. */
static void check_window(const struct file_check *f)
{
	int64_t slack = f->bound_ns + ROUNDING_NS, k = f->first_k;
	const char *what = NULL;

	if ((f->own_window && !f->lacks_begin) || f->no_truth || slept_near_window(f))
		return;
	if (!f->n) {
		if (!f->lacks_begin && !f->request->stop && !f->may_be_empty)
			check_empty(f);
		return;
	}
	if (truth_ns(f, k) < -slack)
		what = "begins early";
	else if (!f->lacks_begin && truth_ns(f, next_burst(f, k, -1)) > slack)
		what = "begins late";
	k = f->last_k;
	if (truth_ns(f, k) > longest_ns(f) + slack)
		what = "ends late";
	else if (truth_ns(f, next_burst(f, k, 1)) < f->duration_ns - slack)
		what = "ends early";
	if (what)
		sim_fail("session %s host %s: the window %s: bursts %" PRId64 " to %" PRId64
			 " at %" PRId64 " to %" PRId64 " of %" PRId64 " ns, bound %" PRId64,
			 f->request->session, f->host, what, f->first_k, k, truth_ns(f, f->first_k),
			 truth_ns(f, k), f->duration_ns, f->bound_ns);
}

static void check_bytes(struct file_check *f, const struct buf *bytes)
{
	static const struct xs_visitor visitor = { .stat_metadata = on_name,
						   .line_begin = on_line,
						   .event = on_event,
						   .text = on_text,
						   .want_stats = true };
	const struct xs_source in = xs_source_memory(bytes->data, bytes->len);
	struct err e;

	f->k_name = f->depth_name = -1;
	if (xs_read(&in, &visitor, f, &e))
		sim_fail("session %s host %s: %s", f->request->session, f->host, e.msg);
}

/* ---- training steps ---- */

static void check_step(const struct file_check *f, const json_t *steps)
{
	int64_t step = json_get_int(steps, "first"), at_ns = json_get_int(steps, "first_at_ns");
	int64_t true_ns, truth;

	if (!job_step_ns(host_find(f->host), step, &true_ns)) {
		sim_fail("session %s host %s: there was no step %" PRId64, f->request->session,
			 f->host, step);
		return;
	}
	truth = since_t0_ns(f, true_ns);
	if (llabs(at_ns - truth) > f->bound_ns + ROUNDING_NS)
		sim_fail("session %s host %s: step %" PRId64 " is off by %" PRId64
			 " ns, the bound is %" PRId64,
			 f->request->session, f->host, step, at_ns - truth, f->bound_ns);
	check_counts.steps++;
}

/* Where nothing fails, all steps that were asked for are whole in the window. */
static void check_covered(const struct file_check *f, const json_t *manifest, const json_t *steps)
{
	const json_t *at_step = json_object_get(manifest, "at_step");
	int64_t n = json_get_int(at_step, "steps"), first = json_get_int(at_step, "step");

	if (!user_is_calm() || !at_step || !n)
		return;
	if (!steps || json_get_int(steps, "first") > first ||
	    json_get_int(steps, "last") < first + n - 1)
		sim_fail("session %s host %s: steps %" PRId64 " to %" PRId64
			 " were asked for, there are %" PRId64 " to %" PRId64,
			 f->request->session, f->host, first, first + n - 1,
			 (int64_t)json_get_int(steps, "first"),
			 (int64_t)json_get_int(steps, "last"));
}

/* ---- hosts ---- */

static bool is_typed(const char *reason)
{
	const struct reason *r = reason_find(reason);

	/* The simulation has no kernel's rights, and its profilers only refuse a second user. */
	return r && (strncmp(r->word, "profiler-", 9) || r->word == REASON_PROFILER_BUSY) &&
	       r->word != REASON_NO_PERMISSION && r->word != REASON_UNSUPPORTED;
}

/* As docs/wire.md has it: only the report is missing where a host is `lost` or `timeout` and has a file. */
static bool may_be_partial(const char *reason)
{
	const struct reason *r = reason_find(reason);

	return r &&
	       (r->states & REASON_PARTIAL || r->word == REASON_LOST || r->word == REASON_TIMEOUT);
}

/* `sum` is NULL where the agent's report did not arrive. */
static void check_sum(const struct file_check *f, const struct buf *data, const char *sum)
{
	char text[9];

	snprintf(text, sizeof(text), "%08" PRIx32, crc32c(0, data->data, data->len));
	if (sum && strcmp(sum, text))
		sim_fail("session %s host %s: the checksum is %s, the manifest says %s",
			 f->request->session, f->host, text, sum);
}

/* Reads file `i` of the host; adds its length. */
static void check_file(struct store *s, struct file_check *f, const char *run, const json_t *host,
		       size_t i, int64_t *bytes)
{
	const char *file = json_string_value(json_array_get(json_object_get(host, "files"), i));
	struct buf data = BUF_INIT;
	char directory[SESSION_KEY_BYTES];
	struct err e;
	char *key;

	session_directory(f->request->session, run, directory);
	key = xasprintf("%s%s", directory, file);
	if (get_range(s, key, 0, FILE_MAX, &data, NULL, &e))
		sim_fail("session %s: %s", f->request->session, e.msg);
	else if (json_is_integer(json_object_get(host, "clock_bound_ns")))
		check_bytes(f, &data);
	check_sum(f, &data, json_string_value(json_array_get(json_object_get(host, "crc32c"), i)));
	*bytes += (int64_t)data.len;
	buf_release(&data);
	free(key);
}

/* All files of a host: the bursts are in one of them. */
static void check_files(struct store *s, const struct request *w, const json_t *manifest,
			const json_t *host)
{
	const json_t *bound = json_object_get(host, "clock_bound_ns");
	const json_t *files = json_object_get(host, "files"),
		     *steps = json_object_get(host, "steps");
	int64_t own_t0 = json_get_int(host, "t0_ns"), bytes = 0;
	struct file_check f = {
		.request = w,
		.host = json_get_text(host, "host"),
		.sim_host = host_find(json_get_text(host, "host")),
		.shift_ns = own_t0 ? w->retry_shift_ns : w->shift_ns,
		.t0_ns = own_t0 ? own_t0 : json_get_int(manifest, "t0_ns"),
		.duration_ns = json_get_int(manifest, "duration_ns"),
		.bound_ns = json_integer_value(bound),
		.own_window = !strcmp(json_get_text(host, "reason"), "window-cut"),
		.may_be_empty = !strcmp(json_get_text(host, "reason"), REASON_TRACER_FAILED) ||
				!strcmp(json_get_text(host, "reason"), REASON_TOO_LARGE),
	};

	f.depth = json_object_get(w->settings, "sim.depth") ? json_get_int(w->settings, "sim.depth")
							    : SIM_DEPTH;
	f.no_truth = !f.shift_ns;
	f.lacks_begin = w->snapshot_ns && f.own_window && !w->retried &&
			!strstr(json_get_text(host, "detail"), "were not gathered");
	for (size_t i = 0; i < json_array_size(files); i++)
		check_file(s, &f, json_get_text(manifest, "run"), host, i, &bytes);
	if (bytes != json_get_int(host, "bytes"))
		sim_fail("session %s host %s: %" PRId64 " bytes, the manifest says %" PRId64,
			 w->session, f.host, bytes, (int64_t)json_get_int(host, "bytes"));
	if (json_is_integer(bound))
		check_window(&f);
	if (f.n && !f.own_window && !f.no_truth && !own_t0)
		snapshots_add_file(w->session, f.host, f.first_k, f.last_k);
	check_counts.events += (uint64_t)f.n;
	check_counts.more_files += json_array_size(files) - 1;
	check_counts.split += json_array_size(files) > 1;
	if (json_is_integer(bound) && f.bound_ns > check_counts.worst_bound_ns)
		check_counts.worst_bound_ns = f.bound_ns;
	if (steps && json_is_integer(bound) && !f.no_truth)
		check_step(&f, steps);
	if (!strcmp(json_get_text(host, "state"), "complete") && !own_t0)
		check_covered(&f, manifest, steps);
}

/* Nothing befell this host, the aggregator or the store since the window began, and the ring reached back to it. */
static bool must_have_window(const struct request *w, const json_t *manifest,
			     const struct sim_host *h)
{
	const struct sim_host *agg = sim.hosts[0];
	int64_t age_ns = session_time_ns(w->shift_ns, w->snapshot_ns) -
			 json_get_int(manifest, "t0_ns");

	return w->snapshot_ns && w->undisturbed && !w->retried && !w->stop &&
	       age_ns < RING_NS - ARMED_NS &&
	       h->well_since_ns + READY_NS < w->snapshot_ns - age_ns &&
	       agg->well_since_ns + READY_NS < w->snapshot_ns && h->alive &&
	       h->bytes_per_s >= FAST_BYTES;
}

static void check_snapshot(const struct request *w, const json_t *manifest, const json_t *host)
{
	const char *state = json_get_text(host, "state"), *reason = json_get_text(host, "reason");
	const char *name = json_get_text(host, "host");

	if (!w->snapshot_ns)
		return;
	check_counts.windows++;
	check_counts.gaps += !strcmp(reason, REASON_WINDOW_CUT);
	if (strcmp(state, "complete") && strcmp(reason, REASON_DISK_FULL) &&
	    must_have_window(w, manifest, host_find(name)))
		sim_fail("session %s host %s: %s (%s: %s), and its ring had all of the window",
			 w->session, name, state, reason, json_get_text(host, "detail"));
}

/* An aggregator that was restarted waits for its agents to dial again: a host that was well all the time is not lost. */
static void check_lost(const struct request *w, const json_t *host)
{
	const struct sim_host *h = host_find(json_get_text(host, "host"));

	if (strcmp(json_get_text(host, "reason"), REASON_LOST) || w->retried || !w->accepted_ns ||
	    strcmp(json_get_text(host, "detail"), "the agent's connection ended"))
		return;
	if (h->alive && h->well_since_ns + READY_NS < w->accepted_ns &&
	    h->bytes_per_s >= FAST_BYTES)
		sim_fail("session %s host %s: lost, and nothing had befallen it", w->session,
			 json_get_text(host, "host"));
}

static void count_reason(const char *reason)
{
	struct check_reason *r = check_counts.reasons, *end = r + CHECK_REASONS_MAX;

	while (r < end && r->n && strcmp(r->reason, reason))
		r++;
	if (r == end)
		return;
	snprintf(r->reason, sizeof(r->reason), "%s", reason);
	r->n++;
}

/* Whatever is retried, and however often it is looked at. */
static void check_kept(const struct request *w, const json_t *host)
{
	const char *name = json_get_text(host, "host");
	json_t *before = json_object_get(w->kept, name);
	char *was, *is;

	if (!w->kept)
		return;
	if (!before) {
		if (*json_get_text(host, "file"))
			json_object_set(w->kept, name, (json_t *)host);
		return;
	}
	check_counts.kept += w->retried;
	check_counts.kept_partial += w->retried &&
				     !strcmp(json_get_text(before, "state"), "partial");
	if (json_equal(before, host))
		return;
	was = json_dumps(before, JSON_COMPACT);
	is = json_dumps(host, JSON_COMPACT);
	sim_fail("session %s host %s had a file, and has another result: %s, then %s", w->session,
		 name, was, is);
	free(was);
	free(is);
}

void check_armed(const struct sim_host *h, const char *session)
{
	const struct request *w = user_find(session);

	if (w && json_object_get(w->kept, h->name))
		sim_fail("session %s host %s has a file, and records again", session, h->name);
}

static void check_host(struct store *s, const struct request *w, const json_t *manifest,
		       const json_t *host)
{
	const char *state = json_get_text(host, "state"), *reason = json_get_text(host, "reason");
	const char *name = json_get_text(host, "host");
	bool has_file = *json_get_text(host, "file");
	bool complete = !strcmp(state, "complete"), partial = !strcmp(state, "partial");
	bool failed = !strcmp(state, "failed");

	check_counts.complete += complete;
	check_counts.partial += partial;
	check_counts.failed += failed;
	if (failed)
		count_reason(reason);
	sim_note("  %s %s %s %s", name, state, reason, json_get_text(host, "detail"));
	if (!complete && !partial && !failed)
		sim_fail("session %s host %s: state '%s'", w->session, name, state);
	if (has_file == failed)
		sim_fail("session %s host %s: %s, file '%s'", w->session, name, state,
			 json_get_text(host, "file"));
	if (complete ? *reason != '\0' : !is_typed(reason))
		sim_fail("session %s host %s: %s, reason '%s'", w->session, name, state, reason);
	if (partial && !may_be_partial(reason))
		sim_fail("session %s host %s: its file is stored, reason '%s'", w->session, name,
			 reason);
	if (w->must_complete && !complete)
		sim_fail("session %s host %s: %s (%s: %s) on a healthy fleet", w->session, name,
			 state, reason, json_get_text(host, "detail"));
	if (user_is_calm() && !strcmp(reason, REASON_PROFILER_BUSY))
		sim_fail("session %s host %s: two captures have its profiler", w->session, name);
	check_kept(w, host);
	check_snapshot(w, manifest, host);
	check_lost(w, host);
	if (has_file)
		check_files(s, w, manifest, host);
}

/* ---- sessions ---- */

/* What the caller was told of the window. */
static void check_promises(const struct request *w, const json_t *manifest)
{
	int64_t duration_ns = json_get_int(manifest, "duration_ns");

	if (w->retried)
		return;
	if (w->cancel == PROMISE_KEPT)
		sim_fail("session %s was cancelled, and is committed", w->session);
	if (w->stop == PROMISE_KEPT && w->n_stops == 1 && !w->by_step &&
	    duration_ns != w->stopped_duration_ns)
		sim_fail("session %s was stopped after %" PRId64 " ns, the manifest says %" PRId64,
			 w->session, w->stopped_duration_ns, duration_ns);
}

bool check_same_settings(const json_t *a, const json_t *b)
{
	if (!json_object_size(a) || !json_object_size(b))
		return json_object_size(a) == json_object_size(b);
	return json_equal(a, b);
}

static void check_settings(const struct request *w, const json_t *manifest)
{
	if (w->has_settings &&
	    !check_same_settings(w->settings, json_object_get(manifest, "settings")))
		sim_fail("session %s has other settings than were asked for", w->session);
}

/* What the manifest says of all hosts together. */
static void check_sums(const struct request *w, const json_t *manifest)
{
	static const char *const states[] = { "complete", "partial", "failed" };
	const json_t *hosts = json_object_get(manifest, "hosts");

	for (size_t k = 0; k < ARRAY_SIZE(states); k++) {
		int64_t n = 0;

		for (size_t i = 0; i < json_array_size(hosts); i++)
			n += !strcmp(json_get_text(json_array_get(hosts, i), "state"), states[k]);
		if (n != json_get_int(manifest, states[k]))
			sim_fail("session %s: %" PRId64 " hosts are %s, the manifest says %" PRId64,
				 w->session, n, states[k],
				 (int64_t)json_get_int(manifest, states[k]));
	}
}

static void check_manifest(struct store *s, const struct request *w, const json_t *manifest)
{
	const json_t *hosts = json_object_get(manifest, "hosts");

	check_counts.sessions++;
	check_promises(w, manifest);
	check_settings(w, manifest);
	if (w->n_hosts && json_array_size(hosts) != w->n_hosts)
		sim_fail("session %s: %zu hosts were asked, the manifest has %zu", w->session,
			 w->n_hosts, json_array_size(hosts));
	for (size_t i = 0; i < json_array_size(hosts); i++)
		check_host(s, w, manifest, json_array_get(hosts, i));
	check_sums(w, manifest);
}

void check_session(const struct request *w)
{
	struct store *s = the_store();
	json_t *manifest = NULL;
	struct err e;

	if (!load_manifest(s, w->session, &manifest, &e))
		check_manifest(s, w, manifest);
	else if (!w->cancel && !w->removal)
		sim_fail("session %s is committed: %s", w->session, e.msg);
	json_decref(manifest);
	store_free(s);
}

/* When its session clock was set is not known here: only what needs no true time is checked. */
void check_foreign_session(struct store *s, const json_t *manifest)
{
	struct request w = { 0 };

	snprintf(w.session, sizeof(w.session), "%s", json_get_text(manifest, "session"));
	check_manifest(s, &w, manifest);
}
