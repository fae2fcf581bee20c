/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AWS Signature Version 4, as object stores and STS check it: headers or a presigned query. No I/O and no clock.
 *
 * Names and values are given as they are; they are encoded here, once, and the caller sends exactly the
 * bytes of `target`. Paths are not normalized: "//" and ".." stay.
 */
#ifndef NET_SIGV4_H
#define NET_SIGV4_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SIGV4_PAIRS_MAX	  20 /* of a query, and headers of a request */
#define SIGV4_HASH_BYTES  65 /* a SHA-256 in hexadecimal, and the NUL */
#define SIGV4_UNSIGNED	  "UNSIGNED-PAYLOAD"
#define SIGV4_EXPIRES_MAX (7 * 24 * 3600)

struct sigv4_pair {
	const char *name, *value;
};

struct sigv4_keys {
	const char *id, *secret;
	const char *token; /* of a session; NULL or "" = none */
};

struct sigv4_scope {
	const char *region;
	const char *service; /* "s3", "sts" */
};

struct sigv4_request {
	const char *method;
	const char *host; /* as in the Host header: with the port if it is not the scheme's own */
	const char *path; /* begins with '/' */
	const struct sigv4_pair *query;
	size_t n_query;
	const struct sigv4_pair *headers; /* to sign beside host; names in lower case, each once */
	size_t n_headers;
	const char *payload; /* hash of the body in hexadecimal, or SIGV4_UNSIGNED */
	int64_t unix_s;
};

/* Beside its own headers a request sends: Host, x-amz-date: date, x-amz-content-sha256: payload,
 * x-amz-security-token: token (with a token), Authorization: authorization. */
struct sigv4_signed {
	char date[17];
	struct buf target; /* path and query, encoded */
	struct buf authorization;
};

/* ERR_LIMIT for more than SIGV4_PAIRS_MAX pairs. `out` begins zeroed; sigv4_release() after errors too. */
MUST_CHECK int sigv4_sign(const struct sigv4_keys *keys, const struct sigv4_scope *scope,
			  const struct sigv4_request *req, struct sigv4_signed *out, struct err *e);

/* A target that holds the signature: whoever has it may send this request, with the headers given here, until
 * `expires_s` have passed (ERR_INVALID beyond SIGV4_EXPIRES_MAX). The body is not signed; its size is if
 * the headers have "content-length". It is a secret: log no such target. */
MUST_CHECK int sigv4_presign(const struct sigv4_keys *keys, const struct sigv4_scope *scope,
			     const struct sigv4_request *req, int expires_s, struct buf *target,
			     struct err *e);

void sigv4_release(struct sigv4_signed *s);

/* The payload hash of bytes in memory, or of `len` bytes of a file from `offset` on: ERR_INVALID if it ends before. */
void sigv4_hash(const void *data, size_t len, char out[SIGV4_HASH_BYTES]);
/* The value of Content-MD5, which some requests of S3 must have. */
#define SIGV4_MD5_BYTES 25
void sigv4_content_md5(const void *data, size_t len, char out[SIGV4_MD5_BYTES]);
MUST_CHECK int sigv4_hash_file(int fd, uint64_t offset, uint64_t len, char out[SIGV4_HASH_BYTES],
			       struct err *e);

#endif
