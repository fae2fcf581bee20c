/* SPDX-License-Identifier: Apache-2.0 */
/* What token services answer, delegated keys, and files of service accounts: what is taken is bounded, and no error has a word of the key. */
#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "storage/az_grant.h"
#include "storage/gs_keys.h"
#include "storage/keys_service.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_answer(int status, const uint8_t *data, size_t size)
{
	struct cloud_keys *keys = calloc(1, sizeof(*keys));
	struct buf answer = BUF_INIT;
	struct err e = { 0 };
	int rc;

	assert(keys);
	buf_add(&answer, data, size);
	rc = service_take_bearer(keys, "the token service", status, &answer, &e);
	assert(!rc == !e.code);
	assert(!strpbrk(e.msg, "\n\033"));
	assert(rc || (*keys->token && keys->kind == KEYS_BEARER && keys->end_s > 0));
	assert(strlen(keys->token) <= KEYS_TOKEN_MAX);
	buf_release(&answer);
	free(keys);
}

static void try_account(const uint8_t *data, size_t size)
{
	struct buf form = BUF_INIT;
	struct err e = { 0 };
	int rc = gs_service_account_form(data, size, 1700000000, &form, &e);

	assert(!rc == !e.code && !rc == !!form.len);
	buf_release(&form);
}

static void try_delegation(const uint8_t *data, size_t size)
{
	struct cloud_keys *keys = calloc(1, sizeof(*keys));
	struct err e = { 0 };
	int rc;

	assert(keys);
	rc = az_delegation_read(keys, data, size, &e);
	assert(!rc == !e.code);
	assert(rc || (*keys->secret && *keys->token && keys->end_s >= 0));
	free(keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_delegation(data, size);
	try_answer(200, data, size);
	try_answer(400, data, size);
	try_account(data, size);
	return 0;
}
