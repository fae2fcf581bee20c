/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "storage/kinds.h"

static const struct store_ops *const kinds[] = {
	&store_file_ops, &store_mem_ops, &store_s3_ops,
	&store_gs_ops,	 &store_az_ops,	 &store_fault_ops,
};

static bool is_key_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("._-~()", c));
}

bool store_part_is_valid(const char *part, size_t len)
{
	if (len == 0 || len > STORE_PART_MAX)
		return false;
	if (part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.')))
		return false;
	if (!strncmp(part, STORE_TEMP_PREFIX, strlen(STORE_TEMP_PREFIX)))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_key_char(part[i]))
			return false;
	return true;
}

/* With `open_end` the text is a prefix of keys: its last part may be empty or incomplete. */
static int check_parts(const char *key, bool open_end, struct err *e)
{
	const char *part = key;

	if (strlen(key) > STORE_KEY_MAX)
		return err_set(e, ERR_INVALID, "key of %zu characters, at most %d are allowed",
			       strlen(key), STORE_KEY_MAX);
	for (;;) {
		size_t len = strcspn(part, "/");
		bool last = part[len] == '\0';

		if (last && open_end)
			return 0;
		if (!store_part_is_valid(part, len))
			return err_set(e, ERR_INVALID, "bad key \"%.100s\": part \"%.*s\"", key,
				       len > 80 ? 80 : (int)len, part);
		if (last)
			return 0;
		part += len + 1;
	}
}

int store_check_key(const char *key, struct err *e)
{
	return check_parts(key, false, e);
}

bool store_listed(const char *key, const char *prefix, const char *after)
{
	return !strncmp(key, prefix, strlen(prefix)) && (!after || strcmp(key, after) > 0);
}

static int no_such_scheme(const char *url, struct err *e)
{
	struct buf names = BUF_INIT;
	int rc;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i] != &store_fault_ops)
			buf_addf(&names, "%s%s://", i ? ", " : "", kinds[i]->scheme);
	rc = err_set(e, ERR_UNSUPPORTED, "store \"%.80s\": unknown kind; there are %s", url,
		     buf_str(&names));
	buf_release(&names);
	return rc;
}

int store_open(struct store **out, const char *url, struct err *e)
{
	const char *rest = strstr(url, "://");
	int rc;

	for (size_t i = 0; rest && i < ARRAY_SIZE(kinds); i++) {
		size_t len = (size_t)(rest - url);

		if (strlen(kinds[i]->scheme) != len || memcmp(url, kinds[i]->scheme, len))
			continue;
		rc = kinds[i]->open(out, rest + 3, e);
		if (rc)
			err_prefix(e, "store \"%.80s\"", url);
		return rc;
	}
	return no_such_scheme(url, e);
}

void store_free(struct store *s)
{
	if (s)
		s->ops->free(s);
}

void store_set_fence(struct store *s, const struct store_fence *fence)
{
	s->fence = *fence;
}

int store_check_fence(const struct store *s, struct err *e)
{
	return s->fence.check ? s->fence.check(s->fence.arg, e) : 0;
}

int64_t store_within(int64_t ns)
{
	return now_mono_ns() + ns;
}

int store_check_deadline(int64_t deadline_mono_ns, struct err *e)
{
	if (deadline_mono_ns == STORE_NO_DEADLINE || now_mono_ns() < deadline_mono_ns)
		return 0;
	return err_set(e, ERR_TIMEOUT, "the deadline has passed");
}

/* Adds to a back end's error which call failed on which key. */
static int add_context(int rc, const char *verb, const char *key, struct err *e)
{
	if (rc)
		err_prefix(e, "%s %.120s", verb, key);
	return rc;
}

static int check_call(const char *key, int64_t deadline_mono_ns, struct err *e)
{
	int rc = store_check_key(key, e);

	return rc ? rc : store_check_deadline(deadline_mono_ns, e);
}

static int check_change(const struct store *s, const char *key, int64_t deadline_mono_ns,
			struct err *e)
{
	int rc = check_call(key, deadline_mono_ns, e);

	return rc ? rc : store_check_fence(s, e);
}

int store_put(struct store *s, const struct store_put *put, struct store_stat *out, struct err *e)
{
	struct store_stat unused;
	int rc = check_change(s, put->key, put->deadline_mono_ns, e);

	assert(put->fd >= 0 || put->data || put->len == 0);
	assert(!(put->flags & ~(STORE_ABSENT | STORE_TAKE)));
	if (!rc)
		rc = s->ops->put(s, put, out ? out : &unused, e);
	return add_context(rc, "put", put->key, e);
}

int store_put_bytes(struct store *s, const char *key, const void *data, size_t len,
		    unsigned int flags, int64_t deadline_mono_ns, struct err *e)
{
	const struct store_put put = { .key = key,
				       .data = data,
				       .fd = -1,
				       .len = len,
				       .flags = flags,
				       .deadline_mono_ns = deadline_mono_ns };

	return store_put(s, &put, NULL, e);
}

int store_get(struct store *s, const struct store_get *get, struct store_stat *out, struct err *e)
{
	struct store_stat unused;
	int rc = check_call(get->key, get->deadline_mono_ns, e);

	out = out ? out : &unused;
	if (!rc)
		rc = s->ops->get(s, get, out, e);
	if (!rc && get->tag && *get->tag && strcmp(get->tag, out->tag))
		rc = err_set(e, ERR_PEER, "the object was replaced");
	return add_context(rc, "get", get->key, e);
}

struct bounded {
	struct buf *out;
	size_t left;
};

static int add_bounded(void *arg, const void *data, size_t len, struct err *e)
{
	struct bounded *b = arg;

	if (len > b->left)
		return err_set(e, ERR_LIMIT, "the object is larger than expected");
	b->left -= len;
	buf_add(b->out, data, len);
	return 0;
}

int store_get_bytes(struct store *s, const char *key, size_t max_bytes, int64_t deadline_mono_ns,
		    struct buf *out, struct err *e)
{
	struct bounded b = { out, max_bytes };
	const struct store_get get = { .key = key,
				       .len = UINT64_MAX,
				       .sink = add_bounded,
				       .arg = &b,
				       .deadline_mono_ns = deadline_mono_ns };
	size_t before = out->len;
	int rc = store_get(s, &get, NULL, e);

	if (rc)
		buf_cut(out, before);
	return rc;
}

int store_stat(struct store *s, const char *key, int64_t deadline_mono_ns, struct store_stat *out,
	       struct err *e)
{
	struct store_stat unused;
	int rc = check_call(key, deadline_mono_ns, e);

	if (!rc)
		rc = s->ops->stat(s, key, deadline_mono_ns, out ? out : &unused, e);
	return add_context(rc, "stat", key, e);
}

int store_list(struct store *s, const struct store_list *list, struct err *e)
{
	int rc = check_parts(list->prefix, true, e);

	if (!rc)
		rc = store_check_deadline(list->deadline_mono_ns, e);
	if (!rc)
		rc = s->ops->list(s, list, e);
	return add_context(rc, "list", list->prefix, e);
}

int store_remove(struct store *s, const char *key, int64_t deadline_mono_ns, struct err *e)
{
	int rc = check_change(s, key, deadline_mono_ns, e);

	if (!rc)
		rc = s->ops->remove(s, key, deadline_mono_ns, e);
	return add_context(rc, "remove", key, e);
}

int store_remove_all(struct store *s, const char *const *keys, size_t n, int64_t deadline_mono_ns,
		     struct err *e)
{
	int rc = store_check_deadline(deadline_mono_ns, e);

	for (size_t i = 0; !rc && i < n; i++)
		rc = store_check_key(keys[i], e);
	if (!rc)
		rc = store_check_fence(s, e);
	if (!rc && s->ops->remove_all)
		return add_context(s->ops->remove_all(s, keys, n, deadline_mono_ns, e), "remove",
				   n ? keys[0] : "", e);
	for (size_t i = 0; !rc && i < n; i++)
		rc = store_remove(s, keys[i], deadline_mono_ns, e);
	return rc;
}

static int write_to_fd(void *arg, const void *data, size_t len, struct err *e)
{
	return file_write_all(*(int *)arg, data, len, "the copy", e);
}

/* One get for all bytes: several gets could return parts of different versions. */
static int copy_to_fd(struct store *s, const char *key, int64_t deadline_mono_ns, int *out,
		      uint64_t *size, struct err *e)
{
	int fd = memfd_create("tutti-object", MFD_CLOEXEC), rc;
	const struct store_get get = { .key = key,
				       .len = UINT64_MAX,
				       .sink = write_to_fd,
				       .arg = &fd,
				       .deadline_mono_ns = deadline_mono_ns };
	struct store_stat st;

	if (fd < 0)
		return err_errno(e, "memfd_create");
	rc = s->ops->get(s, &get, &st, e);
	if (!rc && lseek(fd, 0, SEEK_SET) < 0)
		rc = err_errno(e, "lseek");
	if (rc) {
		close(fd);
		return rc;
	}
	*out = fd;
	*size = st.size;
	return 0;
}

int store_open_fd(struct store *s, const char *key, int64_t deadline_mono_ns, int *fd,
		  uint64_t *size, struct err *e)
{
	int rc = check_call(key, deadline_mono_ns, e);

	if (!rc)
		rc = s->ops->open_fd ? s->ops->open_fd(s, key, deadline_mono_ns, fd, size, e)
				     : copy_to_fd(s, key, deadline_mono_ns, fd, size, e);
	return add_context(rc, "open", key, e);
}

bool store_grants(const struct store *s)
{
	return s->grants;
}

int store_grant(struct store *s, const struct store_grant_request *req, struct store_grant *out,
		struct err *e)
{
	int rc = check_change(s, req->key, req->deadline_mono_ns, e);

	*out = (struct store_grant){ 0 };
	if (!rc && !s->grants)
		rc = err_set(e, ERR_UNSUPPORTED, "this store makes no grants");
	if (!rc)
		rc = s->ops->grant(s, req, out, e);
	if (rc)
		store_grant_release(out);
	return add_context(rc, "grant", req->key, e);
}

bool store_revokes(const struct store *s)
{
	return s->revokes;
}

int store_revoke(struct store *s, const char *url, int64_t deadline_mono_ns, struct err *e)
{
	int rc = store_check_deadline(deadline_mono_ns, e);

	if (!rc && !s->revokes)
		rc = err_set(e, ERR_UNSUPPORTED, "grants of this store end by themselves");
	if (!rc)
		rc = s->ops->revoke(s, url, deadline_mono_ns, e);
	return rc ? err_prefix(e, "revoke a grant") : 0;
}

bool store_links(const struct store *s)
{
	return s->links;
}

int store_link(struct store *s, const char *key, int64_t life_ns, char **url, int64_t *until_s,
	       struct err *e)
{
	int rc = store_check_key(key, e);

	*url = NULL;
	if (!rc && !s->links)
		rc = err_set(e, ERR_UNSUPPORTED, "this store makes no links");
	if (!rc && (life_ns <= 0 || life_ns > STORE_LINK_MAX_NS))
		rc = err_set(e, ERR_LIMIT, "a link is good for more than 0 s and at most 7 days");
	if (!rc)
		rc = s->ops->link(s, key, life_ns, url, until_s, e);
	return add_context(rc, "link", key, e);
}

void store_free_link(char *url)
{
	if (url)
		explicit_bzero(url, strlen(url));
	free(url);
}

/* Overwrites what it frees: both hold a signature, or a session's secret. */
void store_grant_release(struct store_grant *g)
{
	if (g->url)
		explicit_bzero(g->url, strlen(g->url));
	free(g->url);
	for (size_t i = 0; i < ARRAY_SIZE(g->headers) && g->headers[i]; i++) {
		explicit_bzero(g->headers[i], strlen(g->headers[i]));
		free(g->headers[i]);
	}
	*g = (struct store_grant){ 0 };
}

const char *store_directory(const struct store *s)
{
	return s->directory;
}
