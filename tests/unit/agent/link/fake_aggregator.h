/* SPDX-License-Identifier: Apache-2.0 */
/* The aggregator's side of control, ingest and time, in the test's own loop: keeps what came. */
#ifndef TESTS_UNIT_AGENT_LINK_FAKE_AGGREGATOR_H
#define TESTS_UNIT_AGENT_LINK_FAKE_AGGREGATOR_H

#include <stdbool.h>

#include "base/buf.h"
#include "net/rpc.h"
#include "proto/tutti/v1/control.pb-c.h"

struct fake_aggregator {
	struct rpc_server *server;
	struct udp *probes;
	int port, probe_port;
	struct rpc_call *control; /* of the agent that is connected, or NULL */
	struct rpc_call *former; /* the one before, until Hello of `control` comes, which ends it */
	int64_t shift_ns; /* session clock = raw + this */
	bool no_welcome, no_time;
	uint64_t term; /* in Welcome */
	enum rpc_code refuse_uploads; /* not RPC_OK: uploads end with it */
	enum rpc_code refuse_links; /* not RPC_OK: further links end with it */
	bool ignore_links; /* further links are left without an answer */
	size_t cut_after; /* not 0: one upload ends with UNAVAILABLE once so many bytes came */

	/* What came, counted by kind; the last of each. */
	int links, hellos, statuses, armed, refused, progress, results, asks, disconnects, leavings,
		lost;
	bool calibrated; /* in the last Status */
	char host[64], label[64], tracer[64], state[32], reason[64], detail[256];
	char states[256]; /* of Progress, as "running gathering uploading" */
	int64_t bound_ns, lead_ns;
	bool has_file, result_calibrated;
	uint64_t instance, events, bytes, ask_id;
	int64_t ask_ending_at_ns, ask_duration_ns;
	char ask_run[64];
	size_t n_reports;
	size_t n_held; /* in the last Hello; the members below are of the first */
	char held_session[64], held_state[32];
	uint64_t held_instance, held_bytes;
	int64_t lease_ns;
	struct buf file; /* of the last upload; a resumed one appends */
	uint64_t resumed_at; /* where the last upload began */
	bool makes_grants; /* so the credits say; it makes none */
	const char *grant_url; /* not NULL: credits have a grant, to put the file there */
	bool takes_grant, is_put; /* in the last Progress; in the last HostResult */
	uint32_t crc32c; /* in the last Progress */
	int questions; /* uploads that asked where to go on */
	uint64_t announced_files[8],
		result_files[8]; /* of the last upload; of the last HostResult */
	uint32_t result_crc32c[8];
	size_t n_announced_files, n_result_files;
	uint64_t announced;
	uint32_t announced_crc32;
	int uploads;
};

void fake_aggregator_up(struct fake_aggregator *a, struct loop *l, struct rpc *r);
/* The same, with another method. */
void fake_aggregator_up_with(struct fake_aggregator *a, struct loop *l, struct rpc *r,
			     const struct rpc_method *method);
void fake_aggregator_down(struct fake_aggregator *a);
int64_t fake_session_now(const struct fake_aggregator *a);

void fake_send(struct fake_aggregator *a, const Tutti__V1__AggregatorMessage *m);
void fake_arm(struct fake_aggregator *a, const char *session, int64_t lead_ns, int64_t duration_ns,
	      const char *tracer); /* NULL = all */
void fake_answer(struct fake_aggregator *a, uint64_t ask_id, bool ok, const char *session);
void fake_upload(struct fake_aggregator *a, const char *session);
void fake_release(struct fake_aggregator *a, const char *session);
void fake_cancel_capture(struct fake_aggregator *a, const char *session);
void fake_stop_capture(struct fake_aggregator *a, const char *session, int64_t t1_ns);

#endif
