/* SPDX-License-Identifier: Apache-2.0 */
/* When a request to a store is tried again, and what its answer means. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "storage/cloud.h"

#define TRIES_MAX      6
#define FIRST_PAUSE_NS (100 * NS_PER_MS)
#define PAUSE_MAX_NS   (10 * NS_PER_S)
#define SKEW_S	       60 /* smaller differences of clocks are never the reason for a refusal */

int64_t cloud_now_s(const struct cloud *c)
{
	return now_real_ns() / NS_PER_S + c->skew_s;
}

static bool is_code(const struct cloud_answer *a, const char *code)
{
	return !strcmp(a->code, code);
}

/* The server has refused our clock: sign with its own from now on. False if the new difference is not a minute off the
 * one in use, so that attempts end. */
static bool learn_skew(struct cloud *c, const struct cloud_answer *a)
{
	int64_t skew_s = a->date_s - now_real_ns() / NS_PER_S;

	if (!is_code(a, "RequestTimeTooSkewed") && !is_code(a, "AuthenticationFailed"))
		return false;
	if (!a->date_s || llabs(skew_s - c->skew_s) < SKEW_S)
		return false;
	c->skew_s = skew_s;
	return true;
}

/* The server does not take the keys any more, although they should have been good for longer. */
static bool renew_keys(struct cloud *c, struct cloud_tries *tries, const struct cloud_answer *a)
{
	if (!c->keys || !a->keys_serial || tries->renewed)
		return false;
	if (a->status != 401 && !is_code(a, "ExpiredToken") && !is_code(a, "AuthenticationFailed"))
		return false;
	tries->renewed = true;
	cloud_keys_refused(c->keys, a->keys_serial);
	return true;
}

/* versitygw, where objects are files: a put meets a remove that takes away the folder. */
static bool is_folder_race(const struct cloud_answer *a)
{
	return is_code(a, "ExistingObjectIsDirectory");
}

static bool is_passing(int rc, const struct cloud_answer *a)
{
	if (rc)
		return rc == ERR_CLOSED || rc == ERR_TIMEOUT;
	switch (a->status) {
	case 408:
	case 429:
	case 500:
	case 502:
	case 503:
	case 504:
		return true;
	default:
		return is_code(a, "SlowDown") || is_code(a, "RequestTimeout") ||
		       is_code(a, "ConditionalRequestConflict") || is_code(a, "OperationAborted") ||
		       is_folder_race(a);
	}
}

bool cloud_tries_again(struct cloud *c, struct cloud_tries *tries, int rc,
		       const struct cloud_answer *a, int64_t deadline_mono_ns)
{
	int64_t pause_ns = FIRST_PAUSE_NS << (tries->n < 10 ? tries->n : 10), until_ns;

	if (!rc && (learn_skew(c, a) || renew_keys(c, tries, a)))
		return true;
	if (!is_passing(rc, a))
		return false;
	if (++tries->n == TRIES_MAX)
		return false;
	until_ns = now_mono_ns() +
		   random_pause_ns(pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
	if (until_ns >= deadline_mono_ns)
		return false;
	now_sleep_until_mono(until_ns);
	return true;
}

int cloud_send(struct cloud *c, const struct cloud_call *call, struct cloud_answer *a,
	       struct err *e)
{
	struct cloud_tries tries = { 0 };
	int rc;

	do
		rc = c->ops->send(c, call, a, e);
	while (cloud_tries_again(c, &tries, rc, a, call->deadline_mono_ns));
	return rc;
}

/* ---- what an answer means ---- */

bool cloud_is_exists(const struct cloud_answer *a)
{
	return a->status == 412 || (a->status == 409 && is_code(a, "BlobAlreadyExists"));
}

static bool is_missing_place(const struct cloud_answer *a)
{
	return is_code(a, "NoSuchBucket") || is_code(a, "ContainerNotFound");
}

static int code_of(const struct cloud_answer *a)
{
	if (a->status == 507 || is_code(a, "QuotaExceeded") || is_code(a, "XMinioStorageFull"))
		return ERR_FULL;
	if (a->status == 404 && !is_missing_place(a))
		return ERR_NOT_FOUND;
	if (cloud_is_exists(a))
		return ERR_EXISTS;
	if (a->status == 401 || a->status == 403)
		return ERR_DENIED;
	return ERR_PEER;
}

int cloud_error(const struct cloud *c, const struct cloud_answer *a, struct err *e)
{
	int code = code_of(a), rc;

	if (code == ERR_NOT_FOUND)
		return err_set(e, code, "there is no such object");
	rc = c->ops->explain ? c->ops->explain(c, a, e) : 0;
	if (rc)
		return rc;
	if (*a->code)
		return err_set(e, code, "%s answers %d %s: %s", c->host, a->status, a->code,
			       a->message);
	if (code == ERR_DENIED)
		return err_set(e, code, "%s answers %d: these keys may not do that", c->host,
			       a->status);
	return err_set(e, code, "%s answers %d", c->host, a->status);
}
