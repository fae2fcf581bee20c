/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates of HTTP clients. A client without a valid one is served like one in plaintext. */
#include "net/http_server_impl.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>

#include "base/mem.h"

/* Of the first certificate in the client's list: its common name. NULL if it cannot be read. */
static char *common_name(gnutls_session_t session)
{
	unsigned int n = 0;
	const gnutls_datum_t *list = gnutls_certificate_get_peers(session, &n);
	gnutls_x509_crt_t crt;
	char name[256];
	size_t len = sizeof(name);
	char *found = NULL;

	if (!list || !n || gnutls_x509_crt_init(&crt))
		return NULL;
	if (!gnutls_x509_crt_import(crt, &list[0], GNUTLS_X509_FMT_DER) &&
	    !gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &len) &&
	    strlen(name) == len)
		found = xstrdup(name);
	gnutls_x509_crt_deinit(crt);
	return found;
}

static char *why_refused(unsigned int status)
{
	gnutls_datum_t text = { 0 };
	char *why;

	if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0))
		return xstrdup("it cannot be verified");
	why = xstrndup((const char *)text.data, text.size);
	gnutls_free(text.data);
	return why;
}

/* The chain, the times, and that the certificate is meant for a client: a server's own one proves no caller. */
char *tls_client_name(struct MHD_Connection *conn, char **error)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		conn, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	gnutls_session_t session = info ? info->tls_session : NULL;
	gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
					  .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT };
	unsigned int status = 0, n = 0;
	char *name;

	*error = NULL;
	if (!session || !gnutls_certificate_get_peers(session, &n) || !n)
		return NULL;
	if (gnutls_certificate_verify_peers(session, &purpose, 1, &status) || status) {
		*error = why_refused(status);
		return NULL;
	}
	name = common_name(session);
	if (!name)
		*error = xstrdup("it has no common name");
	return name;
}
