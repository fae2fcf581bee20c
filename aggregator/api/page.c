/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/page.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/random.h"
#include "net/http_server.h"

#define NONCE_BYTES 16

extern const uint8_t page_index[];
extern const size_t page_index_len;

static void make_nonce(char text[2 * NONCE_BYTES + 1])
{
	uint8_t bytes[NONCE_BYTES];

	random_bytes(bytes, sizeof(bytes));
	hex_text(text, bytes, sizeof(bytes));
}

/* Copies the page up to the end of `tag`, which gets the nonce; returns what follows. */
static const uint8_t *add_tag(struct buf *b, const uint8_t *at, const char *tag, const char *nonce)
{
	const uint8_t *end = page_index + page_index_len;
	const uint8_t *found = memmem(at, (size_t)(end - at), tag, strlen(tag));

	if (!found)
		return at;
	found += strlen(tag) - 1;
	buf_add(b, at, (size_t)(found - at));
	buf_addf(b, " nonce=\"%s\"", nonce);
	return found;
}

/* The page's worker has its script from the page itself, as a blob. */
void page_answer(struct http_req *req)
{
	char nonce[2 * NONCE_BYTES + 1], policy[320];
	struct buf body = BUF_INIT;
	const uint8_t *at = page_index;

	make_nonce(nonce);
	at = add_tag(&body, at, "<style>", nonce);
	at = add_tag(&body, at, "<script>", nonce);
	buf_add(&body, at, (size_t)(page_index + page_index_len - at));
	snprintf(policy, sizeof(policy),
		 "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; "
		 "worker-src blob:; connect-src 'self'; img-src 'self'; base-uri 'none'; "
		 "form-action 'none'; frame-ancestors 'none'",
		 nonce, nonce);
	http_answer_page(req, body.data, body.len, policy);
	buf_release(&body);
}
