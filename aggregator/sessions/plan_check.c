/* SPDX-License-Identifier: Apache-2.0 */
/* Checks plans and manifests that were read from the store: the ranges of numbers, and the names of hosts. */
#include <inttypes.h>
#include <string.h>

#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "json/json_text.h"
#include "json/packed.h"
#include "proto/limits.h"
#include "proto/names.h"

#define REVISION_MAX 1000000

static const struct {
	const char *name;
	int64_t max;
} numbers[] = {
	{ "t0_ns", LIMIT_TIME_NS },
	{ "duration_ns", LIMIT_DURATION_NS },
	{ "lead_ns", LIMIT_DURATION_NS },
	{ "grace_given_ns", LIMIT_GRACE_NS },
	{ "deadline_ns", LIMIT_TIME_NS },
	{ "not_before_ns", LIMIT_TIME_NS },
	{ "commit_by_ns", LIMIT_TIME_NS },
	{ "queued_until_ns", LIMIT_TIME_NS },
	{ "expected_ns", LIMIT_TIME_NS },
	{ "guard_ns", LIMIT_DURATION_NS },
	{ "step", LIMIT_STEP },
	{ "steps", LIMIT_STEPS },
	{ "revision", REVISION_MAX },
};

static int check_numbers(const json_t *o, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const json_t *value = json_object_get(o, numbers[i].name);
		int64_t n = json_integer_value(value);

		if (value && (!json_is_integer(value) || n < 0 || n > numbers[i].max))
			return err_set(e, ERR_INVALID, "%s is no integer from 0 to %" PRId64,
				       numbers[i].name, numbers[i].max);
	}
	return 0;
}

static int check_host(const json_t *host, const char *last, struct err *e)
{
	const char *name = json_get_text(host, "host");
	int64_t t0_ns = json_get_int(host, "t0_ns");
	int rc = name_check_host(name, e);

	if (!rc && strcmp(last, name) >= 0)
		rc = err_set(e, ERR_INVALID, "host '%.64s' is not after '%.64s'", name, last);
	if (!rc && (t0_ns < 0 || t0_ns > LIMIT_TIME_NS))
		rc = err_set(e, ERR_INVALID, "t0_ns of host '%.64s' is out of range", name);
	return rc;
}

static int check_hosts(const json_t *hosts, struct err *e)
{
	json_t *last = NULL;
	int rc = 0;

	if (!json_array_size(hosts) || json_array_size(hosts) > LIMIT_HOSTS)
		return err_set(e, ERR_INVALID, "there are %zu hosts: 1 to %d are possible",
			       json_array_size(hosts), LIMIT_HOSTS);
	for (size_t i = 0; i < json_array_size(hosts) && !rc; i++) {
		json_t *host = packed_get(hosts, i);

		rc = check_host(host, json_get_text(last, "host"), e);
		json_decref(last);
		last = host;
	}
	json_decref(last);
	return rc;
}

int session_check_plan(const json_t *plan, const json_t *hosts, struct err *e)
{
	int rc = check_numbers(plan, e);

	if (!rc)
		rc = check_numbers(json_object_get(plan, "request"), e);
	if (!rc)
		rc = check_numbers(json_object_get(plan, "at_step"), e);
	return rc ? rc : check_hosts(hosts, e);
}
