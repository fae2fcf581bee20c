/* SPDX-License-Identifier: Apache-2.0 */
/* The formats as a table. Each function calls one of exits.h by the type that it has there. */
#include "xspace/exits/exits.h"

#include <string.h>

#include "base/mem.h"

static void *begin_pftrace(const struct exit_conf *conf, const struct xs_sink *out)
{
	return pftrace_new(conf, out);
}

static int add_pftrace(void *trace, const struct exit_host *host, const struct xs_source *in,
		       struct err *e)
{
	return pftrace_add(trace, host, in, e);
}

static int end_pftrace(void *trace, struct exit_counts *counts, struct err *e)
{
	return pftrace_end(trace, counts, e);
}

static void release_pftrace(void *trace)
{
	pftrace_free(trace);
}

static void *begin_json(const struct exit_conf *conf, const struct xs_sink *out)
{
	return chrome_trace_new(conf, out);
}

static int add_json(void *trace, const struct exit_host *host, const struct xs_source *in,
		    struct err *e)
{
	return chrome_trace_add(trace, host, in, e);
}

static int end_json(void *trace, struct exit_counts *counts, struct err *e)
{
	return chrome_trace_end(trace, counts, e);
}

static void release_json(void *trace)
{
	chrome_trace_free(trace);
}

static void *begin_system(const struct exit_conf *conf, const struct xs_sink *out)
{
	return system_profile_new(conf, out);
}

static int add_system(void *trace, const struct exit_host *host, const struct xs_source *in,
		      struct err *e)
{
	return system_profile_add(trace, host, in, e);
}

static int end_system(void *trace, struct exit_counts *counts, struct err *e)
{
	return system_profile_end(trace, counts, e);
}

static void release_system(void *trace)
{
	system_profile_free(trace);
}

static void *begin_pprof(const struct exit_conf *conf, const struct xs_sink *out)
{
	return pprof_new(conf, out);
}

static int add_pprof(void *trace, const struct exit_host *host, const struct xs_source *in,
		     struct err *e)
{
	return pprof_add(trace, host, in, e);
}

static int end_pprof(void *trace, struct exit_counts *counts, struct err *e)
{
	return pprof_end(trace, counts, e);
}

static void release_pprof(void *trace)
{
	pprof_free(trace);
}

static void *begin_summary(const struct exit_conf *conf, const struct xs_sink *out)
{
	return exit_summary_new(conf, out);
}

static int add_summary(void *trace, const struct exit_host *host, const struct xs_source *in,
		       struct err *e)
{
	return exit_summary_add(trace, host, in, e);
}

static int end_summary(void *trace, struct exit_counts *counts, struct err *e)
{
	return exit_summary_end(trace, counts, e);
}

static void release_summary(void *trace)
{
	exit_summary_free(trace);
}

static void *begin_merged(const struct exit_conf *conf, const struct xs_sink *out)
{
	return merged_new(conf, out);
}

static int add_merged(void *trace, const struct exit_host *host, const struct xs_source *in,
		      struct err *e)
{
	return merged_add(trace, host, in, e);
}

static int end_merged(void *trace, struct exit_counts *counts, struct err *e)
{
	return merged_end(trace, counts, e);
}

static void release_merged(void *trace)
{
	merged_free(trace);
}

static const struct exit_format formats[] = {
	{ "pftrace", "pftrace", false, false, begin_pftrace, add_pftrace, end_pftrace,
	  release_pftrace },
	{ "json", "trace.json", false, false, begin_json, add_json, end_json, release_json },
	{ "system-profile", "system_profile.json", false, false, begin_system, add_system,
	  end_system, release_system },
	{ "pprof", "pb.gz", true, false, begin_pprof, add_pprof, end_pprof, release_pprof },
	{ "summary", "summary.txt", false, true, begin_summary, add_summary, end_summary,
	  release_summary },
	{ "merged", "xplane.pb", false, false, begin_merged, add_merged, end_merged,
	  release_merged },
};

const struct exit_format *exit_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	}
	return NULL;
}
