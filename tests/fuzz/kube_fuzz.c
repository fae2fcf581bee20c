/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the Kubernetes API's watch: whatever comes, pods have bounded texts. */
#include <assert.h>
#include <string.h>

#include "aggregator/pods/kube_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kube_feed f = { 0 };
	struct err e = { 0 };
	int rc = kube_feed_read_event(&f, data ? (const char *)data : "", size, &e);

	assert(rc == 0 || rc == ERR_INVALID || rc == ERR_NOT_FOUND || rc == ERR_PEER);
	assert(strlen(f.version) < sizeof(f.version));
	for (size_t i = 0; f.batch && i < f.batch->n; i++) {
		const struct pod *p = f.batch->changes[i].pod;

		assert(p->n_labels <= POD_LABELS && p->n_containers <= POD_CONTAINERS);
		assert(strlen(p->name) <= POD_TEXT_BYTES && strlen(p->job) <= POD_TEXT_BYTES);
		assert(pod_restarts(p) >= 0);
	}
	kube_batch_free(f.batch);
	return 0;
}
