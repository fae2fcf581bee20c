/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates and keys. Private to net/. */
#ifndef NET_PEM_H
#define NET_PEM_H

#include "base/buf.h"
#include "base/err.h"

/* Appends a PEM file of at most 1 MiB to `out`; ERR_INVALID for a file of another kind. The caller
 * releases `out`, also after an error. */
MUST_CHECK int pem_load(const char *path, struct buf *out, struct err *e);

#endif
