/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/login.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/now.h"
#include "cli/private_file.h"
#include "cli/provider.h"
#include "cli/token_life.h"
#include "json/json_text.h"

#define EARLY_S	       30 /* a token is refreshed so long before it ends */
#define UNKNOWN_LIFE_S 300 /* of a token whose end is not known */

static int64_t now_s(void)
{
	return now_real_ns() / NS_PER_S;
}

/* The caller frees it. */
static char *path_of(const char *context, const char *suffix)
{
	char *file = contexts_path(), *slash = strrchr(file, '/');
	char *path = xasprintf("%.*slogins/%s%s", slash ? (int)(slash - file + 1) : 0, file,
			       context, suffix);

	free(file);
	return path;
}

static int lock(const char *context, int *fd, struct err *e)
{
	char *path = path_of(context, ".lock");
	int rc = private_file_lock(path, fd, e);

	free(path);
	return rc;
}

int login_load(const struct login_place *at, json_t **out, struct err *e)
{
	char *path = path_of(at->context, ".json");
	int rc = private_file_load(out, path, e);

	if (!rc && *out && strcmp(json_get_text(*out, "server"), at->server)) {
		json_decref(*out);
		*out = NULL;
	}
	free(path);
	return rc;
}

/* What is sent, of what a provider answered. */
static int choose_token(const json_t *login, const json_t *answer, const char **token,
			struct err *e)
{
	bool is_access = *json_get_text(login, "resource");

	*token = json_get_text(answer, is_access ? "access_token" : "id_token");
	if (!**token)
		return err_set(e, ERR_PEER,
			       "the OpenID provider gives no ID token: add openid to --scope, or "
			       "name a --resource");
	if (!token_is_word(*token) || !token_is_word(json_get_text(answer, "access_token")))
		return err_set(e, ERR_PEER, "the OpenID provider gives what is no token");
	return 0;
}

int login_store(const struct login_place *at, json_t *login, const json_t *answer, struct err *e)
{
	const char *refresh = json_get_text(answer, "refresh_token"), *token;
	double said = json_number_value(json_object_get(answer, "expires_in"));
	int64_t life_s;
	char *path;
	int rc = choose_token(login, answer, &token, e);

	if (rc)
		return rc;
	life_s = token_life_s(token);
	if (!life_s)
		life_s = said >= 1 && said <= TOKEN_MOST_LIFE_S ? (int64_t)said : UNKNOWN_LIFE_S;
	json_put_text(login, "server", at->server);
	json_put_text(login, "token", token);
	if (token_is_word(refresh)) /* without a new one, the old one still holds */
		json_put_text(login, "refresh_token", refresh);
	json_put_int(login, "ends_s", now_s() + life_s);
	path = path_of(at->context, ".json");
	rc = private_file_store(login, path, e);
	free(path);
	return rc;
}

/* ---- refreshing ---- */

static int64_t left_s(const json_t *login)
{
	return json_get_int(login, "ends_s") - now_s();
}

static int refresh(const struct login_place *at, json_t *login, struct err *e)
{
	const char *token = json_get_text(login, "refresh_token");
	struct provider p = { 0 };
	json_t *answer = NULL;
	int rc;

	if (!*token)
		return err_set(e, ERR_DENIED, "it cannot be refreshed");
	rc = provider_open(&p, json_get_text(login, "issuer"), json_get_text(login, "client"),
			   json_get_text(login, "resource"), json_get_text(login, "ca"), e);
	if (!rc)
		rc = provider_refresh(&p, token, &answer, e);
	if (!rc)
		rc = login_store(at, login, answer, e);
	json_decref(answer);
	provider_close(&p);
	return rc;
}

/* Another process may have refreshed it while this one waited for the lock. */
static int refresh_once(const struct login_place *at, json_t **login, struct err *e)
{
	json_t *newer = NULL;
	struct err why;
	int fd, rc = lock(at->context, &fd, e);

	if (rc)
		return rc;
	rc = login_load(at, &newer, e);
	if (!rc) {
		json_decref(*login);
		*login = newer;
	}
	if (!rc && newer && left_s(newer) <= EARLY_S) {
		rc = refresh(at, newer, &why);
		if (rc && left_s(newer) > 0)
			rc = 0; /* it still holds, and the provider may be back before it ends */
		else if (rc)
			rc = err_set(e, rc,
				     "the sign-in of context '%s' has ended (%.120s): tutti login "
				     "--context %s",
				     at->context, why.msg, at->context);
	}
	close(fd);
	return rc;
}

int login_token(const struct login_place *at, char **token, struct err *e)
{
	json_t *login = NULL;
	int rc;

	*token = NULL;
	if (!*at->context)
		return 0;
	rc = login_load(at, &login, e);
	if (!rc && login && left_s(login) <= EARLY_S)
		rc = refresh_once(at, &login, e);
	if (!rc && login && token_is_word(json_get_text(login, "token")))
		*token = xstrdup(json_get_text(login, "token"));
	json_decref(login);
	return rc;
}

int login_remove(const char *context, json_t **login, struct err *e)
{
	char *path = path_of(context, ".json");
	json_t *doc = NULL;
	int fd, rc = lock(context, &fd, e);

	if (rc)
		goto out;
	rc = private_file_load(&doc, path, e);
	if (!rc && doc && unlink(path))
		rc = err_errno(e, "removing %s", path);
	if (!rc && login)
		*login = json_incref(doc);
	json_decref(doc);
	close(fd);
out:
	free(path);
	return rc;
}
