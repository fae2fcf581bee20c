/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an XSpace in the formats of other viewers. They must agree on what is in it, and end what they begin. */
#include "xspace/exits/exits.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Twice the bytes as files of two hosts: what is read as an XSpace stays one, with twice the events. */
static void merge(const struct exit_conf *conf, const struct xs_source *in)
{
	const struct exit_host one = { .name = "one" }, two = { .name = "two" };
	struct buf bytes = BUF_INIT;
	const struct xs_sink out = xs_sink_buf(&bytes);
	struct merged *m = merged_new(conf, &out);
	struct xs_summary before, after;
	struct exit_counts counts;
	int rc = merged_add(m, &one, in, NULL);

	if (!rc)
		rc = merged_add(m, &two, in, NULL);
	if (merged_end(m, &counts, NULL) || (!rc && counts.bytes != bytes.len))
		abort();
	if (!rc && !xs_summarize(in, &before, NULL)) {
		const struct xs_source merged = xs_source_memory(bytes.data, bytes.len);

		if (xs_summarize(&merged, &after, NULL) || after.events != 2 * before.events ||
		    after.planes != 2 * before.planes || counts.tracks != after.lines)
			abort();
	}
	merged_free(m);
	buf_release(&bytes);
}

static int ends(const struct buf *text, const char *with)
{
	size_t n = strlen(with);

	return text->len >= n && !memcmp(text->data + text->len - n, with, n);
}

/* The same events, and no more samples, as a system profile. */
static void write_system_profile(const struct exit_conf *conf, const struct exit_host *host,
				 const struct xs_source *in, int expected,
				 const struct exit_counts *others)
{
	struct buf text = BUF_INIT;
	const struct xs_sink out = xs_sink_buf(&text);
	struct system_profile *p = system_profile_new(conf, &out);
	struct exit_counts n;

	if (system_profile_add(p, host, in, NULL) != expected || system_profile_end(p, &n, NULL) ||
	    n.bytes != text.len || !ends(&text, "\n]}\n"))
		abort();
	if (n.slices != others->slices || n.samples > others->samples ||
	    n.samples + n.left_out != others->samples + others->left_out)
		abort();
	system_profile_free(p);
	buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* the first byte draws the settings */
	const struct exit_conf conf = {
		.t0_unix_ns = size && data[0] & 1 ? INT64_C(1700000000000000000) : 0,
		.filter = { .from_ns = size && data[0] & 2 ? 1000 : -1000,
			    .to_ns = INT64_MAX / 1000,
			    .min_ns = size && data[0] & 4 ? 5 : 0 },
		.primary = size && data[0] & 8 ? EXIT_BY_HOST | EXIT_BY_PROCESS : 0,
		.secondary = size && data[0] & 16 ? EXIT_BY_PLANE | EXIT_BY_LINE : 0
	};
	const struct exit_host host = { .name = "host", .clock_bound_ns = (int64_t)size - 10 };
	const struct xs_source in = xs_source_memory(data, size);
	struct buf trace = BUF_INIT, json = BUF_INIT, profile = BUF_INIT, text = BUF_INIT;
	const struct xs_sink to_trace = xs_sink_buf(&trace), to_json = xs_sink_buf(&json);
	const struct xs_sink to_profile = xs_sink_buf(&profile), to_text = xs_sink_buf(&text);
	struct pftrace *p = pftrace_new(&conf, &to_trace);
	struct chrome_trace *t = chrome_trace_new(&conf, &to_json);
	struct pprof *pp = pprof_new(&conf, &to_profile);
	struct exit_summary *s = exit_summary_new(&conf, &to_text);
	struct exit_counts a, b, c, d;
	int first = pftrace_add(p, &host, &in, NULL),
	    second = chrome_trace_add(t, &host, &in, NULL);

	if (first != second || pftrace_end(p, &a, NULL) || chrome_trace_end(t, &b, NULL))
		abort();
	if (a.slices != b.slices || a.samples != b.samples || a.left_out != b.left_out ||
	    a.filtered != b.filtered || a.bytes != trace.len || !ends(&json, "\n]}\n"))
		abort();
	/* of a profile, lines of other planes are not read, and so not checked */
	if (exit_summary_add(s, &host, &in, NULL) != first ||
	    (pprof_add(pp, &host, &in, NULL) && !first) || pprof_end(pp, &c, NULL) ||
	    exit_summary_end(s, &d, NULL))
		abort();
	if (c.bytes != profile.len || d.bytes != text.len ||
	    (!first && (d.slices != a.slices || c.slices > a.slices)))
		abort();
	write_system_profile(&conf, &host, &in, first, &a);
	merge(&conf, &in);
	pprof_free(pp);
	exit_summary_free(s);
	buf_release(&profile);
	buf_release(&text);
	pftrace_free(p);
	chrome_trace_free(t);
	buf_release(&trace);
	buf_release(&json);
	return 0;
}
