/* SPDX-License-Identifier: Apache-2.0 */
/* One group of files becomes a session of the aggregator's store. */
#ifndef CLI_IMPORT_SESSION_H
#define CLI_IMPORT_SESSION_H

#include <jansson.h>

#include "cli/api.h"
#include "cli/import_paths.h"

/* `*manifest` is the new session's, a new reference. After an error there is no session. */
MUST_CHECK int import_session(const struct api_conf *api, const char *run,
			      const struct import_group *group, json_t **manifest, struct err *e);

#endif
