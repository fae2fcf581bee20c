/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with files of sessions; private to this folder. */
#ifndef AGGREGATOR_API_FILES_H
#define AGGREGATOR_API_FILES_H

#include <stdbool.h>

struct api;
struct http_req;

/* Answers with the file of a session; `id` is the id of one. With `wants_link`, and where the store makes links, with a redirection to
 * the store. */
void api_file_begin(struct api *api, struct http_req *req, const char *id, const char *name,
		    bool wants_link);

#endif
