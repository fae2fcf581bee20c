/* SPDX-License-Identifier: Apache-2.0 */
/* Where a log line comes from, by the path of its file. Pure; names are cleaned. */
#ifndef AGENT_TRACER_LOGS_ORIGIN_H
#define AGENT_TRACER_LOGS_ORIGIN_H

#define ORIGIN_NAME_BYTES 256

struct log_origin {
	const char *kind; /* "container", "file", "journal"; constant */
	char name
		[ORIGIN_NAME_BYTES]; /* of its line in the plane: "POD/CONTAINER", a unit, a path */
	/* "" = unknown, or none */
	char namespace[64], pod[ORIGIN_NAME_BYTES], container[64];
};

/*
 *   .../pods/NAMESPACE_POD_UID/CONTAINER/0.log
 *   .../containers/POD_NAMESPACE_CONTAINER-ID.log
 *   .../containers/ID/ID-json.log               Docker's: the container is the first 12 digits of ID
 * and any other path is a file.
 */
void origin_of_path(const char *path, struct log_origin *out);

#endif
