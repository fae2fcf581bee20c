/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Browsers that have signed in: each has a cookie, and the token that it signed in with stays here, so that it is checked
 * at each request as any other one. A change needs the session's second secret, which only a page of this site can read.
 * Nothing is stored: after a restart browsers sign in again. Loop thread.
 */
#ifndef AGGREGATOR_ACCESS_BROWSERS_H
#define AGGREGATOR_ACCESS_BROWSERS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/digest.h"

#define BROWSERS_MOST	     1024 /* another one replaces the one that signed in first */
#define BROWSERS_OF_ONE	     32 /* of one caller: another one replaces the first of his own */
#define BROWSERS_LIFE_S	     (12 * 3600)
#define BROWSER_SECRET_BYTES 65

struct browsers;

/* What the page of one browser gets. */
struct browser_secrets {
	char cookie[BROWSER_SECRET_BYTES];
	char csrf[BROWSER_SECRET_BYTES];
};

struct browsers *browsers_new(void);
void browsers_free(struct browsers *b); /* NULL is fine */

/* Signs in with this token, which was checked and is `who`'s. */
void browsers_open(struct browsers *b, const char *token, const char *who,
		   struct browser_secrets *out);

/* The token of the browser with this cookie, and its second secret; borrowed until the next call. NULL: it is not signed
 * in, or not any more. */
const char *browsers_find(struct browsers *b, const char *cookie, const char **csrf);

/* A number for the browser with this cookie, which no other one will have; 0 = none. And whether that one is still signed in. */
uint64_t browsers_number(struct browsers *b, const char *cookie);
bool browsers_have(const struct browsers *b, uint64_t number);

void browsers_close(struct browsers *b, const char *cookie); /* signs out; an unknown one is fine */

/* The value of the cookie `name` in a Cookie header (may be NULL). False: it is not there, or is none of ours. */
bool browsers_read_cookie(const char *header, const char *name, char out[BROWSER_SECRET_BYTES]);

#endif
