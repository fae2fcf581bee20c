/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/certs.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "tests/lib/check.h"

struct cert {
	EVP_PKEY *key;
	X509 *x509;
};

static void add_extension(struct cert *c, const struct cert *issuer, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer->x509, c->x509, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	CHECK(ext && X509_add_ext(c->x509, ext, -1));
	X509_EXTENSION_free(ext);
}

static void fill(struct cert *c, const char *name, const struct cert *ca)
{
	const struct cert *issuer = ca ? ca : c;
	X509_NAME *subject = X509_get_subject_name(c->x509);
	uint32_t serial;

	random_bytes(&serial, sizeof(serial));
	CHECK(X509_set_version(c->x509, 2));
	CHECK(ASN1_INTEGER_set(X509_get_serialNumber(c->x509), serial >> 1));
	CHECK(X509_gmtime_adj(X509_getm_notBefore(c->x509), -60));
	CHECK(X509_gmtime_adj(X509_getm_notAfter(c->x509), 3600));
	CHECK(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const uint8_t *)name, -1,
					 -1, 0));
	CHECK(X509_set_issuer_name(c->x509, X509_get_subject_name(issuer->x509)));
	CHECK(X509_set_pubkey(c->x509, c->key));
	add_extension(c, issuer, NID_basic_constraints, ca ? "CA:FALSE" : "critical,CA:TRUE");
	add_extension(c, issuer, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
	CHECK(X509_sign(c->x509, issuer->key, EVP_sha256()));
}

static void save(const struct cert *c, const char *dir, const char *name)
{
	char *crt = xasprintf("%s/%s.crt", dir, name), *key = xasprintf("%s/%s.key", dir, name);
	FILE *f = fopen(crt, "we");

	CHECK(f && PEM_write_X509(f, c->x509) && !fclose(f));
	f = fopen(key, "we");
	CHECK(f && PEM_write_PrivateKey(f, c->key, NULL, NULL, 0, NULL, NULL) && !fclose(f));
	free(crt);
	free(key);
}

struct cert *cert_make(const char *dir, const char *name, const struct cert *ca)
{
	struct cert *c = xcalloc(1, sizeof(*c));

	c->key = EVP_EC_gen("P-256");
	c->x509 = X509_new();
	CHECK(c->key && c->x509);
	fill(c, name, ca);
	save(c, dir, name);
	return c;
}

void cert_free(struct cert *c)
{
	if (!c)
		return;
	EVP_PKEY_free(c->key);
	X509_free(c->x509);
	free(c);
}
