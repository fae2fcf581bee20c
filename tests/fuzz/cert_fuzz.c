/* SPDX-License-Identifier: Apache-2.0 */
/* A certificate request, or a certificate in PEM: whatever comes is refused, or says what it must say. */
#include <assert.h>
#include <string.h>

#include "net/cert.h"

#define NOW_S INT64_C(1800000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cert_authority *authority(void)
{
	static struct cert_authority *ca; /* until the process ends */
	struct buf key = BUF_INIT, cert = BUF_INIT;

	if (!ca && (cert_make_authority(NOW_S, &key, &cert, NULL) ||
		    cert_authority_new(&ca, buf_str(&key), buf_str(&cert), NULL)))
		__builtin_trap();
	buf_release(&key);
	buf_release(&cert);
	return ca;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = data ? (const char *)data : "";
	struct cert_host host = { 0 };
	struct err e = { 0 };
	int rc = cert_check_request(data, size, "host-a", &e);

	assert(rc == 0 || rc == ERR_INVALID || rc == ERR_DENIED);
	assert(rc == 0 || *e.msg);
	rc = cert_read_host(text, size, &host, &e);
	assert(rc == 0 || rc == ERR_INVALID);
	assert(rc || *host.name);
	/* no one else has this authority's key */
	rc = cert_verify_host(authority(), text, size, NOW_S, &host, &e);
	assert(rc == ERR_DENIED && *e.msg);
	return 0;
}
