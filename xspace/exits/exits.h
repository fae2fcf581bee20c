/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a session in the formats of other viewers: Perfetto's own (pftrace), Chrome's JSON, pprof's profiles, and as a
 * text. Files are added one after the other; memory is bounded whatever their size: names of one plane, and some 60 MB of
 * one line's events; of a profile and a text also all its names and stacks. Pure: no files, no clock, no threads. Nothing in an XSpace is trusted: ERR_INVALID names the offset.
 *
 * All formats have whole nanoseconds: begins and ends of events are rounded down, each by itself, so that what is
 * nested stays nested and what follows does not overlap. Events of a line that overlap otherwise get a further track,
 * "NAME (2)". Aggregates, which have no time, are only counted.
 */
#ifndef XSPACE_EXITS_EXITS_H
#define XSPACE_EXITS_EXITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "xspace/xspace.h"

/* Which events go out. Zeroed, but for to_ns: all of them. */
struct exit_filter {
	int64_t from_ns, to_ns; /* since T0: events that overlap [from, to), whole */
	int64_t min_ns; /* and are no shorter; counters' samples have no length */
	bool no_devices, no_hosts; /* planes "/device:...", all others */
	bool (*wants)(void *arg, const char *plane, const char *line); /* NULL = all */
	void *arg;
};

/* What is known of a file's host. */
struct exit_host {
	const char *name;
	int64_t clock_bound_ns; /* below 0 = unknown */
};

struct exit_counts {
	uint64_t slices, samples, flow_ends, tracks; /* written */
	uint64_t filtered; /* events that the filter holds back */
	uint64_t untimed; /* aggregates */
	uint64_t
		left_out; /* their time is out of range, more than EXIT_LANES_MAX of a line overlap, or the format has no place for them */
	uint64_t bytes;
};

#define EXIT_LANES_MAX	256 /* tracks of one line */
#define EXIT_NAME_MAX	4096 /* bytes of a name; longer ones are cut */
#define EXIT_STACKS_MAX (1 << 20) /* different ones of a profile */
#define EXIT_STATS_MAX	256 /* of an event; binary ones, and those of its metadata, are left out */

/* By what tracks are grouped. */
enum exit_group {
	EXIT_BY_HOST = 1,
	EXIT_BY_PROCESS = 2, /* the plane's process; planes without one are named */
	EXIT_BY_DEVICE = 4, /* of a device its name; "host" for all others */
	EXIT_BY_PLANE = 8,
	EXIT_BY_LINE = 16,
};

struct exit_conf {
	int64_t t0_unix_ns, duration_ns; /* the window */
	struct exit_filter filter;
	unsigned int primary,
		secondary; /* sums of enum exit_group; 0 = host, then plane, then line */
};

/* A trace of Perfetto. `conf` and `out` are copied. */
struct pftrace;
struct pftrace *pftrace_new(const struct exit_conf *conf, const struct xs_sink *out);
MUST_CHECK int pftrace_add(struct pftrace *p, const struct exit_host *host,
			   const struct xs_source *in, struct err *e);
MUST_CHECK int pftrace_end(struct pftrace *p, struct exit_counts *counts, struct err *e);
void pftrace_free(struct pftrace *p); /* NULL is fine */

/* Chrome's trace events: {"traceEvents": [...]}; `primary` and `secondary` are not used. */
struct chrome_trace;
struct chrome_trace *chrome_trace_new(const struct exit_conf *conf, const struct xs_sink *out);
MUST_CHECK int chrome_trace_add(struct chrome_trace *t, const struct exit_host *host,
				const struct xs_source *in, struct err *e);
MUST_CHECK int chrome_trace_end(struct chrome_trace *t, struct exit_counts *counts, struct err *e);
void chrome_trace_free(struct chrome_trace *t); /* NULL is fine */

/*
 * The system profile of AWS's Neuron Profiler: {"trace_events": [...], "mem_usage": [...], "cpu_util": [...]}. An event has
 * its stats as members, beside name, timestamp (Unix ns), duration (ns), group (the line), instance_id (the host), process_id
 * and thread_id. Counters are the host's used memory and the cores' use, imported ones and those of the tracer metrics; all
 * others are left out. ERR_LIMIT beyond SYSTEM_PROFILE_SAMPLES_BYTES of them, which are written at the end.
 */
#define SYSTEM_PROFILE_SAMPLES_BYTES ((size_t)64 << 20)
struct system_profile;
struct system_profile *system_profile_new(const struct exit_conf *conf, const struct xs_sink *out);
MUST_CHECK int system_profile_add(struct system_profile *p, const struct exit_host *host,
				  const struct xs_source *in, struct err *e);
MUST_CHECK int system_profile_end(struct system_profile *p, struct exit_counts *counts,
				  struct err *e);
void system_profile_free(struct system_profile *p); /* NULL is fine */

/*
 * CPU samples as a profile of pprof, not compressed: nanoseconds of CPU time by stack, with labels `host` and `thread`.
 * Only planes of the tracer cpu count; time outside of the filter's does not. Beyond EXIT_STACKS_MAX stacks the time of
 * a function is its caller's, and the event is counted as left out. `slices` are events read, `samples` the profile's,
 * `tracks` threads. Nothing is written before the end.
 */
struct pprof;
struct pprof *pprof_new(const struct exit_conf *conf, const struct xs_sink *out);
MUST_CHECK int pprof_add(struct pprof *p, const struct exit_host *host, const struct xs_source *in,
			 struct err *e);
MUST_CHECK int pprof_end(struct pprof *p, struct exit_counts *counts, struct err *e);
void pprof_free(struct pprof *p); /* NULL is fine */

/*
 * A text: the training steps of each host, and the names with the most time of their own, for each kind of plane
 * ("/device:GPU" for all of them). Events with the stat `step_num` are steps and no names. Time outside of the filter's
 * does not count. `samples` are 0, `tracks` lines read. Nothing is written before the end.
 */
struct exit_summary;
struct exit_summary *exit_summary_new(const struct exit_conf *conf, const struct xs_sink *out);
MUST_CHECK int exit_summary_add(struct exit_summary *s, const struct exit_host *host,
				const struct xs_source *in, struct err *e);
MUST_CHECK int exit_summary_end(struct exit_summary *s, struct exit_counts *counts, struct err *e);
void exit_summary_free(struct exit_summary *s); /* NULL is fine */

/*
 * One XSpace of all hosts. A plane is named "NAME [HOST]", but the first "/host:CPU" and the first "Task Environment" keep
 * their names, for readers that look for them; ids of devices are counted through, errors and warnings begin with their
 * host. Everything else is copied, and of planes only the fields are checked: `slices` are 0, `tracks` are lines. The
 * files of a host follow one another. ERR_LIMIT from 2 GiB on. Of `conf` nothing is used.
 */
struct merged;
struct merged *merged_new(const struct exit_conf *conf, const struct xs_sink *out);
MUST_CHECK int merged_add(struct merged *m, const struct exit_host *host,
			  const struct xs_source *in, struct err *e);
MUST_CHECK int merged_end(struct merged *m, struct exit_counts *counts, struct err *e);
void merged_free(struct merged *m); /* NULL is fine */

/* A format by its name, for whoever lets others choose: "pftrace", "json", "system-profile", "pprof", "summary", "merged". The functions
 * are those above, of the trace that `begin` returned. */
struct exit_format {
	const char *name;
	const char *suffix; /* of a file of it, without the dot */
	bool is_gzip; /* who writes the file compresses it */
	bool is_page; /* a text for people: who writes it puts the session's part of the manifest before it */
	void *(*begin)(const struct exit_conf *conf, const struct xs_sink *out);
	int (*add)(void *trace, const struct exit_host *host, const struct xs_source *in,
		   struct err *e);
	int (*end)(void *trace, struct exit_counts *counts, struct err *e);
	void (*release)(void *trace);
};
const struct exit_format *exit_format_find(const char *name); /* NULL: there is none */

#endif
