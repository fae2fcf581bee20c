/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the XML that stores answer with. Foreign bytes: bounded, without document types or entities of their own.
 * Private to storage/. */
#ifndef STORAGE_XML_H
#define STORAGE_XML_H

#include <stddef.h>

#include "base/err.h"

#define XML_DEPTH_MAX 8
#define XML_PATH_MAX  255
#define XML_TEXT_MAX  ((size_t)16 << 10) /* of one element */

/*
 * The end of an element: its path ("ListBucketResult/Contents/Key") and its text without blanks around it, or NULL
 * for one that has elements inside. A negative code ends the reading with it.
 */
typedef int (*xml_fn)(void *arg, const char *path, const char *text, struct err *e);

/* ERR_PEER for what is not one whole document, or has a document type; ERR_LIMIT beyond the limits above. */
MUST_CHECK int xml_read(const void *data, size_t len, xml_fn fn, void *arg, struct err *e);

#endif
