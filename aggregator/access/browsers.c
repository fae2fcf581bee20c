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
	char *token;
	int64_t until_mono_ns;
};

struct browsers {
	struct browser places[BROWSERS_MOST];
};

struct browsers *browsers_new(void)
{
	return xcalloc(1, sizeof(struct browsers));
}

static void clear(struct browser *b)
{
	secret_free(b->token);
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

/* A free place is the oldest: its time is 0. */
static struct browser *find_oldest(struct browsers *b)
{
	struct browser *oldest = &b->places[0];

	for (size_t i = 1; i < BROWSERS_MOST; i++)
		if (b->places[i].until_mono_ns < oldest->until_mono_ns)
			oldest = &b->places[i];
	return oldest;
}

void browsers_open(struct browsers *b, const char *token, struct browser_secrets *out)
{
	struct browser *place = find_oldest(b);

	clear(place);
	make_secret(out->cookie);
	make_secret(out->csrf);
	digest_sha256(out->cookie, strlen(out->cookie), place->digest);
	memcpy(place->csrf, out->csrf, sizeof(place->csrf));
	place->token = xstrdup(token);
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
