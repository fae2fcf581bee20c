/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The datagrams between PyTorch processes and their daemon, as dynolog defined them. All numbers are in the host's byte
 * order. A datagram is
 *
 *	{uint64 size of what follows the type}{char type[32]}{payload}
 *
 *   "ctxt"  {int32 gpu}{int32 pid}{int64 job}: older builds introduce themselves; the answer is an int32.
 *   "req"   {int32 what}{int32 n}{int64 job}{int32 pids[n]}: every 5 s; what & 2: the process can record. pids are the
 *	     process and its ancestors, as its own PID namespace has them. The answer is a configuration or nothing.
 *
 * The process waits 90 ms for the answer. Pure functions.
 */
#ifndef AGENT_TRACER_PYTORCH_DYNOLOG_H
#define AGENT_TRACER_PYTORCH_DYNOLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum dynolog_type { DYNOLOG_CONTEXT, DYNOLOG_REQUEST };

struct dynolog_message {
	enum dynolog_type type;
	int64_t job; /* Slurm's job number, or 0 */
	int32_t pid; /* the process's own number */
	bool can_record; /* of a request */
};

/* ERR_INVALID says what is wrong with the datagram. */
MUST_CHECK int dynolog_parse(const void *data, size_t len, struct dynolog_message *out,
			     struct err *e);

/* The answer to a message of that type; `config` is "" for none. */
void dynolog_reply(enum dynolog_type type, const char *config, struct buf *out);

#endif
