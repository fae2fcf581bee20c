/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by net/cert*.c, and private to them. */
#ifndef NET_CERT_IMPL_H
#define NET_CERT_IMPL_H

#include <stdbool.h>

#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include "base/err.h"

struct cert_host;

/* The name of a host's certificate: both, each with what it is before. A request's ends with the host. */
#define CERT_URI_BEGIN	  "tutti://host/"
#define CERT_URI_EPOCH	  "/epoch/"
#define CERT_EPOCH_DIGITS 18 /* of CERT_EPOCH_MAX */

/* Sets an error with the library's own reason, and empties its queue. */
int cert_fail(struct err *e, int code, const char *what);

/* A key in PEM; NULL without. The caller frees it. */
EVP_PKEY *cert_read_key(const char *pem);

/* Appends a key, or a certificate, in PEM. */
struct buf;
MUST_CHECK int cert_add_key(struct buf *pem, EVP_PKEY *key, struct err *e);
MUST_CHECK int cert_add_pem(struct buf *pem, X509 *x, struct err *e);

/* The request in `der`, checked as by cert_check_request(); the caller frees it. */
MUST_CHECK int cert_read_request(X509_REQ **out, const void *der, size_t len, const char *host,
				 struct err *e);

/* The only URI of a list of alternative names that has nothing else, as text; false if it is not so. The caller
 * frees the list. */
bool cert_only_uri(const GENERAL_NAMES *names, char *out, size_t size);

/* "tutti://host/NAME", and with `epoch` not NULL "/epoch/N" behind it. */
bool cert_read_uri(const char *uri, struct cert_host *out, bool has_epoch);

#endif
