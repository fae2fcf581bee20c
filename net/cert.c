/* SPDX-License-Identifier: Apache-2.0 */
#include "net/cert.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/hex.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "net/cert_impl.h"

#define AUTHORITY_LIFE_S (INT64_C(10) * 365 * 86400)
#define SERIAL_BYTES	 16
#define NAME_BYTES	 64 /* the most of a common name */

struct cert_authority {
	EVP_PKEY *key;
	X509 *x;
	X509_STORE *store; /* it alone */
	int64_t end_s;
};

/* ---- certificates ---- */

static int64_t seconds_of(const ASN1_TIME *t)
{
	struct tm tm;

	return ASN1_TIME_to_tm(t, &tm) == 1 ? (int64_t)timegm(&tm) : INT64_MIN;
}

static bool set_serial(X509 *x)
{
	uint8_t random[SERIAL_BYTES];
	BIGNUM *n;
	bool ok;

	random_bytes(random, sizeof(random));
	random[0] = (uint8_t)((random[0] & 0x7f) | 0x40); /* positive, and always as long */
	n = BN_bin2bn(random, sizeof(random), NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

static bool set_times(X509 *x, int64_t begin_s, int64_t end_s)
{
	return ASN1_TIME_set(X509_getm_notBefore(x), (time_t)begin_s) &&
	       ASN1_TIME_set(X509_getm_notAfter(x), (time_t)end_s);
}

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;
	bool ok;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext && X509_add_ext(x, ext, -1);
	X509_EXTENSION_free(ext);
	return ok;
}

static bool set_name(X509 *x, const char *name)
{
	return X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
					  (const uint8_t *)name, -1, -1, 0);
}

/* The authority's part of a certificate for a peer. Signs it and appends its PEM. */
static int finish(const struct cert_authority *ca, X509 *x, const char *usage, const char *names,
		  struct buf *pem, struct err *e)
{
	if (!X509_set_version(x, X509_VERSION_3) || !set_serial(x) ||
	    !X509_set_issuer_name(x, X509_get_subject_name(ca->x)) ||
	    !add_extension(x, ca->x, NID_basic_constraints, "critical,CA:FALSE") ||
	    !add_extension(x, ca->x, NID_key_usage, "critical,digitalSignature") ||
	    !add_extension(x, ca->x, NID_ext_key_usage, usage) ||
	    !add_extension(x, ca->x, NID_subject_alt_name, names) ||
	    !add_extension(x, ca->x, NID_authority_key_identifier, "keyid") ||
	    !X509_sign(x, ca->key, EVP_sha256()))
		return cert_fail(e, ERR_IO, "cannot sign a certificate");
	return cert_add_pem(pem, x, e);
}

/* ---- the authority ---- */

static int sign_self(X509 *x, EVP_PKEY *key, int64_t now_s, struct err *e)
{
	uint8_t random[4];
	char digits[9], name[NAME_BYTES];

	/* two authorities have two names: what is of another one is said so, not that its signature is wrong */
	random_bytes(random, sizeof(random));
	hex_text(digits, random, sizeof(random));
	snprintf(name, sizeof(name), "tutti authority %s", digits);
	if (!X509_set_version(x, X509_VERSION_3) || !set_serial(x) || !set_name(x, name) ||
	    !X509_set_issuer_name(x, X509_get_subject_name(x)) || !X509_set_pubkey(x, key) ||
	    !set_times(x, now_s - CERT_EARLY_S, now_s + AUTHORITY_LIFE_S) ||
	    !add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
	    !add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") ||
	    !add_extension(x, x, NID_subject_key_identifier, "hash") ||
	    !X509_sign(x, key, EVP_sha256()))
		return cert_fail(e, ERR_IO, "cannot sign an authority's certificate");
	return 0;
}

int cert_make_authority(int64_t now_s, struct buf *key_pem, struct buf *cert_pem, struct err *e)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	int rc = key && x ? sign_self(x, key, now_s, e) : cert_fail(e, ERR_IO, "cannot make a key");

	if (!rc)
		rc = cert_add_key(key_pem, key, e);
	if (!rc)
		rc = cert_add_pem(cert_pem, x, e);
	X509_free(x);
	EVP_PKEY_free(key);
	return rc;
}

static X509 *read_pem(const char *pem, size_t len)
{
	BIO *bio = len <= INT32_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
	/* the empty password, as in cert_read_key() */
	X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, (char *)"") : NULL;

	BIO_free(bio);
	return x;
}

static int open_authority(struct cert_authority *ca, const char *key_pem, const char *cert_pem,
			  struct err *e)
{
	ca->key = cert_read_key(key_pem);
	if (!ca->key)
		return cert_fail(e, ERR_INVALID, "the authority's key is no key");
	ca->x = read_pem(cert_pem, strlen(cert_pem));
	if (!ca->x || X509_check_ca(ca->x) != 1)
		return cert_fail(e, ERR_INVALID,
				 "the authority's certificate is not that of an authority");
	if (X509_check_private_key(ca->x, ca->key) != 1)
		return cert_fail(e, ERR_INVALID,
				 "the authority's key is not that of its certificate");
	ca->end_s = seconds_of(X509_get0_notAfter(ca->x));
	ca->store = X509_STORE_new();
	if (!ca->store || !X509_STORE_add_cert(ca->store, ca->x))
		return cert_fail(e, ERR_IO, "cannot use the authority's certificate");
	return 0;
}

int cert_authority_new(struct cert_authority **out, const char *key_pem, const char *cert_pem,
		       struct err *e)
{
	struct cert_authority *ca = xcalloc(1, sizeof(*ca));
	int rc = open_authority(ca, key_pem, cert_pem, e);

	if (rc)
		cert_authority_free(ca);
	else
		*out = ca;
	return rc;
}

void cert_authority_free(struct cert_authority *ca)
{
	if (!ca)
		return;
	X509_STORE_free(ca->store);
	X509_free(ca->x);
	EVP_PKEY_free(ca->key);
	free(ca);
}

/* ---- signing ---- */

/* A certificate ends with its authority at the latest. It may begin a little before it, since what was given before an instant is
 * told by its begin: a later one would make it look newer than it is. */
static int64_t until(int64_t s, const struct cert_authority *ca)
{
	return s > ca->end_s ? ca->end_s : s;
}

int cert_sign_host(const struct cert_authority *ca, const void *request, size_t len,
		   const struct cert_host *host, struct buf *pem, struct err *e)
{
	X509_REQ *req = NULL;
	X509 *x = X509_new();
	char uri[LIMIT_HOST_NAME + 64];
	int rc = cert_read_request(&req, request, len, host->name, e);

	if (!rc && host->epoch > CERT_EPOCH_MAX)
		rc = err_set(e, ERR_LIMIT, "epoch %" PRIu64 ": at most %" PRIu64, host->epoch,
			     CERT_EPOCH_MAX);
	snprintf(uri, sizeof(uri), "URI:" CERT_URI_BEGIN "%s" CERT_URI_EPOCH "%" PRIu64, host->name,
		 host->epoch);
	if (!rc && (!x || !set_name(x, "tutti host") ||
		    !set_times(x, host->begin_s, until(host->end_s, ca)) ||
		    !X509_set_pubkey(x, X509_REQ_get0_pubkey(req))))
		rc = cert_fail(e, ERR_IO, "cannot make a certificate");
	if (!rc)
		rc = finish(ca, x, "clientAuth", uri, pem, e);
	X509_free(x);
	X509_REQ_free(req);
	return rc;
}

static bool is_address(const char *name)
{
	uint8_t bytes[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* "DNS:a,IP:10.0.0.7"; names with other characters than a name or an address has are refused, for they could add some. */
static int list_names(struct buf *out, const char *const *names, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(names[i]);

		if (!len || strspn(names[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					     "0123456789.-_:*") < len)
			return err_set(e, ERR_INVALID, "'%.60s' is no name of a server", names[i]);
		buf_addf(out, "%s%s:%s", i ? "," : "", is_address(names[i]) ? "IP" : "DNS",
			 names[i]);
	}
	return 0;
}

int cert_sign_server(const struct cert_authority *ca, const char *key_pem, const char *const *names,
		     size_t n, int64_t now_s, struct buf *pem, struct err *e)
{
	EVP_PKEY *key = cert_read_key(key_pem);
	X509 *x = X509_new();
	struct buf list = BUF_INIT;
	int rc = list_names(&list, names, n, e);

	if (!rc && (!key || !x || !set_name(x, "tutti aggregator") ||
		    !set_times(x, now_s - CERT_EARLY_S, ca->end_s) || !X509_set_pubkey(x, key)))
		rc = cert_fail(e, ERR_IO, "cannot make a server's certificate");
	if (!rc)
		rc = finish(ca, x, "serverAuth", buf_str(&list), pem, e);
	buf_release(&list);
	X509_free(x);
	EVP_PKEY_free(key);
	return rc;
}

/* ---- reading ---- */

static int read_host(X509 *x, struct cert_host *out, struct err *e)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	char uri[LIMIT_HOST_NAME + 64];
	int rc = 0;

	*out = (struct cert_host){ .begin_s = seconds_of(X509_get0_notBefore(x)),
				   .end_s = seconds_of(X509_get0_notAfter(x)) };
	if (!names || !cert_only_uri(names, uri, sizeof(uri)) || !cert_read_uri(uri, out, true))
		rc = err_set(e, ERR_INVALID, "the certificate names no host");
	GENERAL_NAMES_free(names);
	ERR_clear_error();
	return rc;
}

int cert_read_host(const char *pem, size_t len, struct cert_host *out, struct err *e)
{
	X509 *x = len && len <= CERT_PEM_BYTES ? read_pem(pem, len) : NULL;
	int rc = x ? read_host(x, out, e) : cert_fail(e, ERR_INVALID, "this is no certificate");

	X509_free(x);
	return rc;
}

static int refuse(int why, const struct cert_host *host, struct err *e)
{
	const char *which = *host->name ? host->name : "?";
	char at[25];

	switch (why) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		time_iso(host->end_s * NS_PER_S, at);
		return err_set(e, ERR_DENIED, "the certificate of host '%s' has expired at %s",
			       which, at);
	case X509_V_ERR_CERT_NOT_YET_VALID:
		time_iso(host->begin_s * NS_PER_S, at);
		return err_set(e, ERR_DENIED,
			       "the certificate of host '%s' is not valid yet: it begins at %s",
			       which, at);
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		return err_set(e, ERR_DENIED,
			       "the certificate is of another authority than the aggregator's");
	default:
		return err_set(e, ERR_DENIED, "the certificate is not accepted: %s",
			       X509_verify_cert_error_string(why));
	}
}

static int verify(const struct cert_authority *ca, X509 *x, int64_t now_s,
		  const struct cert_host *host, struct err *e)
{
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	int rc = 0;

	if (!ctx || !X509_STORE_CTX_init(ctx, ca->store, x, NULL) ||
	    !X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_CLIENT)) {
		rc = cert_fail(e, ERR_IO, "cannot verify a certificate");
	} else {
		X509_STORE_CTX_set_time(ctx, 0, (time_t)now_s);
		if (X509_verify_cert(ctx) != 1)
			rc = refuse(X509_STORE_CTX_get_error(ctx), host, e);
	}
	X509_STORE_CTX_free(ctx);
	ERR_clear_error();
	return rc;
}

int cert_verify_host(const struct cert_authority *ca, const char *pem, size_t len, int64_t now_s,
		     struct cert_host *out, struct err *e)
{
	X509 *x = len && len <= CERT_PEM_BYTES ? read_pem(pem, len) : NULL;
	struct err unnamed = { 0 };
	int rc;

	if (!x)
		return cert_fail(e, ERR_DENIED, "what was shown is no certificate");
	/* who has signed it is said first: the names of another authority's certificates are none of ours */
	if (read_host(x, out, &unnamed))
		out->name[0] = '\0';
	rc = verify(ca, x, now_s, out, e);
	if (!rc && unnamed.code)
		rc = err_set(e, ERR_DENIED, "%s", unnamed.msg);
	X509_free(x);
	return rc;
}
