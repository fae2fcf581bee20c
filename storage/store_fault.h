/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a store in front of another store, whose calls fail, wait, hang, lose their answer or kill the
 * process. The rules come from a file that is read again when it changes (real processes), or from
 * store_fault_set() (unit tests, the simulation).
 *
 * URL: "fault://FILE!URL", as in "fault:///tmp/rules!file:///var/lib/tutti"; without the file there are no
 * rules. A rule is a line; '#' begins a comment; the first rule that matches a call decides:
 *
 *     CALLS KEY ACTION [skip=N] [times=N]
 *
 *     CALLS   put, get, stat, list, remove, open: several with commas; * for all; "write" is put,remove
 *     KEY     fnmatch() pattern of the key (of a list: its prefix)
 *     ACTION  fail        ERR_IO, nothing was done
 *             full        ERR_FULL, nothing was done
 *             missing     ERR_NOT_FOUND, nothing was done: as of a gateway that does not know its store; a list
 *                         is empty: as of a store whose listings come late
 *             lose        the call is done, and its answer lost: ERR_TIMEOUT
 *             delay=SECS  done that much later; ERR_TIMEOUT if the deadline is sooner
 *             hang        until the deadline, or until the rule is gone: then done
 *             crash       the process is killed before the call
 *             crash-after the process is killed when the call is done and not yet answered
 *     skip=N  matches from the (N+1)th such call on; times=N  N times at most
 */
#ifndef STORAGE_STORE_FAULT_H
#define STORAGE_STORE_FAULT_H

#include "storage/store.h"

/* For the simulation: replaces sleeping and SIGKILL. All members are optional. */
struct store_fault_env {
	void (*wait)(void *arg, int64_t until_mono_ns); /* returns then, or earlier */
	void (*crash)(void *arg); /* may return: the call then fails with ERR_CLOSED */
	void *arg;
};

/* Wraps `inner`, which from then on is the new store's to free. `env` may be NULL; it is copied. */
struct store *store_fault_wrap(struct store *inner, const struct store_fault_env *env);

/* Takes these rules (lines as above) instead of the present ones; counts begin anew. ERR_INVALID names the
 * line. Any thread. */
MUST_CHECK int store_fault_set(struct store *fault, const char *rules, struct err *e);

/* Calls begun so far, and of those the writes. Any thread. */
uint64_t store_fault_calls(struct store *fault);
uint64_t store_fault_writes(struct store *fault);

#endif
