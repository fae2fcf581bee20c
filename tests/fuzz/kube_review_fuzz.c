/* SPDX-License-Identifier: Apache-2.0 */
/* What a Kubernetes cluster says of a token: whatever comes, a person has a name that can be shown. */
#include <assert.h>
#include <string.h>

#include "aggregator/access/kube_review.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *person = NULL;
	struct err e = { 0 };
	int rc = kube_read_person(&person, "tutti", data ? (const char *)data : "", size, &e);

	assert(rc == 0 || rc == ERR_DENIED || rc == ERR_PEER);
	assert((rc == 0) == (person != NULL));
	assert(rc == 0 || *e.msg);
	if (person) {
		const char *name = json_string_value(json_object_get(person, "user"));

		assert(*name && strlen(name) < PRINCIPAL_NAME_BYTES && !strpbrk(name, "\n\x1b"));
	}
	json_decref(person);
	return 0;
}
