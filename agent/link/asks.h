/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the aggregator that are not answered yet, by their ids on the wire. Each is answered
 * exactly once: by the aggregator, by the timeout, or by the link's end. Loop thread.
 */
#ifndef AGENT_LINK_ASKS_H
#define AGENT_LINK_ASKS_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct asks;

/* session and detail are borrowed and never NULL. */
typedef void (*ask_fn)(void *arg, bool ok, const char *session, const char *detail);

struct asks *asks_new(struct loop *l);
void asks_free(struct asks *a); /* answers what is open */

/* Remembers a question; returns its id for the wire. */
uint64_t asks_add(struct asks *a, ask_fn fn, void *arg);

/* An id that is not open is ignored. */
void asks_answer(struct asks *a, uint64_t id, bool ok, const char *session, const char *detail);

/* Answers all open ones with "no" and why. */
void asks_fail_all(struct asks *a, const char *detail);

#endif
