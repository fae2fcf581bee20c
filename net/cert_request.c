/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, requests, and the names in both requests and certificates. */
#include "net/cert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "net/cert_impl.h"
#include "proto/names.h"

#define CURVE	   "P-256"
#define CURVE_LONG "prime256v1" /* OpenSSL's own name of the same */

int cert_fail(struct err *e, int code, const char *what)
{
	const char *why = ERR_reason_error_string(ERR_peek_error());

	ERR_clear_error();
	return err_set(e, code, "%s%s%s", what, why ? ": " : "", why ? why : "");
}

/* ---- PEM ---- */

EVP_PKEY *cert_read_key(const char *pem)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	/* the empty password: without one it would ask at the terminal for that of an encrypted key */
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (char *)"") : NULL;

	BIO_free(bio);
	return key;
}

static int take_text(struct buf *out, BIO *bio, bool written, struct err *e)
{
	char *text;
	long len = bio ? BIO_get_mem_data(bio, &text) : 0;
	int rc = 0;

	if (written && len > 0)
		buf_add(out, text, (size_t)len);
	else
		rc = cert_fail(e, ERR_IO, "cannot write PEM");
	BIO_free(bio);
	return rc;
}

int cert_add_key(struct buf *pem, EVP_PKEY *key, struct err *e)
{
	BIO *bio = BIO_new(BIO_s_secmem());

	return take_text(pem, bio,
			 bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), e);
}

int cert_add_pem(struct buf *pem, X509 *x, struct err *e)
{
	BIO *bio = BIO_new(BIO_s_mem());

	return take_text(pem, bio, bio && PEM_write_bio_X509(bio, x), e);
}

int cert_make_key(struct buf *pem, struct err *e)
{
	EVP_PKEY *key = EVP_EC_gen(CURVE);
	int rc = key ? cert_add_key(pem, key, e) : cert_fail(e, ERR_IO, "cannot make a key");

	EVP_PKEY_free(key);
	return rc;
}

/* ---- names ---- */

bool cert_only_uri(const GENERAL_NAMES *names, char *out, size_t size)
{
	const GENERAL_NAME *name;
	const ASN1_IA5STRING *text;
	int len;

	if (sk_GENERAL_NAME_num(names) != 1)
		return false;
	name = sk_GENERAL_NAME_value(names, 0);
	if (name->type != GEN_URI)
		return false;
	text = name->d.uniformResourceIdentifier;
	len = ASN1_STRING_length(text);
	if (len < 0 || (size_t)len >= size || memchr(ASN1_STRING_get0_data(text), 0, (size_t)len))
		return false;
	memcpy(out, ASN1_STRING_get0_data(text), (size_t)len);
	out[len] = '\0';
	return true;
}

static bool read_epoch(const char *text, uint64_t *out)
{
	size_t len = strspn(text, "0123456789");

	if (!len || len > CERT_EPOCH_DIGITS || text[len] || (len > 1 && *text == '0'))
		return false;
	*out = strtoull(text, NULL, 10);
	return true;
}

bool cert_read_uri(const char *uri, struct cert_host *out, bool has_epoch)
{
	const char *name = uri + strlen(CERT_URI_BEGIN);
	size_t len;

	if (strncmp(uri, CERT_URI_BEGIN, strlen(CERT_URI_BEGIN)))
		return false;
	len = strcspn(name, "/");
	if (len >= sizeof(out->name))
		return false;
	memcpy(out->name, name, len);
	out->name[len] = '\0';
	if (name_check_host(out->name, NULL))
		return false;
	if (!has_epoch)
		return !name[len];
	return !strncmp(name + len, CERT_URI_EPOCH, strlen(CERT_URI_EPOCH)) &&
	       read_epoch(name + len + strlen(CERT_URI_EPOCH), &out->epoch);
}

/* ---- requests ---- */

static int put_name(X509_REQ *req, const char *host, struct err *e)
{
	STACK_OF(X509_EXTENSION) *all = sk_X509_EXTENSION_new_null();
	X509_EXTENSION *ext;
	char value[LIMIT_HOST_NAME + 32];
	int rc = 0;

	snprintf(value, sizeof(value), "URI:" CERT_URI_BEGIN "%s", host);
	ext = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, value);
	if (!all || !ext || !sk_X509_EXTENSION_push(all, ext)) {
		X509_EXTENSION_free(ext);
		rc = cert_fail(e, ERR_IO, "cannot name the host in a request");
	} else if (!X509_REQ_add_extensions(req, all)) {
		rc = cert_fail(e, ERR_IO, "cannot name the host in a request");
	}
	sk_X509_EXTENSION_pop_free(all, X509_EXTENSION_free);
	return rc;
}

static int add_der(struct buf *der, X509_REQ *req, struct err *e)
{
	uint8_t *bytes = NULL;
	int len = i2d_X509_REQ(req, &bytes);

	if (len <= 0)
		return cert_fail(e, ERR_IO, "cannot write a request");
	buf_add(der, bytes, (size_t)len);
	OPENSSL_free(bytes);
	return 0;
}

int cert_make_request(const char *key_pem, const char *host, struct buf *der, struct err *e)
{
	EVP_PKEY *key = cert_read_key(key_pem);
	X509_REQ *req = X509_REQ_new();
	int rc = name_check_host(host, e);

	if (!rc && (!key || !req))
		rc = cert_fail(e, ERR_INVALID, "no key for a request");
	if (!rc)
		rc = put_name(req, host, e);
	if (!rc && (!X509_REQ_set_version(req, X509_REQ_VERSION_1) ||
		    !X509_REQ_set_pubkey(req, key) || !X509_REQ_sign(req, key, EVP_sha256())))
		rc = cert_fail(e, ERR_IO, "cannot sign a request");
	if (!rc)
		rc = add_der(der, req, e);
	X509_REQ_free(req);
	EVP_PKEY_free(key);
	return rc;
}

/* ---- foreign requests ---- */

static int check_key(EVP_PKEY *key, struct err *e)
{
	char curve[32] = "";

	if (!key || !EVP_PKEY_is_a(key, "EC") ||
	    !EVP_PKEY_get_group_name(key, curve, sizeof(curve), NULL) ||
	    (strcmp(curve, CURVE_LONG) && strcmp(curve, CURVE)))
		return cert_fail(e, ERR_INVALID, "the request's key is not one on " CURVE);
	return 0;
}

static int check_name(X509_REQ *req, const char *host, struct err *e)
{
	STACK_OF(X509_EXTENSION) *all = X509_REQ_get_extensions(req);
	GENERAL_NAMES *names = X509V3_get_d2i(all, NID_subject_alt_name, NULL, NULL);
	char uri[LIMIT_HOST_NAME + 32];
	struct cert_host named = { 0 };
	int rc = 0;

	if (!names || !cert_only_uri(names, uri, sizeof(uri)) || !cert_read_uri(uri, &named, false))
		rc = err_set(e, ERR_INVALID, "the request names no host");
	else if (strcmp(named.name, host) != 0)
		rc = err_set(e, ERR_DENIED, "the request is for the host '%s', not for '%s'",
			     named.name, host);
	GENERAL_NAMES_free(names);
	sk_X509_EXTENSION_pop_free(all, X509_EXTENSION_free);
	ERR_clear_error();
	return rc;
}

int cert_read_request(X509_REQ **out, const void *der, size_t len, const char *host, struct err *e)
{
	const uint8_t *at = der;
	X509_REQ *req;
	EVP_PKEY *key;
	int rc;

	if (!len || len > CERT_REQUEST_BYTES)
		return err_set(e, ERR_INVALID, "a request of %zu bytes: at most %d", len,
			       CERT_REQUEST_BYTES);
	req = d2i_X509_REQ(NULL, &at, (long)len);
	if (!req || at != (const uint8_t *)der + len) {
		X509_REQ_free(req);
		return cert_fail(e, ERR_INVALID, "this is no certificate request");
	}
	key = X509_REQ_get0_pubkey(req);
	rc = check_key(key, e);
	if (!rc && X509_REQ_verify(req, key) != 1)
		rc = cert_fail(e, ERR_INVALID, "the request's signature is wrong");
	if (!rc)
		rc = check_name(req, host, e);
	if (rc)
		X509_REQ_free(req);
	else
		*out = req;
	return rc;
}

int cert_check_request(const void *der, size_t len, const char *host, struct err *e)
{
	X509_REQ *req = NULL;
	int rc = cert_read_request(&req, der, len, host, e);

	X509_REQ_free(req);
	return rc;
}
