/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates of agents: an authority, the requests of agents, what the authority signs, and whether a certificate that
 * a peer shows is one of them. Only net/cert*.c include OpenSSL's headers. Keys are EC keys on P-256.
 *
 * A host's certificate names it in one URI, its only alternative name: tutti://host/NAME/epoch/N. The epoch is a number
 * of the authority; what it means is its owner's. A request has tutti://host/NAME. Nothing here does I/O; any thread.
 */
#ifndef NET_CERT_H
#define NET_CERT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "proto/limits.h"

#define CERT_REQUEST_BYTES 2048 /* of a request, in DER; an honest one has 350 */
#define CERT_PEM_BYTES	   8192 /* of a certificate, in PEM; an honest one has 800 */
#define CERT_EPOCH_MAX	   UINT64_C(999999999999999999)
#define CERT_EARLY_S	   300 /* a certificate begins so long before now, for clocks that differ */

/* What the certificate of a host says. Times are Unix seconds. */
struct cert_host {
	char name[LIMIT_HOST_NAME + 1];
	uint64_t epoch;
	int64_t begin_s, end_s;
};

/* ---- keys and requests ---- */

/* A new key, in PEM. */
MUST_CHECK int cert_make_key(struct buf *pem, struct err *e);

/* A request for a host's certificate, in DER, signed by the key. */
MUST_CHECK int cert_make_request(const char *key_pem, const char *host, struct buf *der,
				 struct err *e);

/* Foreign bytes: ERR_INVALID unless they are a request of at most CERT_REQUEST_BYTES with a key on P-256 that has signed it,
 * and ERR_DENIED if it names another host. */
MUST_CHECK int cert_check_request(const void *der, size_t len, const char *host, struct err *e);

/* ---- an authority ---- */

struct cert_authority;

/* A new authority: its key and its certificate, in PEM, which begins at now_s and stays for ten years. */
MUST_CHECK int cert_make_authority(int64_t now_s, struct buf *key_pem, struct buf *cert_pem,
				   struct err *e);

/* The caller frees it with cert_authority_free(). ERR_INVALID if the two do not belong together, or are no authority. */
MUST_CHECK int cert_authority_new(struct cert_authority **out, const char *key_pem,
				  const char *cert_pem, struct err *e);
void cert_authority_free(struct cert_authority *ca); /* NULL is fine */

/* A certificate for `host`, in PEM, of the request, which is checked as by cert_check_request(). `host->end_s` is
 * cut to the authority's own life. ERR_LIMIT for an epoch above CERT_EPOCH_MAX. */
MUST_CHECK int cert_sign_host(const struct cert_authority *ca, const void *request, size_t len,
			      const struct cert_host *host, struct buf *pem, struct err *e);

/* A server's certificate, in PEM, for the key and for these names, of which one at least is given: DNS names or
 * addresses. It stays as long as the authority. */
MUST_CHECK int cert_sign_server(const struct cert_authority *ca, const char *key_pem,
				const char *const *names, size_t n, int64_t now_s, struct buf *pem,
				struct err *e);

/* Foreign bytes: ERR_DENIED, with the reason, unless they are a certificate of this authority for a host, valid at now_s.
 * That the peer has its key is for TLS to show. */
MUST_CHECK int cert_verify_host(const struct cert_authority *ca, const char *pem, size_t len,
				int64_t now_s, struct cert_host *out, struct err *e);

/* ---- one's own ---- */

/* Reads the first certificate of a host in `pem`, without any check of who has signed it. ERR_INVALID. */
MUST_CHECK int cert_read_host(const char *pem, size_t len, struct cert_host *out, struct err *e);

#endif
