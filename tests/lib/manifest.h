/* SPDX-License-Identifier: Apache-2.0 */
/* A session's manifest with ordinary objects for its hosts; otherwise as session_load_manifest(). */
#ifndef TESTS_MANIFEST_H
#define TESTS_MANIFEST_H

#include "aggregator/sessions/sessions.h"
#include "json/packed.h"

MUST_CHECK static inline int load_manifest(struct store *s, const char *session, json_t **manifest,
					   struct err *e)
{
	int rc = session_load_manifest(s, session, manifest, e);
	const json_t *packed = json_object_get(*manifest, "hosts");
	json_t *hosts;

	if (rc)
		return rc;
	hosts = json_array();
	for (size_t i = 0; i < json_array_size(packed); i++)
		json_array_append_new(hosts, packed_get(packed, i));
	json_object_set_new(*manifest, "hosts", hosts);
	return 0;
}

#endif
