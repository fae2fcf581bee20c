/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python programs of `tutti inspect` have a hook (inject/python/sitecustomize.py) that can end a recording: they are
 * asked for HOOK_STEPS steps, more than they take, and the hook takes the rest of them when the time is over or the program
 * ends. The agent and the hook share two files in the folder of the socket (--pytorch-dir):
 *
 *	hook-PID	the process has the hook; not empty: it is ready. The hook removes it when the program ends
 *	piece-PID	the agent's: the process was asked to record, and is to end that after so many seconds. The
 *			program's end waits until the agent has removed it
 *
 * PID is the process's own number. The folder may be shared with programs that are not trusted: no link is followed.
 */
#ifndef AGENT_TRACER_PYTORCH_HOOK_H
#define AGENT_TRACER_PYTORCH_HOOK_H

#include <stdint.h>

#include "base/err.h"

#define HOOK_STEPS 200000 /* the hook takes as many */

enum hook_state {
	HOOK_NONE, /* the process has no hook, or its program has ended */
	HOOK_LOADING, /* it will be ready when torch is imported */
	HOOK_READY
};

/* `dir` may be NULL or "": HOOK_NONE. A file that is not the user's does not count. */
enum hook_state hook_get_state(const char *dir, int32_t inner_pid, uint32_t uid);

/* The process is asked to record, for so many seconds from now on; a second call replaces the first. */
MUST_CHECK int hook_set_piece(const char *dir, int32_t inner_pid, int64_t seconds, struct err *e);

/* The agent has what was recorded, or waits for it no longer. */
void hook_drop_piece(const char *dir, int32_t inner_pid);

#endif
