/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that does one thing at a time for its owner, who goes on meanwhile. What was started may use what it was given
 * until helper_wait() or the next helper_start() returns; all that it did is seen then. One owner at a time.
 */
#ifndef BASE_HELPER_H
#define BASE_HELPER_H

struct helper;

typedef void (*helper_fn)(void *arg);

struct helper *helper_new(void);

/* Waits for what was started before. Where there is no thread (`h` is NULL, or none could be started) fn is called here. */
void helper_start(struct helper *h, helper_fn fn, void *arg);
void helper_wait(struct helper *h); /* NULL is fine */
void helper_free(struct helper *h); /* as helper_wait() first; NULL is fine */

#endif
