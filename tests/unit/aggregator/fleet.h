/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole aggregator on the test's loop (mem:// store, ports of the system's choice), and fake agents
 * that speak control.proto to it over loopback. Agents do what the test says and nothing else, but for
 * what their `auto_*` flags ask for.
 */
#ifndef TESTS_AGGREGATOR_FLEET_H
#define TESTS_AGGREGATOR_FLEET_H

#include <stdbool.h>

#include <jansson.h>

#include "aggregator/aggregator.h"
#include "aggregator/captures/capture.h"
#include "aggregator/fleet/registry.h"
#include "base/buf.h"
#include "base/now.h"
#include "net/rpc.h"
#include "proto/limits.h"
#include "proto/tutti/v1/control.pb-c.h"
#include "tests/lib/check.h"
#include "tests/lib/run_until.h"

struct fleet {
	struct loop *loop;
	struct aggregator agg;
	struct rpc *rpc; /* the clients' */
	struct rpc_channel *channel, *former;
	char spool[64];
};

/* Short lead, grace and patience; `lead_ns` and `grace_ns` 0 = 20 ms and 20 s. */
extern bool fleet_checks_files; /* false: any bytes are taken for an XSpace */

void fleet_start(struct fleet *f, int64_t lead_ns, int64_t grace_ns);
void fleet_stop(struct fleet *f);

/* Agents that dial from now on have another connection: one carries 256 calls. Once. */
void fleet_dial_again(struct fleet *f);

#define WAIT(f, cond) RUN_UNTIL((f)->loop, cond)

/* The --token-file of fleets that start from now on; NULL = none. */
extern const char *fleet_token_file;

/* Further settings of fleets that start from now on; NULL = none. */
extern void (*fleet_set_conf)(struct aggregator_conf *c);

size_t fleet_keys(struct fleet *f); /* objects in the store */
bool fleet_has_key(struct fleet *f, const char *key);

/* Nothing is stored but that this one failed. */
void fleet_check_failed(struct fleet *f, const char *session);

/* Waits until a crash can no longer undo what was asked of the capture; the code of capture_when_durable(). */
int fleet_wait_durable(struct fleet *f, struct capture *c);

/* Whether the store has a ledger of this session. */
bool fleet_has_ledger(struct fleet *f, const char *session);

/* Carries on, in a fleet that has started, what fleet_left() gave. */
void fleet_recover(struct fleet *f, const json_t *left);

/* What a crash now would leave of the session, as captures_recover() takes it: an array, a new reference. */
json_t *fleet_left(struct fleet *f, const char *session);

struct fake {
	struct fleet *fleet;
	char name[64];
	uint64_t instance;
	bool auto_arm; /* answers Arm with Armed */
	bool chunk_files; /* uploads are of several files, each a chunk */
	bool resumes; /* uploads ask where to go on, and have the checksum of all bytes */
	bool auto_deliver; /* after Armed: uploads a small file and reports it */
	bool uncalibrated; /* HostResult says so */
	bool has_profiler; /* Hello names that tracer, too */
	int max_depth; /* range of the setting cpu.depth; 0 = 16, -1 = Hello lists no setting */
	char held[64], held_state[16]; /* a session that Hello names; "" = none */
	uint64_t held_instance; /* 0 = that of Hello */
	struct rpc_call *call; /* NULL = closed */
	int welcomes, arms, stops, cancels, uploads, releases, answers, step_watches, pokes;
	uint64_t cookie, epoch;
	uint32_t probe_port;
	char session[64]; /* of the last Arm */
	int64_t t0_ns, duration_ns, deadline_ns, gather_by_ns, t1_ns;
	uint8_t options[4096]; /* of the last Arm */
	size_t options_len;
	char settings[256]; /* "key=value;..." */
	char tracers[128]; /* "name;..." */
	bool answer_ok;
	char answer_session[64], answer_detail[256];
	enum rpc_code code; /* once closed */
	char text[256];
};

/* Dials; fake_connect() also waits for Welcome. */
void fake_dial(struct fake *a, struct fleet *f, const char *name, uint64_t instance);
void fake_connect(struct fake *a, struct fleet *f, const char *name);
void fake_hang_up(struct fake *a); /* as a killed agent does; waits for the end */

void fake_hello(struct fake *a, const char *label_key, const char *label_value);
void fake_send(struct fake *a, const Tutti__V1__AgentMessage *m);
void fake_armed(struct fake *a);
void fake_refuse(struct fake *a, const char *reason, const char *detail);
void fake_progress(struct fake *a, const char *state, uint64_t bytes);
void fake_result(struct fake *a, bool has_file, const char *reason, const char *detail);
void fake_steps(struct fake *a, int64_t step, int64_t at_ns, int64_t period_ns);
void fake_ask(struct fake *a, const char *verb, const char *session, const char *hosts);
void fake_ask_with(struct fake *a, const char *verb, const char *session, const char *hosts,
		   const char *token);

/* What an upload does wrong. */
enum flaw {
	FLAW_NONE,
	FLAW_CRC,
	FLAW_OFFSET,
	FLAW_LONG, /* more than announced */
	FLAW_SHORT, /* less */
	FLAW_NO_BEGIN,
	FLAW_INSTANCE, /* of another agent */
	FLAW_FILES, /* with chunk_files: of other sizes than announced in all */
	FLAW_SILENT, /* begins and goes on no further: stays open */
	FLAW_SUM, /* with resumes: the checksum of all bytes is of others */
};

struct fake_upload {
	struct fake *fake;
	struct rpc_call *call;
	bool closed;
	enum rpc_code code;
	char text[256];
	uint64_t stored;
	bool report; /* send HostResult when it is done */
	size_t chunks, chunk_bytes;
	enum flaw flaw;
	uint64_t resumed_at; /* where the aggregator wanted it to go on */
};

/* `chunks` pieces of `chunk_bytes`; the call goes on by itself. */
void fake_upload_start(struct fake_upload *u, struct fake *a, size_t chunks, size_t chunk_bytes,
		       enum flaw flaw);

/* Starts one and waits for its end; the code. */
enum rpc_code fake_upload(struct fake *a, size_t chunks, size_t chunk_bytes, enum flaw flaw);

/* A host of a capture as its document shows it; hosts are in order of name. */
struct fleet_result {
	char state[16], reason[32], detail[256];
	size_t n_files; /* that are stored */
	int64_t bytes_done;
	int64_t t0_ns; /* of its own window; 0 = the session's */
	int64_t clock_bound_ns;
};
struct fleet_result fleet_result(struct capture *c, size_t host);
bool fleet_host_is(struct capture *c, size_t host, const char *state);

/* capture_begin() of all hosts for 10 ms, and waiting until the capture is over. */
struct capture *fleet_begin(struct fleet *f);
void fleet_wait_over(struct fleet *f, const char *session);

#endif
