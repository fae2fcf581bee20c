/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of the fleet: from a request to a committed session, one state machine per host.
 *
 * capture_begin() validates everything before any host starts, picks the session id and T0, stores the
 * intent and arms the hosts. Agents' messages and uploads come in through the functions in the middle.
 * When every host has come to an end, or at the deadline, the manifest is written and the session
 * exists; if no host has a file, what is stored is removed and the capture failed. Loop thread.
 */
#ifndef AGGREGATOR_CAPTURE_H
#define AGGREGATOR_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "aggregator/registry.h"
#include "base/err.h"

struct aggregator;
struct captures;

enum capture_state { CAP_ARMING, CAP_RUNNING, CAP_UPLOADING, CAP_COMMITTING, CAP_COMMITTED, CAP_FAILED };

enum host_state {
	HOST_ARMING,
	HOST_ARMED,
	HOST_RUNNING,
	HOST_GATHERING,
	HOST_UPLOADING,
	HOST_COMPLETE,		/* from here on it has come to an end */
	HOST_PARTIAL,
	HOST_FAILED,
};

struct tracer_report {
	char *name, *state, *reason, *detail;
	uint64_t lost;
};

struct capture_host {
	char *name;
	uint64_t instance;		/* of the agent that was armed; 0 = none */
	enum host_state state;
	char reason[32];		/* typed, docs/wire.md */
	char detail[256];
	bool stored;			/* the upload is durable in the store */
	bool reported;			/* HostResult is in */
	uint64_t bytes, bytes_done, events;
	struct host_clock clock;
	struct tracer_report *tracers;
	size_t n_tracers;
};

struct capture {
	char *session, *run, *origin;	/* origin: "api", "profiler-service", "door host-a" */
	enum capture_state state;
	bool open_ended, cancelled;
	int64_t t0_ns, duration_ns;	/* session clock */
	int64_t deadline_ns;		/* session clock: commit with what there is */
	json_t *settings;		/* as given */
	uint8_t *options;		/* serialized ProfileOptions */
	size_t options_len;
	char **tracers;			/* names asked for, NULL-terminated; NULL = all */
	struct capture_host *hosts;
	size_t n_hosts;
	json_t *warnings;		/* array of strings */
	struct err error;		/* in CAP_FAILED */
	struct captures *captures;
};

struct capture_request {
	const char *hosts;		/* selector; NULL = all */
	const char *run;		/* NULL or "" = none */
	int64_t duration_ns;
	bool open_ended;
	json_t *settings;		/* object of strings, or NULL; borrowed */
	const void *options;		/* ready-made ProfileOptions instead of settings, or NULL */
	size_t options_len;
	json_t *tracers;		/* array of names, or NULL; borrowed */
	const char *origin;
	int64_t grace_ns;		/* after the window, for gathering and uploads; 0 = as configured */
};

struct captures *captures_new(struct aggregator *agg);
void captures_free(struct captures *cs);

/* ERR_INVALID (names the option or value), ERR_NOT_FOUND (selector), ERR_LIMIT (too many at once). */
MUST_CHECK int capture_begin(struct captures *cs, const struct capture_request *req,
			     struct capture **out, struct err *e);
struct capture *capture_find(struct captures *cs, const char *session);	/* also ended ones, for a while */
void capture_stop(struct capture *c);		/* end the window now, keep the data */
void capture_cancel(struct capture *c);		/* forget it */
bool capture_is_over(const struct capture *c);

/* CAPTURE of docs/wire.md, also the body of the manifest; a new reference. */
json_t *capture_json(const struct capture *c);
json_t *captures_json(struct captures *cs);	/* {"captures": [...]} */

/* fn is called after each change of a capture; several may watch; a watch stays for good. */
void captures_watch(struct captures *cs, void (*fn)(void *arg, struct capture *c), void *arg);

/* ---- what agents say (control.c, ingest.c) ---- */

struct capture_host *capture_host_of(struct capture *c, const char *host, uint64_t instance);
void capture_host_armed(struct capture *c, struct capture_host *h, int64_t bound_ns, int64_t lead_ns);
void capture_host_progress(struct capture *c, struct capture_host *h, enum host_state state,
			   uint64_t bytes_total, uint64_t bytes_done);
void capture_host_stored(struct capture *c, struct capture_host *h, uint64_t bytes);
void capture_host_result(struct capture *c, struct capture_host *h);	/* fields of h are filled */
void capture_host_failed(struct capture *c, struct capture_host *h, const char *reason,
			 const char *fmt, ...) PRINTF_LIKE(4, 5);
void captures_host_lost(struct captures *cs, const char *host, uint64_t instance);

#endif
