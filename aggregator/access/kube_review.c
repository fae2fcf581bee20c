/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/access/kube_review.h"

#include <stdio.h>
#include <string.h>

#include "aggregator/kube/kube_api.h"
#include "base/buf.h"
#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"
#include "json/json_text.h"

#define TOKEN_REVIEWS  "/apis/authentication.k8s.io/v1/tokenreviews"
#define ACCESS_REVIEWS "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#define WHY_BYTES      120
#define NAMES_ONLY     "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

/* One token's requests, and the instant by which they must be done. */
struct asking {
	const struct kube_review *review;
	int64_t end_mono_ns;
	json_t *person;
};

/* ---- requests ---- */

static void clean_member(char why[WHY_BYTES], const json_t *doc, const char *key)
{
	const char *text = json_get_text(doc, key);

	clean_sentence(why, WHY_BYTES, text, strlen(text));
}

static int refuse_status(int status, const char *what, const struct buf *answer, struct err *e)
{
	json_t *doc = NULL;
	char why[WHY_BYTES];
	int rc;

	if (json_parse(&doc, answer->data, answer->len, NULL))
		doc = NULL;
	clean_member(why, doc, "message");
	if (status == 401)
		rc = err_set(e, ERR_BUSY,
			     "the Kubernetes API does not accept the aggregator's token");
	else if (status == 403)
		rc = err_set(e, ERR_BUSY,
			     "the aggregator's account may not %s: grant it by a ClusterRole",
			     what);
	else
		rc = err_set(e, ERR_BUSY, "the Kubernetes API answers %d: %s", status, why);
	json_decref(doc);
	return rc;
}

/* `what` says what was asked for, as a right. */
static int ask(const struct asking *a, const char *path, const char *what, const json_t *body,
	       size_t answer_max, struct buf *answer, struct err *e)
{
	const struct kube_call call = { .path = path,
					.accept = body ? NULL : NAMES_ONLY,
					.body = body,
					.answer_max = answer_max,
					.patience_ns = a->end_mono_ns - now_mono_ns(),
					.cancelled = a->review->cancelled };
	int status = 0, rc;

	if (call.patience_ns <= 0)
		return err_set(e, ERR_TIMEOUT, "the Kubernetes API answers too slowly");
	rc = kube_api_call(a->review->api, &call, &status, answer, e);
	if (rc)
		return err_prefix(e, "the Kubernetes API");
	return status == 200 || status == 201 ? 0 : refuse_status(status, what, answer, e);
}

static json_t *new_review(const char *group, const char *kind, json_t *spec_taken)
{
	json_t *doc = json_object();

	json_put_text(doc, "apiVersion", group);
	json_put_text(doc, "kind", kind);
	json_put(doc, "spec", spec_taken);
	return doc;
}

/* ---- who it is ---- */

static bool has_text(const json_t *list, const char *text)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (json_is_string(one) && !strcmp(json_string_value(one), text))
			return true;
	}
	return false;
}

static int take_person(json_t **person, const json_t *user, struct err *e)
{
	static const char *const members[] = { "uid", "groups", "extra" };
	const char *name = json_get_text(user, "username");
	char clean[PRINCIPAL_NAME_BYTES];

	/* Two users must not become one by what principal_new() does to a name. */
	clean_text(clean, sizeof(clean), name, strlen(name));
	if (!*name || strcmp(clean, name) != 0)
		return err_set(e, ERR_DENIED, "the token's user has no name that can be shown");
	*person = json_object();
	json_put_text(*person, "user", name);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		json_t *value = json_object_get(user, members[i]);

		if (value)
			json_object_set(*person, members[i], value);
	}
	return 0;
}

int kube_read_person(json_t **person, const char *audience, const void *text, size_t len,
		     struct err *e)
{
	json_t *doc = NULL, *status;
	char why[WHY_BYTES];
	int rc = json_parse(&doc, text, len, e);

	if (rc) {
		err_prefix(e, "a TokenReview");
		return e->code = ERR_PEER;
	}
	status = json_object_get(doc, "status");
	clean_member(why, status, "error");
	if (!json_get_bool(status, "authenticated"))
		rc = err_set(e, ERR_DENIED, "the cluster does not know this token%s%s",
			     *why ? ": " : "", why);
	else if (!has_text(json_object_get(status, "audiences"), audience))
		rc = err_set(e, ERR_DENIED, "the token is not for the audience '%.100s'", audience);
	else
		rc = take_person(person, json_object_get(status, "user"), e);
	json_decref(doc);
	return rc;
}

static int ask_person(struct asking *a, const char *token, struct err *e)
{
	struct buf answer = BUF_INIT;
	json_t *spec = json_object(), *body;
	int rc;

	json_put_text(spec, "token", token);
	json_put(spec, "audiences", json_pack("[s]", a->review->audience));
	body = new_review("authentication.k8s.io/v1", "TokenReview", spec);
	rc = ask(a, TOKEN_REVIEWS, "create tokenreviews", body, KUBE_PERSON_BYTES, &answer, e);
	if (!rc)
		rc = kube_read_person(&a->person, a->review->audience, answer.data, answer.len, e);
	json_decref(body);
	buf_release(&answer);
	return rc;
}

/* ---- what it may do ---- */

/* `space` "" = in all of them. */
static int ask_right(const struct asking *a, const char *space, const char *verb, bool *may,
		     struct err *e)
{
	struct buf answer = BUF_INIT;
	json_t *spec = json_copy(a->person), *what = json_object(), *body, *doc = NULL, *status;
	int rc;

	json_put_text(what, "group", "tutti.dev");
	json_put_text(what, "resource", "captures");
	json_put_text(what, "verb", verb);
	if (*space)
		json_put_text(what, "namespace", space);
	json_put(spec, "resourceAttributes", what);
	body = new_review("authorization.k8s.io/v1", "SubjectAccessReview", spec);
	rc = ask(a, ACCESS_REVIEWS, "create subjectaccessreviews", body, 2 * KUBE_PERSON_BYTES,
		 &answer, e);
	if (!rc && json_parse(&doc, answer.data, answer.len, e)) {
		err_prefix(e, "a SubjectAccessReview");
		rc = e->code = ERR_PEER;
	}
	status = json_object_get(doc, "status");
	*may = !rc && json_get_bool(status, "allowed") && !json_get_bool(status, "denied");
	json_decref(doc);
	json_decref(body);
	buf_release(&answer);
	return rc;
}

/* The highest role there, which is `*role` at least. */
static int find_role(const struct asking *a, const char *space, enum role *role, struct err *e)
{
	static const struct {
		enum role role;
		const char *verb;
	} steps[] = { { ROLE_NONE, "get" },
		      { ROLE_VIEWER, "list" },
		      { ROLE_OPERATOR, "create" },
		      { ROLE_ADMIN, "delete" } };
	bool may = true;
	int rc = 0;

	for (size_t i = 0; !rc && may && i < ARRAY_SIZE(steps); i++) {
		if (steps[i].role && steps[i].role <= *role)
			continue;
		if (!steps[i].role && *role)
			continue;
		rc = ask_right(a, space, steps[i].verb, &may, e);
		if (!rc && may && steps[i].role)
			*role = steps[i].role;
	}
	return rc;
}

static int grant_space(const struct asking *a, const char *space, enum role least,
		       struct principal *p, struct err *e)
{
	struct spaces where = { 0 };
	enum role role = least;
	int rc = find_role(a, space, &role, e);

	if (!rc && role > least) {
		if (spaces_add(&where, space))
			principal_grant(p, role, &where);
	}
	spaces_release(&where);
	return rc;
}

static int grant_spaces(const struct asking *a, enum role least, struct principal *p, struct err *e)
{
	struct buf answer = BUF_INIT;
	json_t *doc = NULL, *items, *item;
	char path[64];
	size_t i;
	int rc;

	snprintf(path, sizeof(path), "/api/v1/namespaces?limit=%d", KUBE_SPACES_MOST);
	rc = ask(a, path, "list namespaces", NULL, KUBE_SPACES_BYTES, &answer, e);
	if (!rc && json_parse(&doc, answer.data, answer.len, e))
		rc = err_prefix(e, "the namespaces of the Kubernetes API");
	items = json_object_get(doc, "items");
	json_array_foreach(items, i, item)
	{
		const char *name = json_get_text(json_object_get(item, "metadata"), "name");

		if (!rc && i < KUBE_SPACES_MOST && *name && strlen(name) < SPACES_NAME_BYTES)
			rc = grant_space(a, name, least, p, e);
	}
	json_decref(doc);
	buf_release(&answer);
	return rc;
}

static int grant_all(const struct asking *a, struct principal *p, struct err *e)
{
	enum role everywhere = ROLE_NONE;
	int rc = find_role(a, "", &everywhere, e);

	if (rc)
		return rc;
	principal_grant_all(p, everywhere);
	return everywhere == ROLE_ADMIN ? 0 : grant_spaces(a, everywhere, p, e);
}

int kube_review_person(const struct kube_review *r, const char *token, json_t **person,
		       struct err *e)
{
	struct asking a = { .review = r, .end_mono_ns = now_mono_ns() + KUBE_REVIEW_MAX_NS };
	int rc = ask_person(&a, token, e);

	*person = a.person;
	return rc;
}

int kube_review(const struct kube_review *r, const char *token, struct principal **out,
		struct err *e)
{
	struct asking a = { .review = r, .end_mono_ns = now_mono_ns() + KUBE_REVIEW_MAX_NS };
	struct principal *p = NULL;
	int rc = ask_person(&a, token, e);

	if (!rc) {
		p = principal_new(json_get_text(a.person, "user"), "kubernetes");
		rc = grant_all(&a, p, e);
	}
	if (rc)
		principal_unref(p);
	else
		*out = p;
	json_decref(a.person);
	return rc;
}
