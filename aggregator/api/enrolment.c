/* SPDX-License-Identifier: Apache-2.0 */
/* Join tokens, and revocations. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/api/api_impl.h"
#include "aggregator/enrol/enrol.h"
#include "aggregator/link/control.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"
#include "net/http_server.h"

/* A change that is being written. */
struct change {
	struct http_req *req;
	json_t *answer;
};

static void on_durable(void *arg, const struct err *why)
{
	struct change *c = arg;

	if (why)
		api_answer_err(c->req, why);
	else
		api_answer_json(c->req, 200, json_incref(c->answer));
	json_decref(c->answer);
	free(c);
}

static struct change *change_new(struct http_req *req)
{
	struct change *c = xcalloc(1, sizeof(*c));

	*c = (struct change){ .req = req, .answer = json_object() };
	return c;
}

static void change_refuse(struct change *c, const struct err *e)
{
	api_answer_err(c->req, e);
	json_decref(c->answer);
	free(c);
}

/* Answers itself without an authority, or for a body that is none of ours; else a new reference. */
static json_t *read_request(const struct api *api, struct http_req *req)
{
	json_t *doc = NULL;
	size_t len;
	const void *body = http_body(req, &len);
	struct err e;

	if (!api->env.enrol)
		http_answer_error(req, 501,
				  "this aggregator gives no certificates: start it with "
				  "--enrol FOLDER");
	else if (json_parse(&doc, body, len, &e))
		api_answer_err(req, &e);
	return doc;
}

/* A member of another kind than it must be is refused by name. */
static bool check_members(struct http_req *req, const json_t *doc, const char *text,
			  const char *const *numbers)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)doc, key, value)
	{
		bool known = !strcmp(key, text) && json_is_string(value);

		for (size_t i = 0; numbers[i]; i++)
			known |= !strcmp(key, numbers[i]) && json_is_integer(value);
		if (!known) {
			http_answer_error(req, 400,
					  "'%.40s' is not a member of this request, or "
					  "of another kind",
					  key);
			return false;
		}
	}
	return true;
}

void api_join_token(struct api *api, struct http_req *req, const char *id, const char *name)
{
	static const char *const numbers[] = { "life_ns", "uses", NULL };
	json_t *doc = read_request(api, req);
	struct enrol_token rules;
	char token[ENROL_TOKEN_BYTES] = "";
	struct change *c;
	struct err e;

	(void)id;
	(void)name;
	if (!doc || !check_members(req, doc, "host", numbers)) {
		json_decref(doc);
		return;
	}
	rules = (struct enrol_token){ .host = json_get_text(doc, "host"),
				      .life_ns = json_get_int(doc, "life_ns"),
				      .uses = json_get_int(doc, "uses") };
	if (!json_object_get(doc, "uses")) /* any number is for who says so */
		rules.uses = 1;
	c = change_new(req);
	if (enrol_add_token(api->env.enrol, &rules, token, on_durable, c, &e)) {
		change_refuse(c, &e);
	} else {
		json_put_text(c->answer, "token", token);
		json_put_int(c->answer, "until_ns", now_real_ns() + rules.life_ns);
	}
	explicit_bzero(token, sizeof(token));
	json_decref(doc);
}

static void revoke_host(struct api *api, struct http_req *req, const char *host)
{
	struct change *c = change_new(req);
	struct err e;

	json_put_text(c->answer, "revoked", host);
	if (enrol_revoke(api->env.enrol, host, on_durable, c, &e))
		change_refuse(c, &e);
	else
		control_refuse_host(api->env.links, host, "the host is revoked");
}

static void lift_host(struct api *api, struct http_req *req, const char *host)
{
	struct change *c = change_new(req);
	struct err e;

	json_put_text(c->answer, "lifted", host);
	if (enrol_lift(api->env.enrol, host, on_durable, c, &e))
		change_refuse(c, &e);
}

static void revoke_epoch(struct api *api, struct http_req *req)
{
	struct change *c = change_new(req);
	uint64_t epoch = enrol_next_epoch(api->env.enrol, on_durable, c);

	json_put_int(c->answer, "epoch", (int64_t)epoch);
	control_close_links(api->env.links, "all certificates are revoked: enrol again");
}

void api_revoke(struct api *api, struct http_req *req, const char *id, const char *name)
{
	json_t *doc = read_request(api, req);
	const char *host = json_get_text(doc, "host");

	(void)id;
	(void)name;
	if (doc && *host && json_object_size(doc) == 1)
		revoke_host(api, req, host);
	else if (doc && *host && json_is_true(json_object_get(doc, "lift")) &&
		 json_object_size(doc) == 2)
		lift_host(api, req, host);
	else if (doc && json_is_true(json_object_get(doc, "epoch")) && json_object_size(doc) == 1)
		revoke_epoch(api, req);
	else if (doc)
		http_answer_error(req, 400,
				  "send {\"host\": NAME}, with \"lift\": true to lift it, or "
				  "{\"epoch\": true}");
	json_decref(doc);
}
