/* SPDX-License-Identifier: Apache-2.0 */
#include "net/shared_key.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define SHA256_BYTES 32

static int bad_key(struct err *e)
{
	return err_set(e, ERR_INVALID, "the account's key is not base64");
}

int shared_key_mac(const char *key, const char *text, char out[SHARED_KEY_MAC_BYTES], struct err *e)
{
	const gnutls_datum_t key_text = { (unsigned char *)key, (unsigned int)strlen(key) };
	uint8_t mac[SHA256_BYTES];
	const gnutls_datum_t mac_bytes = { mac, sizeof(mac) };
	gnutls_datum_t raw = { 0 }, mac_text = { 0 };
	int rc = 0;

	if (!*key || gnutls_base64_decode2(&key_text, &raw))
		return bad_key(e);
	if (gnutls_hmac_fast(GNUTLS_MAC_SHA256, raw.data, raw.size, text, strlen(text), mac) ||
	    gnutls_base64_encode2(&mac_bytes, &mac_text) ||
	    mac_text.size != SHARED_KEY_MAC_BYTES - 1)
		rc = err_set(e, ERR_IO, "signing with the account's key failed");
	else
		snprintf(out, SHARED_KEY_MAC_BYTES, "%.*s", (int)mac_text.size, mac_text.data);
	explicit_bzero(raw.data, raw.size);
	gnutls_free(raw.data);
	gnutls_free(mac_text.data);
	return rc;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct sigv4_pair *)a)->name, ((const struct sigv4_pair *)b)->name);
}

static const char *header_of(const struct shared_key_request *req, const char *name)
{
	for (size_t i = 0; i < req->n_headers; i++)
		if (!strcmp(req->headers[i].name, name))
			return req->headers[i].value;
	return "";
}

/* The text that is signed: the method, eleven headers by position, all x-ms- headers, the account, path and query. */
static void add_text(struct buf *out, const struct shared_key_request *req)
{
	static const char *const after_length[] = {
		"content-md5",	 "content-type",	"date",	 "if-modified-since", "if-match",
		"if-none-match", "if-unmodified-since", "range",
	};
	struct sigv4_pair pairs[SIGV4_PAIRS_MAX];

	buf_addf(out, "%s\n%s\n%s\n", req->method, header_of(req, "content-encoding"),
		 header_of(req, "content-language"));
	if (req->len)
		buf_addf(out, "%llu", (unsigned long long)req->len);
	buf_add_u8(out, '\n');
	for (size_t i = 0; i < ARRAY_SIZE(after_length); i++)
		buf_addf(out, "%s\n", header_of(req, after_length[i]));
	if (req->n_headers)
		memcpy(pairs, req->headers, req->n_headers * sizeof(*pairs));
	sort_array(pairs, req->n_headers, sizeof(*pairs), compare_names);
	for (size_t i = 0; i < req->n_headers; i++)
		if (!strncmp(pairs[i].name, "x-ms-", 5))
			buf_addf(out, "%s:%s\n", pairs[i].name, pairs[i].value);
	buf_addf(out, "/%s%s", req->account, req->path);
	if (req->n_query)
		memcpy(pairs, req->query, req->n_query * sizeof(*pairs));
	sort_array(pairs, req->n_query, sizeof(*pairs), compare_names);
	for (size_t i = 0; i < req->n_query; i++)
		buf_addf(out, "\n%s:%s", pairs[i].name, pairs[i].value);
}

int shared_key_sign(const char *key, const struct shared_key_request *req,
		    char out[SHARED_KEY_MAC_BYTES], struct err *e)
{
	struct buf text = BUF_INIT;
	int rc;

	if (req->n_query > SIGV4_PAIRS_MAX || req->n_headers > SIGV4_PAIRS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d headers or parts of a query to sign",
			       SIGV4_PAIRS_MAX);
	add_text(&text, req);
	rc = shared_key_mac(key, buf_str(&text), out, e);
	buf_release(&text);
	return rc;
}
