/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed arrays: each object is kept as a JSON string with its text, because jansson needs ten times the
 * memory of the text for very many objects. These functions unpack one object at a time. They also take an
 * ordinary array of objects.
 *
 * In a document for the store, "hosts", "end.hosts" and "end.document.hosts" may be packed.
 */
#ifndef JSON_PACKED_H
#define JSON_PACKED_H

#include <stddef.h>

#include <jansson.h>

struct buf;

/* Append an object to a packed array: as an object, or as its text. */
void packed_append(json_t *array, json_t *object_taken);
void packed_append_text(json_t *array, const char *text);

/* The text of object `i` of a packed array, borrowed; NULL if the array is not packed. */
const char *packed_text(const json_t *array, size_t i);

/* Object `i` of an array, a new reference. After a change, packed_set() puts it back. */
json_t *packed_get(const json_t *array, size_t i);
void packed_set(json_t *array, size_t i,
		json_t *object_taken); /* in place of that of packed_get() */

/* Appends a document as compact text, all of it unpacked. */
void packed_write(struct buf *out, const json_t *doc);

/* Reads a document of the store and packs these arrays; a new reference. NULL if the text is not one object, or
 * if one of these arrays has an element that is no object. */
json_t *packed_read(const void *text, size_t len);

#endif
