/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of `tutti doctor`. Each check has a name, which scripts may rely on, and adds one finding: what is there, and
 * if that is wrong its cause and the exact mend. doctor_check_*() are groups of checks, a file each.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/api.h"

struct doctor_conf {
	struct api_conf api;
	char *root;
	char *local_socket;
	char *aggregator;
	char *store;
	char *output;
	int pid;
};

enum verdict {
	VERDICT_OK,
	VERDICT_SKIPPED, /* it could not be checked, or there is nothing to check here */
	VERDICT_WARNING, /* something is missing, the rest works */
	VERDICT_FAILED,
	VERDICTS
};

struct doctor {
	const struct doctor_conf *conf;
	json_t *findings; /* docs/schema/doctor.schema.json */
	json_t *agent; /* docs/schema/agent-status.schema.json; NULL = no agent answers */
	unsigned int n[VERDICTS];
};

/* Adds a finding: a sentence about what is there. */
void doctor_add(struct doctor *d, const char *check, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The mend of the last finding: a command or a sentence. */
void doctor_fix(struct doctor *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first line of a file of the host below --root, "" if there is none; then false. */
bool doctor_line(const struct doctor *d, const char *path, char *out, size_t size);
bool doctor_has_file(const struct doctor *d, const char *path);

/* The state of the agent's tracer: "ok", "degraded", "off"; "" if it is not known. */
const char *doctor_tracer_state(const struct doctor *d, const char *name);

void doctor_check_agent(struct doctor *d); /* first: sets d->agent */
void doctor_check_kernel(struct doctor *d);
void doctor_check_host(struct doctor *d); /* disks, GPUs */
void doctor_check_job(struct doctor *d); /* the process --pid, if it is given */
void doctor_check_aggregator(struct doctor *d);
void doctor_check_store(struct doctor *d); /* --store, if it is given */

#endif
