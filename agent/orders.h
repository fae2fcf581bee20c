/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures that the aggregator ordered: from Arm to the last word about each. Loop thread.
 *
 *   Arm -> Armed | Refused -> Progress running, gathering, uploading -> (Upload) -> HostResult -> (Release)
 *
 * An order ends with Release, Cancel, a HostResult without a file, the link's end, or some time after
 * its deadline if the aggregator forgot it.
 */
#ifndef AGENT_ORDERS_H
#define AGENT_ORDERS_H

#include <jansson.h>
#include <stdint.h>

#include "proto/tutti/v1/control.pb-c.h"

struct agent;
struct orders;

typedef void (*orders_send_fn)(void *arg, const Tutti__V1__AgentMessage *m);

/* `instance` is that of our Hello. `send` may be called from inside all functions below. */
struct orders *orders_new(struct agent *agent, uint64_t instance, orders_send_fn send, void *arg);
void orders_free(struct orders *o); /* NULL is fine; cancels what is under way */

/* The messages have passed control_unpack_from_aggregator(). A session that is not known is ignored:
 * it may have ended while the message was under way. */
void orders_take_arm(struct orders *o, Tutti__V1__Arm *m); /* frees it when done with it */
void orders_stop(struct orders *o, const Tutti__V1__Stop *m);
void orders_cancel(struct orders *o, const char *session);
void orders_upload(struct orders *o, const char *session);
void orders_release(struct orders *o, const char *session);

/* The link is gone: the aggregator counts this host as lost, nobody will fetch anything. */
void orders_drop_all(struct orders *o);

/* [{"session", "state", "bytes", "bytes_done"}]; a new reference. */
json_t *orders_json(const struct orders *o);

#endif
