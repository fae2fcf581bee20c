/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials from PEM files, which are read once, at the start. */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "net/pem.h"
#include "net/rpc_impl.h"

struct pems {
	struct buf cert, key, ca;
};

static void pems_release(struct pems *p)
{
	if (p->key.data)
		explicit_bzero(p->key.data, p->key.len);
	buf_release(&p->cert);
	buf_release(&p->key);
	buf_release(&p->ca);
}

static int pems_read(struct pems *p, const struct rpc_tls *tls, struct err *e)
{
	int rc = 0;

	if (!tls->cert_file != !tls->key_file)
		return err_set(e, ERR_INVALID,
			       "a certificate needs its key and a key its certificate");
	if (tls->cert_file)
		rc = pem_load(tls->cert_file, &p->cert, e);
	if (!rc && tls->key_file)
		rc = pem_load(tls->key_file, &p->key, e);
	if (!rc && tls->ca_file)
		rc = pem_load(tls->ca_file, &p->ca, e);
	return rc;
}

int rpc_tls_server(grpc_server_credentials **out, const struct rpc_tls *tls, struct err *e)
{
	grpc_ssl_client_certificate_request_type ask = GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
	grpc_ssl_pem_key_cert_pair pair;
	struct pems p = { 0 };
	int rc;

	if (!tls) {
		*out = grpc_insecure_server_credentials_create();
		return 0;
	}
	if (tls->verifier && tls->ca_file)
		return err_set(e, ERR_INVALID, "a TLS server has a verifier, or authorities");
	if (!tls->cert_file)
		return err_set(e, ERR_INVALID, "a TLS server needs a certificate and a key");
	rc = pems_read(&p, tls, e);
	if (rc)
		goto out;
	pair.cert_chain = buf_str(&p.cert);
	pair.private_key = buf_str(&p.key);
	if (tls->ca_file)
		ask = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
	/* TLS still shows that the peer has the certificate's key; what core would refuse in the handshake, without a
	 * word, is refused by the call, with its reason. */
	if (tls->verifier)
		ask = GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY;
	*out = grpc_ssl_server_credentials_create_ex(tls->ca_file ? buf_str(&p.ca) : NULL, &pair, 1,
						     ask, NULL);
	if (!*out)
		rc = err_set(e, ERR_INVALID, "%s: not usable as a certificate", tls->cert_file);
out:
	pems_release(&p);
	return rc;
}

int rpc_tls_channel(grpc_channel_credentials **out, const struct rpc_tls *tls, struct err *e)
{
	grpc_ssl_pem_key_cert_pair pair;
	struct pems p = { 0 };
	int rc;

	if (!tls) {
		*out = grpc_insecure_credentials_create();
		return 0;
	}
	rc = pems_read(&p, tls, e);
	if (rc)
		goto out;
	pair.cert_chain = buf_str(&p.cert);
	pair.private_key = buf_str(&p.key);
	*out = grpc_ssl_credentials_create_ex(tls->ca_file ? buf_str(&p.ca) : NULL,
					      tls->cert_file ? &pair : NULL, NULL, NULL);
	if (!*out)
		rc = err_set(e, ERR_INVALID, "TLS credentials refused");
out:
	pems_release(&p);
	return rc;
}
