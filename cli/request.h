/* SPDX-License-Identifier: Apache-2.0 */
/* What requests of captures and snapshots have in common. Text that is not UTF-8 is refused, not dropped,
 * because that would change the request. */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include <jansson.h>

#include "base/conf.h"
#include "cli/api.h"

/* A member with the text of `flag`. */
MUST_CHECK int request_put_text(json_t *request, const char *member, const char *flag,
				const char *text, struct err *e);

/* "settings" from KEY=VALUE of --set, "tracers" from --tracer. */
MUST_CHECK int request_put_settings(json_t *request, const struct conf_list *set, struct err *e);
MUST_CHECK int request_put_tracers(json_t *request, const struct conf_list *tracers, struct err *e);

/* Posts the request. `*capture` is the answer, a new reference; if it is shared, that is printed. If the
 * selector matches no host, prints the aggregator's sentence, with --json as a document too, and returns EXIT_NO_HOST. */
MUST_CHECK int request_post(const struct api_conf *api, const char *verb, const char *path,
			    const json_t *request, json_t **capture, struct err *e);

#endif
