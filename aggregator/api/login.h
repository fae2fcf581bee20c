/* SPDX-License-Identifier: Apache-2.0 */
/* The cookies of browsers that have signed in. Loop thread. */
#ifndef AGGREGATOR_API_LOGIN_H
#define AGGREGATOR_API_LOGIN_H

#define LOGIN_COOKIE_BYTES 20
#define LOGIN_CSRF_HEADER  "X-Tutti-CSRF" /* a change by cookie must have it */

struct api;
struct http_req;

/* The name of this aggregator's cookie. */
void login_name_cookie(const char *link_key, char out[LOGIN_COOKIE_BYTES]);

/* The token that the caller's browser has signed in with, and what its changes must send; borrowed until the next call.
 * NULL: it has not. */
const char *login_token(const struct api *api, const struct http_req *req, const char **csrf);

#endif
