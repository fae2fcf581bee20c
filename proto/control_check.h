/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks a peer's bytes and checks the message: the length and UTF-8 of every string, every name
 * (proto/names.h), the range of every number, and every word of an enumeration. Whether the request can be
 * carried out is for the handler to check. Pure functions, any thread.
 *
 * A message of a kind that this version does not know passes with kind_case 0: ignore it.
 */
#ifndef PROTO_CONTROL_CHECK_H
#define PROTO_CONTROL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "proto/tutti/v1/control.pb-c.h"
#include "proto/tutti/v1/local.pb-c.h"

/* The caller frees the message with protobuf-c's ..._free_unpacked(m, NULL). ERR_LIMIT for one that is
 * too long, ERR_INVALID otherwise; the sentence names the field. */
MUST_CHECK int control_unpack_from_agent(Tutti__V1__AgentMessage **out, const void *data,
					 size_t len, struct err *e);
MUST_CHECK int control_unpack_from_aggregator(Tutti__V1__AggregatorMessage **out, const void *data,
					      size_t len, struct err *e);
MUST_CHECK int control_unpack_local(Tutti__V1__LocalRequest **out, const void *data, size_t len,
				    struct err *e);

/* Checks the steps of a HostResult. control_unpack_from_agent() does not: with steps out of range the caller
 * drops only the steps and keeps the rest of the result. */
MUST_CHECK int control_check_steps_seen(const Tutti__V1__StepsSeen *m, struct err *e);

/* No control characters but tab and newline, valid UTF-8, at most max bytes. */
bool text_is_clean(const char *s, size_t max);

#endif
