/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of very many objects: jansson needs ten times the memory of their text. Such an array is an array of
 * strings, each the text of one object: packed. Who reads or changes one unpacks it, one at a time; in an array that
 * is not packed the same functions give the object itself.
 *
 * In a stored document the member "hosts" may be packed, also that of its "end" and of "document" in it.
 */
#ifndef JSON_PACKED_H
#define JSON_PACKED_H

#include <stddef.h>

#include <jansson.h>

struct buf;

/* Appends an object to a packed array; its text, to one. */
void packed_append(json_t *array, json_t *object_taken);
void packed_append_text(json_t *array, const char *text);

/* Object `i` of an array, a new reference. A change of it is not kept before packed_set(). */
json_t *packed_get(const json_t *array, size_t i);
void packed_set(json_t *array, size_t i,
		json_t *object_taken); /* in place of that of packed_get() */

/* Appends a document as compact text, all of it unpacked. */
void packed_write(struct buf *out, const json_t *doc);

#endif
