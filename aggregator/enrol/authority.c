/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/enrol/authority.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "net/cert.h"

#define FILE_BYTES (64 << 10)
#define NAMES_MOST 32

static void release_secret(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_release(b);
}

static int check_private(const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st))
		return err_errno(e, "%s", path);
	if (st.st_mode & S_IRWXO)
		return err_set(e, ERR_DENIED,
			       "%s can be opened by every user of this host: chmod o= %s", path,
			       path);
	return 0;
}

/* ca.key is written last: without it there is no authority yet. */
static int make(const char *cert_file, const char *key_file, struct err *e)
{
	struct buf key = BUF_INIT, cert = BUF_INIT;
	int rc = cert_make_authority(now_real_ns() / NS_PER_S, &key, &cert, e);

	if (!rc)
		rc = file_replace(cert_file, 0644, cert.data, cert.len, e);
	if (!rc)
		rc = file_replace(key_file, 0600, key.data, key.len, e);
	release_secret(&key);
	buf_release(&cert);
	return rc;
}

static int load(struct authority *a, const char *key_file, struct err *e)
{
	struct buf key = BUF_INIT, cert = BUF_INIT;
	int rc = check_private(key_file, e);

	if (!rc)
		rc = file_load(key_file, FILE_BYTES, &key, e);
	if (!rc)
		rc = file_load(a->ca_file, FILE_BYTES, &cert, e);
	if (!rc) {
		rc = cert_authority_new(&a->ca, buf_str(&key), buf_str(&cert), e);
		if (rc)
			err_prefix(e, "%s", key_file);
	}
	release_secret(&key);
	buf_release(&cert);
	return rc;
}

int authority_open(struct authority *a, const char *folder, const char *cert_file,
		   const char *key_file, struct err *e)
{
	char *key = key_file ? xstrdup(key_file) : xasprintf("%s/ca.key", folder);
	int rc = file_make_folders(folder, 0755, 0700, e);

	a->ca_file = cert_file ? xstrdup(cert_file) : xasprintf("%s/ca.crt", folder);
	if (!rc)
		rc = check_private(folder, e);
	if (!rc && !key_file && access(key, F_OK))
		rc = make(a->ca_file, key, e);
	if (!rc)
		rc = load(a, key, e);
	free(key);
	return rc;
}

void authority_release(struct authority *a)
{
	cert_authority_free(a->ca);
	free(a->ca_file);
	free(a->server_cert_file);
	free(a->server_key_file);
	*a = (struct authority){ 0 };
}

static int sign_server(const struct authority *a, const struct conf_list *given,
		       const struct buf *key, struct buf *cert, struct err *e)
{
	const char *names[NAMES_MOST + 3] = { "localhost", "127.0.0.1" };
	char own[256] = "";
	size_t n = 2;

	if (given->n > NAMES_MOST)
		return err_set(e, ERR_LIMIT, "enrol-name: at most %d names", NAMES_MOST);
	if (!gethostname(own, sizeof(own) - 1) && *own && strcmp(own, "localhost"))
		names[n++] = own;
	for (size_t i = 0; i < given->n; i++)
		names[n++] = given->items[i];
	return cert_sign_server(a->ca, buf_str(key), names, n, now_real_ns() / NS_PER_S, cert, e);
}

int authority_make_server(struct authority *a, const char *folder, const struct conf_list *names,
			  struct err *e)
{
	struct buf key = BUF_INIT, cert = BUF_INIT;
	int rc = cert_make_key(&key, e);

	a->server_cert_file = xasprintf("%s/server.crt", folder);
	a->server_key_file = xasprintf("%s/server.key", folder);
	if (!rc)
		rc = sign_server(a, names, &key, &cert, e);
	if (!rc)
		rc = file_replace(a->server_key_file, 0600, key.data, key.len, e);
	if (!rc)
		rc = file_replace(a->server_cert_file, 0644, cert.data, cert.len, e);
	release_secret(&key);
	buf_release(&cert);
	return rc;
}
