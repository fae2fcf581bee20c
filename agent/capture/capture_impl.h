/* SPDX-License-Identifier: Apache-2.0 */
/* What capture.c (the window) and file.c (the file) share; nobody else includes this. */
#ifndef AGENT_CAPTURE_CAPTURE_IMPL_H
#define AGENT_CAPTURE_CAPTURE_IMPL_H

#include "agent/capture/assemble.h"
#include "agent/capture/capture.h"
#include "base/loop.h"

struct captures {
	struct capture_env env;
	struct capture *head;
	size_t n;
};

/* One tracer's part in one capture. */
struct capture_run {
	struct capture *capture;
	struct tracer *tracer;
	struct tracer_run run;
	bool live; /* armed, and neither done nor cancelled */
};

struct capture {
	struct captures *captures; /* NULL: released while a worker had it */
	struct capture *next;
	char *session, *dir, *path;
	int64_t t0_ns, t1_ns; /* session clock */
	int64_t t0_raw_ns, t1_raw_ns; /* by `clock` */
	int64_t margin_ns; /* by which tracers gather more on either side */
	int64_t gathered_raw_ns; /* up to then */
	bool gathered_enough; /* wherever in its bound the window's end is */
	int64_t give_up_mono_ns;
	int64_t settled_mono_ns; /* what probes say of the window's end is known */
	uint8_t *options;
	size_t options_len;
	void (*changed)(struct capture *c, enum capture_state state, void *arg);
	void *arg;

	enum capture_state state;
	struct clock_model clock; /* as of the start, then of T1, then as used for the file */
	bool was_calibrated; /* when the window was cut */
	bool asked; /* the clock, before anything was gathered */
	bool keep_file; /* after the release */
	bool handing_out; /* gather() or give_up() is being called: tracers are done at once */
	struct capture_run *runs;
	size_t n_runs;
	struct loop_timer step, give_up;

	struct assembly assembly;
	const struct tracer_part **parts;
	char **warnings; /* NULL-terminated */
	struct capture_report *reports;
	size_t n_reports;
	uint64_t bytes, events; /* bytes: taken of the spool, from ASSEMBLING on */
	uint64_t part_bytes; /* taken of the spool by tracers, until what they gave is merged */
	struct err error;
	char reason[32];
};

void capture_enter(struct capture *c, enum capture_state state);

/* Frees a run's parts, those in files too. */
void capture_drop_parts(struct tracer_run *run);
void capture_give_room_back(struct capture *c); /* that tracers took */

/* All runs are over: makes the file on a worker. */
void capture_assemble(struct capture *c);
void capture_release_assembly(struct capture *c);

/* Frees a capture that is in nobody's list, and its files. */
void capture_destroy(struct capture *c);

#endif
