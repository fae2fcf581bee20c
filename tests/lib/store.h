/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of storage/store.h in the form that tests need: no deadline, bytes in a buf; failures end the test. */
#ifndef TESTS_LIB_STORE_H
#define TESTS_LIB_STORE_H

#include <string.h>

#include "storage/store.h"
#include "storage/store_fault.h"
#include "tests/lib/check.h"

static inline int64_t any_time(void)
{
	return STORE_NO_DEADLINE;
}

/* An empty store in memory, and one in front of it that breaks calls by store_set_rules(). */
static inline struct store *store_open_faulty(void)
{
	struct err e = { 0 };
	struct store *s;

	CHECK_OK(store_open(&s, "mem://test", &e), e);
	return store_fault_wrap(s, NULL);
}

static inline void store_set_rules(struct store *s, const char *rules)
{
	struct err e = { 0 };

	CHECK_OK(store_fault_set(s, rules, &e), e);
}

static inline void store_put_text(struct store *s, const char *key, const char *text)
{
	struct err e = { 0 };

	CHECK_OK(store_put_bytes(s, key, text, strlen(text), 0, any_time(), &e), e);
}

static inline int add_to_buf(void *arg, const void *data, size_t len, struct err *e)
{
	(void)e;
	buf_add(arg, data, len);
	return 0;
}

/* Appends a range to `out`; `size` (may be NULL) gets that of the whole object. */
static inline int get_range(struct store *s, const char *key, uint64_t offset, uint64_t len,
			    struct buf *out, uint64_t *size, struct err *e)
{
	const struct store_get get = { .key = key,
				       .offset = offset,
				       .len = len,
				       .sink = add_to_buf,
				       .arg = out,
				       .deadline_mono_ns = any_time() };
	struct store_stat st = { 0 };
	int rc = store_get(s, &get, &st, e);

	if (size && !rc)
		*size = st.size;
	return rc;
}

static inline int list_keys(struct store *s, const char *prefix, const char *after,
			    store_list_fn each, void *arg, struct err *e)
{
	return store_list(s,
			  &(struct store_list){ .prefix = prefix,
						.after = after,
						.each = each,
						.arg = arg,
						.deadline_mono_ns = any_time() },
			  e);
}

/* Puts what `put` holds under this key, with these flags. */
static inline int put_as(struct store *s, const char *key, struct store_put put, unsigned int flags,
			 struct err *e)
{
	put.key = key;
	put.flags = flags;
	put.deadline_mono_ns = any_time();
	return store_put(s, &put, NULL, e);
}

#endif
