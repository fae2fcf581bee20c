/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/browsers.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "base/secret.h"

/* The digest of the cookie is kept, so that the time of a comparison says nothing of a cookie. */
struct browser {
	char digest[DIGEST_HEX_BYTES]; /* "" = a free place */
	char csrf[BROWSER_SECRET_BYTES];
	char *token, *who;
	uint64_t number;
	int64_t until_mono_ns;
};

struct browsers {
	struct browser places[BROWSERS_MOST];
	uint64_t n_opened;
};

struct browsers *browsers_new(void)
{
	return xcalloc(1, sizeof(struct browsers));
}

static void clear(struct browser *b)
{
	secret_free(b->token);
	free(b->who);
	explicit_bzero(b, sizeof(*b));
}

void browsers_free(struct browsers *b)
{
	for (size_t i = 0; b && i < BROWSERS_MOST; i++)
		clear(&b->places[i]);
	free(b);
}

static void make_secret(char out[BROWSER_SECRET_BYTES])
{
	uint8_t random[(BROWSER_SECRET_BYTES - 1) / 2];

	random_bytes(random, sizeof(random));
	hex_text(out, random, sizeof(random));
	explicit_bzero(random, sizeof(random));
}

static bool is_older(const struct browser *a, const struct browser *b)
{
	return !b || a->until_mono_ns < b->until_mono_ns;
}

/* A free place is the oldest: its time is 0. A caller who has his share takes one of his own. */
static struct browser *find_place_for(struct browsers *b, const char *who)
{
	struct browser *oldest = NULL, *own = NULL;
	size_t n_own = 0;

	for (size_t i = 0; i < BROWSERS_MOST; i++) {
		struct browser *place = &b->places[i];

		if (is_older(place, oldest))
			oldest = place;
		if (!place->who || strcmp(place->who, who) != 0)
			continue;
		n_own++;
		if (is_older(place, own))
			own = place;
	}
	return n_own >= BROWSERS_OF_ONE ? own : oldest;
}

void browsers_open(struct browsers *b, const char *token, const char *who,
		   struct browser_secrets *out)
{
	struct browser *place = find_place_for(b, who);

	clear(place);
	make_secret(out->cookie);
	make_secret(out->csrf);
	digest_sha256(out->cookie, strlen(out->cookie), place->digest);
	memcpy(place->csrf, out->csrf, sizeof(place->csrf));
	place->token = xstrdup(token);
	place->who = xstrdup(who);
	place->number = ++b->n_opened;
	place->until_mono_ns = now_mono_ns() + BROWSERS_LIFE_S * NS_PER_S;
}

static struct browser *find_place(struct browsers *b, const char *cookie)
{
	char digest[DIGEST_HEX_BYTES];

	digest_sha256(cookie, strlen(cookie), digest);
	for (size_t i = 0; i < BROWSERS_MOST; i++)
		if (!strcmp(b->places[i].digest, digest))
			return &b->places[i];
	return NULL;
}

const char *browsers_find(struct browsers *b, const char *cookie, const char **csrf)
{
	struct browser *place = find_place(b, cookie);

	if (!place)
		return NULL;
	if (now_mono_ns() > place->until_mono_ns) {
		clear(place);
		return NULL;
	}
	*csrf = place->csrf;
	return place->token;
}

uint64_t browsers_number(struct browsers *b, const char *cookie)
{
	const struct browser *place = find_place(b, cookie);

	return place ? place->number : 0;
}

bool browsers_have(const struct browsers *b, uint64_t number)
{
	for (size_t i = 0; i < BROWSERS_MOST; i++)
		if (b->places[i].number == number)
			return now_mono_ns() <= b->places[i].until_mono_ns;
	return false;
}

void browsers_close(struct browsers *b, const char *cookie)
{
	struct browser *place = find_place(b, cookie);

	if (place)
		clear(place);
}

bool browsers_read_cookie(const char *header, const char *name, char out[BROWSER_SECRET_BYTES])
{
	size_t len = strlen(name);

	while (header && *header) {
		header += strspn(header, " ;");
		if (!strncmp(header, name, len) && header[len] == '=') {
			const char *value = header + len + 1;

			if (strcspn(value, ";") != BROWSER_SECRET_BYTES - 1)
				return false;
			memcpy(out, value, BROWSER_SECRET_BYTES - 1);
			out[BROWSER_SECRET_BYTES - 1] = '\0';
			return true;
		}
		header += strcspn(header, ";");
	}
	return false;
}
