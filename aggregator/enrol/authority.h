/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of an authority, which its first start makes (0700): ca.crt, which agents need, ca.key (0600), and for an
 * aggregator without a certificate of its own server.crt and server.key. Private to enrol/. Blocks.
 */
#ifndef AGGREGATOR_ENROL_AUTHORITY_H
#define AGGREGATOR_ENROL_AUTHORITY_H

#include "base/err.h"

struct cert_authority;
struct conf_list;

struct authority {
	struct cert_authority *ca;
	char *ca_file; /* its certificate */
	char *server_cert_file, *server_key_file; /* set by authority_make_server() */
};

/* The authority of the two files, or with NULL that of the folder. ERR_DENIED for a folder or a key that other users can open. The caller
 * releases it, also after an error. */
MUST_CHECK int authority_open(struct authority *a, const char *folder, const char *cert_file,
			      const char *key_file, struct err *e);
void authority_release(struct authority *a); /* zeroed is fine */

/* A new certificate for the aggregator, with these names, this machine's, localhost and 127.0.0.1. */
MUST_CHECK int authority_make_server(struct authority *a, const char *folder,
				     const struct conf_list *names, struct err *e);

#endif
