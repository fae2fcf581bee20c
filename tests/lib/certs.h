/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for tests, made on the spot: valid for an hour, EC keys, PEM files. */
#ifndef TESTS_CERTS_H
#define TESTS_CERTS_H

struct cert;

/* Writes <dir>/<name>.crt and <dir>/<name>.key. The common name is `name`, the alternative names
 * are localhost and 127.0.0.1. Signed by `ca`, or by itself as an authority if that is NULL. Ends
 * the test if anything fails. Yours: cert_free(). */
struct cert *cert_make(const char *dir, const char *name, const struct cert *ca);
void cert_free(struct cert *c);

#endif
