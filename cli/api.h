/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the aggregator's HTTP API: JSON in, JSON out. A follower that sends a call to its leader (docs/replicas.md) is
 * obeyed once, and not from https to http: the token goes along.
 */
#ifndef CLI_API_H
#define CLI_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/conf.h"
#include "base/err.h"
#include "json/json_text.h"

struct buf;
struct http_call;
struct login_place;

/* Flags of every verb that calls the aggregator; the first member of the verb's struct. */
struct api_conf {
	char *server;
	char *context; /* read before the flags are parsed: reach.h */
	char *ca;
	char *cert, *key;
	char *token_file;
	bool json;
	const struct login_place *
		place; /* whose sign-in is used where there is no token file; no flag: main.c sets it */
};

#define API_FIELDS(T) \
	CONF(T, api.server, "http://127.0.0.1:7400", \
	     "URL of the aggregator, or of several that share a store, with commas: the leader " \
	     "is " \
	     "asked; k8s://NAMESPACE/NAME goes through kubectl port-forward"), \
		CONF(T, api.context, NULL, \
		     "context to use where no server is given (tutti context)"), \
		CONF(T, api.ca, NULL, "PEM file of the authority to accept for https"), \
		CONF(T, api.cert, NULL, "PEM file of your own certificate for https"), \
		CONF(T, api.key, NULL, "PEM file of that certificate's key"), \
		CONF(T, api.token_file, NULL, "file with the aggregator's token"), \
		CONF(T, api.json, NULL, "print one JSON document on stdout")

/* The table of a verb whose only flags are these; its struct is struct api_conf. */
extern const struct conf_field api_fields[];

/*
 * One call. `body` may be NULL. 2xx: 0 and `*out` (may be NULL) gets the answer, a new reference.
 * 400 is ERR_INVALID, 404 ERR_NOT_FOUND, others ERR_PEER, with the aggregator's own sentence.
 */
MUST_CHECK int api_call(const struct api_conf *conf, const char *method, const char *path,
			const json_t *body, json_t **out, struct err *e);

/* As api_call(), with bytes as the body, and `timeout_ns` for the whole call. */
MUST_CHECK int api_send(const struct api_conf *conf, const char *method, const char *path,
			const void *body, size_t len, int64_t timeout_ns, json_t **out,
			struct err *e);

/* The same without a body: /api/v1/<kind>/<id><verb>. `id` is as the user typed it, and is escaped. */
MUST_CHECK int api_call_on(const struct api_conf *conf, const char *method, const char *kind,
			   const char *id, const char *verb, json_t **out, struct err *e);

/* Server-sent events with JSON data; fn returns 0 to continue, 1 to end with success. `waiting` is called about once a
 * second and returns 0 to continue, or an error. Errors as of api_call(). */
MUST_CHECK int api_events(const struct api_conf *conf, const char *path,
			  int (*fn)(void *arg, const char *event, json_t *data),
			  int (*waiting)(void *arg, struct err *e), void *arg, struct err *e);

/* Writes the body of a GET into a new file, under a temporary name until it is complete. */
MUST_CHECK int api_download(const struct api_conf *conf, const char *path, const char *file,
			    struct err *e);

/* The parts of a call that others make with net/http_client.h: its URL (the caller frees it with free()), the call with the caller's
 * certificate and no token, and the error of a status other than 2xx: the aggregator's own sentence if there is one. */
char *api_url(const struct api_conf *conf, const char *path);
struct http_call api_make_call(const struct api_conf *conf, const char *method, const char *url);
MUST_CHECK int api_refusal(const char *url, int status, const struct buf *answer, struct err *e);

/* http_call() of `*url`, which has this path; and where a follower answers, the same at its leader, whose URL becomes `*url`. Any thread. */
MUST_CHECK int api_call_leader(struct http_call *call, char **url, const char *path, int *status,
			       struct buf *answer, struct err *e);

/* Of several servers, finds the one that leads; calls go to that until the next api_choose(). Does nothing where there is
 * one. Two seconds for each server at most. */
void api_choose(const struct api_conf *conf);
bool api_has_several(const struct api_conf *conf);

/* A word as part of a URL; the caller frees it with free(). */
char *api_escape(const char *word);

/* What a call shows: the token file's secret, else the token of the context's sign-in; NULL if there is neither. The caller frees it with
 * secret_free(). Any thread. */
MUST_CHECK int api_load_token(const struct api_conf *conf, char **token, struct err *e);

/* One JSON document and a newline on stdout. */
void api_print(const json_t *doc);
/* What --json prints for an error: {"error": sentence}, as the API has it. */
void api_print_error(const char *sentence);

/* "12.3 MB"; `out` needs 16 bytes. */
void human_bytes(int64_t bytes, char out[16]);
/* "1.2 us", "3.40 s"; `out` needs 16 bytes. */
void human_time(int64_t ns, char out[16]);

#endif
