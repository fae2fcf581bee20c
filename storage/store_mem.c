/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem://: an array of objects sorted by key, for tests and for fleets that keep nothing. The mutex is
 * held for look-ups and copies, never during a caller's function.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <pthread.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "storage/kinds.h"

struct object {
	char *key;
	uint8_t *data;
	struct store_stat st;
	/* one is the array's, and one each get has while it reads; under the lock */
	unsigned int refs;
};

struct store_mem {
	struct store base;
	pthread_mutex_t lock; /* guards all members below */
	struct object **objects;
	size_t n;
	size_t cap;
	uint64_t n_puts; /* puts so far, to make tags */
};

static struct store_mem *to_mem(struct store *s)
{
	assert(s->ops == &store_mem_ops);
	return (struct store_mem *)s;
}

static void object_free(struct object *o)
{
	free(o->key);
	free(o->data);
	free(o);
}

/* Lock held. NULL is fine. */
static void object_unref(struct object *o)
{
	if (o && --o->refs == 0)
		object_free(o);
}

static int mem_open(struct store **out, const char *rest, struct err *e)
{
	struct store_mem *s = xcalloc(1, sizeof(*s));

	(void)rest;
	(void)e;
	s->base.ops = &store_mem_ops;
	pthread_mutex_init(&s->lock, NULL);
	*out = &s->base;
	return 0;
}

static void mem_free(struct store *store)
{
	struct store_mem *s = to_mem(store);

	for (size_t i = 0; i < s->n; i++)
		object_unref(s->objects[i]);
	free(s->objects);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* The index of `key`, or where to insert it: the first index whose key is not less. Lock held. */
static size_t place_of(const struct store_mem *s, const char *key)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(s->objects[mid]->key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* NULL if there is no such object. Lock held. */
static struct object *find(const struct store_mem *s, const char *key)
{
	size_t i = place_of(s, key);

	return i < s->n && !strcmp(s->objects[i]->key, key) ? s->objects[i] : NULL;
}

static int no_such(struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "there is no such object");
}

static int read_body(const struct store_put *put, uint8_t *out, struct err *e)
{
	ssize_t n;

	if (put->fd < 0) {
		if (put->len > 0)
			memcpy(out, put->data, put->len);
		return 0;
	}
	n = file_read_up_to(put->fd, put->offset, out, put->len);
	if (n < 0)
		return err_errno(e, "reading the file to put");
	return (uint64_t)n == put->len ? 0 : store_put_short(put, (uint64_t)n, e);
}

static int object_new(struct object **out, const struct store_put *put, struct err *e)
{
	struct object *o = xcalloc(1, sizeof(*o));
	int rc;

	o->refs = 1;
	o->key = xstrdup(put->key);
	o->data = malloc(put->len ? put->len : 1); /* a size from outside, so it may fail */
	if (!o->data)
		rc = err_set(e, ERR_LIMIT, "no memory for %llu bytes",
			     (unsigned long long)put->len);
	else
		rc = read_body(put, o->data, e);
	o->st.size = put->len;
	o->st.modified_ns = now_real_ns();
	if (rc) {
		object_free(o);
		return rc;
	}
	*out = o;
	return 0;
}

/* Stores `*o` and sets `*o` to the object that it replaced, or NULL. Lock held. */
static void swap_in(struct store_mem *s, struct object **o)
{
	size_t i = place_of(s, (*o)->key);
	struct object *old = NULL;

	if (i < s->n && !strcmp(s->objects[i]->key, (*o)->key)) {
		old = s->objects[i];
	} else {
		if (s->n == s->cap) {
			s->cap = s->cap ? 2 * s->cap : 16;
			s->objects = xrealloc(s->objects, s->cap * sizeof(struct object *));
		}
		memmove(s->objects + i + 1, s->objects + i, (s->n - i) * sizeof(struct object *));
		s->n++;
	}
	s->objects[i] = *o;
	*o = old;
}

static int mem_put(struct store *store, const struct store_put *put, struct store_stat *out,
		   struct err *e)
{
	struct store_mem *s = to_mem(store);
	struct object *o = NULL;
	int rc = object_new(&o, put, e);

	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	if ((put->flags & STORE_ABSENT) && find(s, put->key)) {
		rc = err_set(e, ERR_EXISTS, "the key exists already");
	} else {
		snprintf(o->st.tag, sizeof(o->st.tag), "%" PRIu64, ++s->n_puts);
		*out = o->st;
		swap_in(s, &o);
	}
	object_unref(o);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* The object with a reference, or NULL. */
static struct object *object_ref(struct store_mem *s, const char *key)
{
	struct object *o;

	pthread_mutex_lock(&s->lock);
	o = find(s, key);
	if (o)
		o->refs++;
	pthread_mutex_unlock(&s->lock);
	return o;
}

static int mem_get(struct store *store, const struct store_get *get, struct store_stat *out,
		   struct err *e)
{
	struct store_mem *s = to_mem(store);
	struct object *o = object_ref(s, get->key);
	uint64_t at, end;
	int rc = 0;

	if (!o)
		return no_such(e);
	*out = o->st;
	at = get->offset < o->st.size ? get->offset : o->st.size;
	end = get->len < o->st.size - at ? at + get->len : o->st.size;
	while (!rc && at < end) {
		size_t n = end - at < STORE_CHUNK_BYTES ? end - at : STORE_CHUNK_BYTES;

		rc = get->sink(get->arg, o->data + at, n, e);
		if (!rc)
			rc = store_check_deadline(get->deadline_mono_ns, e);
		at += n;
	}
	pthread_mutex_lock(&s->lock);
	object_unref(o);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static int mem_stat(struct store *store, const char *key, int64_t deadline_mono_ns,
		    struct store_stat *out, struct err *e)
{
	struct store_mem *s = to_mem(store);
	struct object *o;

	(void)deadline_mono_ns;
	pthread_mutex_lock(&s->lock);
	o = find(s, key);
	if (o)
		*out = o->st;
	pthread_mutex_unlock(&s->lock);
	return o ? 0 : no_such(e);
}

/* Copies the first key of the listing after `after`; false if there is none. */
static bool next_listed(struct store_mem *s, const char *prefix, const char *after,
			char key[STORE_KEY_MAX + 1], struct store_stat *st)
{
	bool found;
	size_t i;

	pthread_mutex_lock(&s->lock);
	i = place_of(s, after && strcmp(after, prefix) > 0 ? after : prefix);
	if (i < s->n && after && !strcmp(s->objects[i]->key, after))
		i++;
	found = i < s->n && store_listed(s->objects[i]->key, prefix, after);
	if (found) {
		snprintf(key, STORE_KEY_MAX + 1, "%s", s->objects[i]->key);
		*st = s->objects[i]->st;
		*st->tag = '\0';
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

static int mem_list(struct store *store, const struct store_list *list, struct err *e)
{
	char keys[2][STORE_KEY_MAX + 1];
	const char *after = list->after;
	struct store_stat st;
	int i = 0, rc = 0;

	while (!rc && next_listed(to_mem(store), list->prefix, after, keys[i], &st) &&
	       list->each(list->arg, keys[i], &st)) {
		after = keys[i];
		i = !i;
		rc = store_check_deadline(list->deadline_mono_ns, e);
	}
	return rc;
}

static int mem_remove(struct store *store, const char *key, int64_t deadline_mono_ns, struct err *e)
{
	struct store_mem *s = to_mem(store);
	struct object *o;

	(void)deadline_mono_ns;
	(void)e;
	pthread_mutex_lock(&s->lock);
	o = find(s, key);
	if (o) {
		size_t i = place_of(s, key);

		s->n--;
		memmove(s->objects + i, s->objects + i + 1, (s->n - i) * sizeof(struct object *));
	}
	object_unref(o);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

const struct store_ops store_mem_ops = {
	.scheme = "mem",
	.open = mem_open,
	.put = mem_put,
	.get = mem_get,
	.stat = mem_stat,
	.list = mem_list,
	.remove = mem_remove,
	.free = mem_free,
};
