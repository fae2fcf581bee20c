/* SPDX-License-Identifier: Apache-2.0 */
#include "net/jwt_sign.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <string.h>

/* The alphabet of URLs, without padding. */
static int add_base64url(struct buf *out, const void *data, size_t len, struct err *e)
{
	const gnutls_datum_t in = { (unsigned char *)data, (unsigned int)len };
	gnutls_datum_t text = { 0 };

	if (gnutls_base64_encode2(&in, &text))
		return err_set(e, ERR_IO, "no memory for a signed token");
	for (unsigned int i = 0; i < text.size && text.data[i] != '='; i++)
		buf_add_u8(out, text.data[i] == '+'   ? '-'
				: text.data[i] == '/' ? '_'
						      : text.data[i]);
	gnutls_free(text.data);
	return 0;
}

static int load_key(const char *pem, gnutls_privkey_t *out, struct err *e)
{
	const gnutls_datum_t text = { (unsigned char *)pem, (unsigned int)strlen(pem) };
	gnutls_privkey_t key;

	if (gnutls_privkey_init(&key))
		return err_set(e, ERR_IO, "no memory for a private key");
	if (gnutls_privkey_import_x509_raw(key, &text, GNUTLS_X509_FMT_PEM, NULL, 0) ||
	    gnutls_privkey_get_pk_algorithm(key, NULL) != GNUTLS_PK_RSA) {
		gnutls_privkey_deinit(key);
		return err_set(e, ERR_INVALID, "the private key is no RSA key in PEM");
	}
	*out = key;
	return 0;
}

static int add_signature(struct buf *out, size_t from, const char *pem, struct err *e)
{
	const gnutls_datum_t text = { out->data + from, (unsigned int)(out->len - from) };
	gnutls_datum_t signature = { 0 };
	gnutls_privkey_t key = NULL;
	int rc = load_key(pem, &key, e);

	if (rc)
		return rc;
	if (gnutls_privkey_sign_data(key, GNUTLS_DIG_SHA256, 0, &text, &signature))
		rc = err_set(e, ERR_INVALID, "the private key cannot sign");
	gnutls_privkey_deinit(key);
	if (!rc) {
		buf_add_u8(out, '.');
		rc = add_base64url(out, signature.data, signature.size, e);
	}
	gnutls_free(signature.data);
	return rc;
}

int jwt_sign_rs256(const char *header_json, const char *claims_json, const char *pem,
		   struct buf *out, struct err *e)
{
	size_t from = out->len;
	int rc = add_base64url(out, header_json, strlen(header_json), e);

	if (!rc) {
		buf_add_u8(out, '.');
		rc = add_base64url(out, claims_json, strlen(claims_json), e);
	}
	return rc ? rc : add_signature(out, from, pem, e);
}
