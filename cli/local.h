/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of this host's agent through its local socket. */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include "base/err.h"
#include "proto/tutti/v1/local.pb-c.h"

/*
 * One request to the agent at `url`. `*reply` has `ok` set; the caller frees it with
 * tutti__v1__local_reply__free_unpacked(). A refusal is ERR_PEER with the agent's sentence.
 */
MUST_CHECK int local_call(const char *url, const Tutti__V1__LocalRequest *request,
			  Tutti__V1__LocalReply **reply, struct err *e);

#endif
