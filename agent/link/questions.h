/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the aggregator (Ask of control.proto) without an answer yet, by their ids on the wire. Each
 * gets one answer: from the aggregator, or "no" after 10 s or when the link goes down. Loop thread.
 */
#ifndef AGENT_LINK_QUESTIONS_H
#define AGENT_LINK_QUESTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct questions;

/* session and detail are borrowed and never NULL. */
typedef void (*answer_fn)(void *arg, bool ok, const char *session, const char *detail);

struct questions *questions_new(struct loop *l);
void questions_free(struct questions *qs); /* answers the open ones with "no"; NULL is fine */

/* Returns the id for the wire. */
uint64_t questions_add(struct questions *qs, answer_fn fn, void *arg);

/* An id that is not open is ignored. */
void questions_answer(struct questions *qs, uint64_t id, bool ok, const char *session,
		      const char *detail);

/* Answers all open ones with "no" and the detail. */
void questions_fail_all(struct questions *qs, const char *detail);

#endif
