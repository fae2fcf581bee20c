/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pem.h"

#include <string.h>

#include "base/file.h"

#define PEM_MAX_BYTES (1 << 20)

int pem_load(const char *path, struct buf *out, struct err *e)
{
	int rc = file_load(path, PEM_MAX_BYTES, out, e);

	if (rc == ERR_LIMIT || (!rc && !strstr(buf_str(out), "-----BEGIN ")))
		rc = err_set(e, ERR_INVALID, "%s: not a PEM file", path);
	return rc;
}
