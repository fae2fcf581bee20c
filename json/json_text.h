/* SPDX-License-Identifier: Apache-2.0 */
/* Text from outside into JSON: jansson refuses what is not UTF-8, a peer may send anything. */
#ifndef JSON_JSON_TEXT_H
#define JSON_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct buf;

/* A string, bytes beyond ASCII replaced by '?' if it is not UTF-8; "" for NULL. New reference. */
json_t *json_text(const char *s);

/* Who wanted a document's text, `len` bytes and a NUL; borrowed. */
typedef void (*json_text_fn)(void *arg, const char *text, size_t len);

/* Appends its compact text; `flags` are jansson's. */
void json_write(struct buf *out, json_t *doc_taken, size_t flags);

/* Sets members of an object. */
void json_put_text(json_t *object, const char *key, const char *s);
void json_put_int(json_t *object, const char *key, int64_t v);
void json_put_bool(json_t *object, const char *key, int v);
void json_put(json_t *object, const char *key, json_t *value_taken);

/* Members of an object, "" and 0 where they are missing or of another type; borrowed. */
const char *json_get_text(const json_t *object, const char *key);
int64_t json_get_int(const json_t *object, const char *key);

#endif
