/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/download.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/secret.h"
#include "cli/api.h"
#include "net/http_client.h"
#include "net/http_client_pool.h"

struct downloads {
	const struct api_conf *api;
	struct http_pool *store; /* NULL = no link is asked for */
	atomic_bool is_away; /* the store did not answer from here */
};

/* One call. */
struct part {
	const char *path;
	int fd;
	uint64_t had; /* bytes of it before the call */
	uint64_t got;
	bool is_full; /* it could not be written */
	struct err *e; /* of a piece that comes through the aggregator */
};

struct downloads *downloads_new(const struct api_conf *api, const char *store_ca, bool by_links)
{
	struct downloads *d = xcalloc(1, sizeof(*d));

	d->api = api;
	if (by_links)
		d->store = http_pool_new(store_ca && *store_ca ? store_ca : NULL);
	return d;
}

void downloads_free(struct downloads *d)
{
	if (!d)
		return;
	http_pool_free(d->store);
	free(d);
}

/* ---- the part ---- */

static int open_part(struct part *p, struct err *e)
{
	struct stat st;

	p->fd = open(p->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (p->fd < 0 || fstat(p->fd, &st))
		return err_errno(e, "%s", p->path);
	p->had = (uint64_t)st.st_size;
	return 0;
}

static int add_piece(struct part *p, const void *data, size_t len, struct err *e)
{
	int rc = file_write_all(p->fd, data, len, p->path, e);

	p->is_full = rc != 0;
	p->got += len;
	return rc;
}

/* 416 is the answer where the part has all bytes already. 200 to a range is a whole body, behind what was there. False: the
 * answer is an error. */
static bool judge_rest(const struct part *p, int status, int *rc, struct err *e)
{
	*rc = 0;
	if (p->had && status == 200 && ftruncate(p->fd, 0))
		*rc = err_errno(e, "%s", p->path);
	else if (p->had && status == 200)
		*rc = err_set(e, ERR_CLOSED, "%s: the answer did not go on where it ends", p->path);
	return status / 100 == 2 || (p->had && status == 416);
}

/* ---- from the store ---- */

static int on_stored_piece(void *arg, const void *data, size_t len, struct err *e)
{
	return add_piece(arg, data, len, e);
}

/* The length of "https://HOST:PORT" of a link: the rest of it is a secret. */
static int server_len(const char *link)
{
	const char *host = strstr(link, "://");

	return host ? (int)(host + 3 - link + (ptrdiff_t)strcspn(host + 3, "/?")) : 0;
}

/* False: the store gives no byte to this host. What breaks later is a broken connection like any other. */
static bool read_link(struct downloads *d, const char *link, struct part *p, int *rc, struct err *e)
{
	char range[40];
	const char *headers[] = { range, NULL };
	const struct http_request req = { .method = "GET",
					  .url = link,
					  .headers = p->had ? headers : NULL,
					  .fd = -1,
					  .deadline_mono_ns = INT64_MAX,
					  .piece = on_stored_piece,
					  .arg = p };
	struct buf answer = BUF_INIT;
	int status;

	snprintf(range, sizeof(range), "Range: bytes=%llu-", (unsigned long long)p->had);
	*rc = http_pool_request(d->store, &req, &status, &answer, e);
	buf_release(&answer);
	if (!*rc && judge_rest(p, status, rc, e))
		return true;
	if (!*rc)
		*rc = err_set(e, ERR_PEER, "%.*s answered %d", server_len(link), link, status);
	if (p->got && !p->is_full)
		*rc = err_set(e, ERR_CLOSED, "%.*s: the connection broke", server_len(link), link);
	return p->got || p->is_full;
}

static void note_away(struct downloads *d, const struct err *why)
{
	if (!atomic_exchange(&d->is_away, true))
		fprintf(stderr,
			"the store cannot be read from here (%s): reading through the aggregator\n",
			why->msg);
}

/* ---- through the aggregator ---- */

static int on_piece(void *arg, const void *data, size_t len)
{
	struct part *p = arg;

	return add_piece(p, data, len, p->e);
}

/* Asks the aggregator for the rest. It comes at once, or `*link` leads to it; NULL: no link is wanted. */
static int ask(const struct downloads *d, const char *path, struct part *p, char **link,
	       struct err *e)
{
	char *full = xasprintf("%s%s", path, link ? "?redirect=1" : "");
	char *url = api_url(d->api, full);
	struct http_call call = api_make_call(d->api, "GET", url);
	struct buf answer = BUF_INIT;
	char range[32], *token = NULL;
	int status, rc = api_load_token(d->api, &token, e);

	snprintf(range, sizeof(range), "%llu-", (unsigned long long)p->had);
	p->e = e;
	call.piece = on_piece;
	call.arg = p;
	call.token = token;
	call.range = p->had ? range : NULL;
	call.location = link;
	if (!rc)
		rc = api_call_leader(&call, &url, full, &status, &answer, e);
	if (!rc && !(link && *link && status / 100 == 3) && !judge_rest(p, status, &rc, e))
		rc = api_refusal(url, status, &answer, e);
	buf_release(&answer);
	secret_free(token);
	free(url);
	free(full);
	return rc;
}

int download_rest(struct downloads *d, const char *path, const char *part, struct err *e)
{
	struct part p = { .path = part };
	bool by_link = d->store && !atomic_load(&d->is_away);
	char *link = NULL;
	int rc = open_part(&p, e);

	if (!rc)
		rc = ask(d, path, &p, by_link ? &link : NULL, e);
	if (!rc && link && !read_link(d, link, &p, &rc, e)) {
		note_away(d, e);
		rc = ask(d, path, &p, NULL, e);
	}
	secret_free(link);
	if (p.fd >= 0 && close(p.fd) && !rc)
		rc = err_errno(e, "%s", part);
	return rc;
}
