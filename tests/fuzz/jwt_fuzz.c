/* SPDX-License-Identifier: Apache-2.0 */
/* A token in the first line, a provider's keys in the rest: whatever comes is refused, or is a token by our rules. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/access/jwt.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct jwt_rules rules = { .issuer = "https://issuer.example",
					 .audience = "tutti",
					 .client = "cli",
					 .now_s = 1800000000 };
	char *text = data ? xstrndup((const char *)data, size) : xstrdup("");
	char *keys_text = text + strcspn(text, "\n");
	json_t *keys = NULL, *claims = NULL;
	struct err e = { 0 };
	int rc;

	if (*keys_text)
		*keys_text++ = '\0';
	rc = jwt_read_keys(&keys, keys_text, strlen(keys_text), &e);
	assert(rc == 0 || rc == ERR_INVALID || rc == ERR_LIMIT);
	assert(!keys || json_array_size(json_object_get(keys, "keys")) <= JWT_KEYS_MOST);
	rc = jwt_verify(&claims, text, keys, &rules, &e);
	assert(rc == 0 || rc == ERR_NOT_FOUND || rc == ERR_DENIED);
	assert((rc == 0) == (claims != NULL));
	assert(rc == 0 || *e.msg);
	if (claims)
		assert(!strcmp(json_string_value(json_object_get(claims, "iss")), rules.issuer));
	json_decref(claims);
	json_decref(keys);
	free(text);
	return 0;
}
