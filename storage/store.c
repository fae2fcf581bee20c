/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/store.h"

#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "storage/kinds.h"

static const struct store_ops *const kinds[] = {
	&store_file_ops,
	&store_mem_ops,
};

static bool key_char_ok(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("._-~()", c));
}

bool store_part_ok(const char *part, size_t len)
{
	if (len == 0 || len > STORE_PART_MAX)
		return false;
	if (part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.')))
		return false;
	if (!strncmp(part, STORE_TEMP_PREFIX, strlen(STORE_TEMP_PREFIX)))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!key_char_ok(part[i]))
			return false;
	return true;
}

/* `open_end`: the last part may be empty or anything a good part starts with. */
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
		if (!store_part_ok(part, len))
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

int store_claim(struct store *s, struct err *e)
{
	return s->ops->claim ? s->ops->claim(s, e) : 0;
}

/* `rc` is what the back end said; adds which call on what it was about. */
static int told(int rc, const char *verb, const char *key, struct err *e)
{
	if (rc)
		err_prefix(e, "%s %.120s", verb, key);
	return rc;
}

int store_put(struct store *s, const char *key, const struct store_body *body, unsigned int flags,
	      struct err *e)
{
	int rc = store_check_key(key, e);

	assert(body->fd >= 0 || body->data || body->len == 0);
	assert(!(flags & ~(STORE_CREATE | STORE_TAKE)));
	if (rc)
		return rc;
	return told(s->ops->put(s, key, body, flags, e), "put", key, e);
}

int store_put_bytes(struct store *s, const char *key, const void *data, size_t len,
		    unsigned int flags, struct err *e)
{
	const struct store_body body = { .data = data, .fd = -1, .len = len };

	return store_put(s, key, &body, flags, e);
}

int store_get(struct store *s, const char *key, uint64_t offset, uint64_t len, struct buf *out,
	      uint64_t *size, struct err *e)
{
	uint64_t whole = 0;
	int rc = store_check_key(key, e);

	if (rc)
		return rc;
	return told(s->ops->get(s, key, offset, len, out, size ? size : &whole, e), "get", key, e);
}

int store_list(struct store *s, const char *prefix, const char *after, store_list_fn fn, void *arg,
	       struct err *e)
{
	int rc = check_parts(prefix, true, e);

	if (rc)
		return rc;
	return told(s->ops->list(s, prefix, after, fn, arg, e), "list", prefix, e);
}

int store_remove(struct store *s, const char *key, struct err *e)
{
	int rc = store_check_key(key, e);

	if (rc)
		return rc;
	return told(s->ops->remove(s, key, e), "remove", key, e);
}

/* One get, not several: only that is sure to be one version of the object. */
static int copy_to_fd(struct store *s, const char *key, int *out, uint64_t *size, struct err *e)
{
	struct buf bytes = BUF_INIT;
	int fd = -1;
	int rc = s->ops->get(s, key, 0, UINT64_MAX, &bytes, size, e);

	if (rc)
		goto out;
	fd = memfd_create("tutti-object", MFD_CLOEXEC);
	if (fd < 0) {
		rc = err_errno(e, "memfd_create");
		goto out;
	}
	rc = file_write_all(fd, bytes.data, bytes.len, "the object", e);
	if (rc)
		goto out;
	if (lseek(fd, 0, SEEK_SET) < 0) {
		rc = err_errno(e, "lseek");
		goto out;
	}
	*out = fd;
	fd = -1;
out:
	if (fd >= 0)
		close(fd);
	buf_release(&bytes);
	return rc;
}

int store_open_fd(struct store *s, const char *key, int *fd, uint64_t *size, struct err *e)
{
	int rc = store_check_key(key, e);

	if (rc)
		return rc;
	rc = s->ops->open_fd ? s->ops->open_fd(s, key, fd, size, e)
			     : copy_to_fd(s, key, fd, size, e);
	return told(rc, "open", key, e);
}

const char *store_directory(const struct store *s)
{
	return s->directory;
}
