/* SPDX-License-Identifier: Apache-2.0 */
/* JSON documents as the aggregator and the command line read and write them, with jansson. */
#ifndef JSON_JSON_TEXT_H
#define JSON_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

struct buf;

/*
 * A JSON string; new reference. jansson refuses text that is not UTF-8, and a peer may send anything: in
 * such text each byte beyond ASCII becomes '?'. NULL becomes "".
 */
json_t *json_text(const char *s);

/* Receives a document as text, which may have megabytes: it takes the buffer instead of a copy. */
typedef void (*json_text_fn)(void *arg, struct buf *text_taken);

/* Reads one document; `*out` is a new reference. ERR_INVALID "no JSON: line 1: ...", also if an object has a
 * member twice. */
MUST_CHECK int json_parse(json_t **out, const void *text, size_t len, struct err *e);

/* Whether the text can be one complete object: its first bracket closes at its end. It may still be
 * malformed. */
bool json_is_whole(const char *text, size_t len);

/* A copy that is safe to print on a terminal: each control character in texts and names of members becomes a
 * space. New reference. */
json_t *json_clean(const json_t *doc);

/* Append a document as compact text; `flags` are jansson's. json_write() also drops the reference. */
void json_append(struct buf *out, const json_t *doc, size_t flags);
void json_write(struct buf *out, json_t *doc_taken, size_t flags);

/* Set a member of an object. */
void json_put(json_t *object, const char *key, json_t *value_taken);
void json_put_text(json_t *object, const char *key, const char *s);
void json_put_int(json_t *object, const char *key, int64_t v);
void json_put_bool(json_t *object, const char *key, bool v);

/* Get a member of an object: "", 0 or false if it is absent or of another type. The text is borrowed. */
const char *json_get_text(const json_t *object, const char *key);
int64_t json_get_int(const json_t *object, const char *key);
bool json_get_bool(const json_t *object, const char *key);

#endif
