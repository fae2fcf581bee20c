/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by capture.c (the window) and file.c (the file) only. */
#ifndef AGENT_CAPTURE_CAPTURE_IMPL_H
#define AGENT_CAPTURE_CAPTURE_IMPL_H

#include "agent/capture/assemble.h"
#include "agent/capture/capture.h"
#include "agent/capture/edges.h"
#include "base/buf.h"
#include "base/loop.h"

struct captures {
	struct capture_env env;
	struct capture *head;
	size_t n;
	struct edges edges; /* where earlier windows were cut */
};

/* One tracer's run in one capture. */
struct capture_run {
	struct capture *capture;
	struct tracer *tracer;
	struct tracer_run run;
	int64_t *settings; /* of the run */
	char **texts; /* of the run */
	bool unfinished; /* armed, and neither done nor cancelled */
};

struct capture {
	struct captures *captures; /* NULL: released while a worker used it */
	struct capture *next;
	char *session, *dir, *path;
	int64_t t0_ns, t1_ns; /* session clock */
	int64_t t0_raw_ns, t1_raw_ns; /* the same, translated with `clock` */
	/* most of the window was over when it was armed; such a window is cut at edges */
	bool is_past;
	struct window_edges edges; /* from gathering on */
	int64_t cut_ns; /* by so much capture_cut() has moved t1_ns */
	int64_t margin_ns; /* extra time that tracers gather on either side of the window */
	int64_t gathered_raw_ns; /* up to when tracers gathered */
	bool was_over; /* gathering began after the latest time that the window's end may have had within the bound */
	int64_t give_up_mono_ns;
	int64_t probes_end_mono_ns; /* replies to the probes at the window's end have arrived by then */
	uint8_t *options;
	size_t options_len;
	void (*changed)(struct capture *c, enum capture_state state, void *arg);
	void *arg;

	enum capture_state state;
	/* first the model of the start, then that of T1, then the one used for the file */
	struct clock_model clock;
	bool was_calibrated; /* when the window was cut */
	bool awaited_probes; /* gathering has waited for probes once */
	bool keep_file; /* the release keeps the file */
	bool calling_tracers; /* gather() or give_up() is being called: it may end runs */
	struct capture_run *runs;
	size_t n_runs;
	struct loop_timer next_state, give_up;

	struct assembly assembly;
	const struct tracer_part **parts;
	struct pod_view *pods; /* from assembling on */
	char **warnings; /* NULL-terminated; the request's notes first */
	struct capture_report *reports;
	size_t n_reports;
	struct buf observations; /* of the file (observe.h) */
	uint64_t bytes, events; /* bytes: charged to the spool, from ASSEMBLING on */
	uint64_t part_bytes; /* charged to the spool for parts, until they are merged */
	struct err error;
	char reason[32];
};

void capture_set_state(struct capture *c, enum capture_state state);

/* Frees a run's parts, those in files too. */
void capture_drop_parts(struct tracer_run *run);
void capture_return_part_bytes(struct capture *c); /* to the spool */

/* All runs are over: makes the file on a worker. */
void capture_assemble(struct capture *c);
void capture_release_assembly(struct capture *c);

/* Frees a capture that is in no list, and removes its files. */
void capture_destroy(struct capture *c);

#endif
