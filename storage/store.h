/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Object stores behind one table: keys to bytes, whole objects only.
 *
 * A key is parts of [A-Za-z0-9._~()-] joined by '/', at most STORE_KEY_MAX characters in all and
 * STORE_PART_MAX in a part; no part is ".", ".." or starts with ".tmp-" (file:// writes there).
 * Parentheses are for XProf, whose caches beside the sessions' files have names like
 * "jit_f(12).hlo_proto.pb". store_*() checks the key before it calls the back end. No key may be the
 * folder of another ("a" beside "a/b"): file:// refuses the second with ERR_INVALID. It also refuses to read a
 * folder or any other file that is no object; the other back ends say ERR_NOT_FOUND then.
 *
 * Conditional puts: the only condition is "create, never replace" (STORE_ABSENT), which every real store
 * supports. There is no "replace only the version with this tag", because some stores get it wrong (Ceph 16
 * refuses the right tag).
 *
 * Every call has a deadline on CLOCK_MONOTONIC. After it the call soon ends with ERR_TIMEOUT; the operation
 * may have taken place or not. file:// cannot interrupt a system call that hangs in the kernel.
 *
 * A put that fails with anything but ERR_EXISTS may still have stored the object, since an answer can be
 * lost. Repeat such a put. With STORE_ABSENT the repeated put then gets ERR_EXISTS: compare the stored object
 * with your own.
 *
 * Calls block; on a daemon's loop they belong into loop_work(). One store may be used from several threads at
 * once.
 *
 * To add a back end: write store_<kind>.c with a struct whose first member is `struct store`, one const
 * table, one open function; add it to the list in store.c and run the conformance suite
 * (tests/conform/store_conform.c) with its URL.
 */
#ifndef STORAGE_STORE_H
#define STORAGE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define STORE_KEY_MAX  1024
#define STORE_PART_MAX 255
#define STORE_TAG_MAX  95

#define STORE_NO_DEADLINE INT64_MAX

struct http_pool;
struct store;

struct store_stat {
	uint64_t size;
	int64_t modified_ns; /* Unix time */
	/* opaque; changes when a put changes the bytes; empty in a listing */
	char tag[STORE_TAG_MAX + 1];
	bool has_crc32c; /* store_stat() of an object that was put by a grant */
	uint32_t crc32c; /* of its bytes, as the grant has it */
};

#define STORE_ABSENT 1u /* fail with ERR_EXISTS if the key is there */

/* nothing writes to the body's file any more: the store may use the file itself as the object, without a copy */
#define STORE_TAKE 2u

/*
 * What to put: bytes in memory (fd = -1), or `len` bytes of the regular file `fd` from `offset` on
 * (its position is neither used nor moved). Stays the caller's.
 */
struct store_put {
	const char *key;
	const void *data;
	int fd;
	uint64_t offset;
	uint64_t len;
	unsigned int flags;
	int64_t deadline_mono_ns;
};

/*
 * A permission to put one object once, for a program that has no keys: one request with this method, URL and
 * headers, and a body of exactly the bytes of the grant. The store refuses another key or size, a key that is
 * there already, and anything after the end of its life. The URL is a secret: log no URL.
 */
#define STORE_GRANT_HEADERS 6
struct store_grant {
	const char *method; /* static */
	char *url;
	char *headers[STORE_GRANT_HEADERS]; /* "name: value"; NULL ends them if there are fewer */
	int64_t life_ns; /* from when it was made: the request must begin before the end */
};

struct store_grant_request {
	const char *key;
	uint64_t len;
	uint32_t crc32c; /* of the bytes; kept with the object (struct store_stat) */
	int64_t life_ns; /* rounded up to whole seconds */
	/* Nothing was put under the key, as far as the caller knows: a store whose refusal of a put does not tell that the key
	 * is there need not look before. If it is there in spite of that, the put is refused all the same. */
	bool is_new;
	int64_t deadline_mono_ns;
};

/* Takes the next bytes of an object; a negative code ends the get with that code and error. */
typedef int (*store_sink_fn)(void *arg, const void *data, size_t len, struct err *e);

/*
 * Gets bytes [offset, offset + len) of one version of an object, in order; fewer if the object ends before.
 * The sink gets at most STORE_CHUNK_BYTES in one call. If the get fails, the sink may have had some of the
 * bytes.
 */
#define STORE_CHUNK_BYTES ((size_t)1 << 20)
struct store_get {
	const char *key;
	uint64_t offset;
	uint64_t len;
	const char *tag; /* only the version with this tag, else ERR_PEER; NULL or "" = any */
	store_sink_fn sink;
	void *arg;
	int64_t deadline_mono_ns;
};

/* One listed object; return false to stop. */
typedef bool (*store_list_fn)(void *arg, const char *key, const struct store_stat *st);

/* The keys that start with `prefix` ("" for all) and are greater than `after` (may be NULL). */
struct store_list {
	const char *prefix;
	const char *after;
	store_list_fn each;
	void *arg;
	int64_t deadline_mono_ns;
};

struct store_ops {
	const char *scheme; /* "file", "mem", "s3" */

	/* Opens `rest` of "scheme://rest"; `*out` is a struct whose first member is the store. */
	int (*open)(struct store **out, const char *rest, struct err *e);

	/* Writes the whole object; readers see the old bytes or the new, never a mix, and after
	 * success it survives a crash (where the back end has something that survives). `*out` is
	 * the new object's. */
	int (*put)(struct store *s, const struct store_put *put, struct store_stat *out,
		   struct err *e);

	/* `*out` is that of the version whose bytes the sink got. */
	int (*get)(struct store *s, const struct store_get *get, struct store_stat *out,
		   struct err *e);

	/* Reads no byte of the object. */
	int (*stat)(struct store *s, const char *key, int64_t deadline_mono_ns,
		    struct store_stat *out, struct err *e);

	/* In byte order of the whole key. No lock is held: `each` may call any store function. What
	 * is put or removed meanwhile may or may not be seen. */
	int (*list)(struct store *s, const struct store_list *list, struct err *e);

	/* Succeeds also without such an object. Removes folders that become empty, because XProf shows any
	 * folder below plugins/profile as a session. */
	int (*remove)(struct store *s, const char *key, int64_t deadline_mono_ns, struct err *e);

	/* Optional (NULL): removes many objects in fewer requests than one each. */
	int (*remove_all)(struct store *s, const char *const *keys, size_t n,
			  int64_t deadline_mono_ns, struct err *e);

	/* Optional (NULL): a readable fd of the object, for sendfile and mmap. */
	int (*open_fd)(struct store *s, const char *key, int64_t deadline_mono_ns, int *fd,
		       uint64_t *size, struct err *e);

	/* Optional (NULL): makes a grant. `out` is zeroed, and released by the caller after a failure, too. */
	int (*grant)(struct store *s, const struct store_grant_request *req,
		     struct store_grant *out, struct err *e);

	/* Optional (NULL: grants end by their life alone): ends a grant before it is used. Succeeds also where it was
	 * used or has ended. */
	int (*revoke)(struct store *s, const char *url, int64_t deadline_mono_ns, struct err *e);

	/* Optional (NULL): makes a link. The caller wipes and frees `*url`. */
	int (*link)(struct store *s, const char *key, int64_t life_ns, char **url, int64_t *until_s,
		    struct err *e);

	/* Frees `s`; no call may be in progress. */
	void (*free)(struct store *s);
};

/* Asked before each put, removal and grant, on the caller's thread: an error ends the call. For a process that may have to
 * change nothing any more, such as a leader that was frozen. */
struct store_fence {
	int (*check)(void *arg, struct err *e); /* NULL: nothing is asked */
	void *arg;
};

struct store {
	const struct store_ops *ops;
	struct store_fence fence;
	/* where objects are files, no '/' at the end; NULL if they are not files */
	const char *directory;
	bool grants; /* it makes grants */
	bool revokes; /* it keeps grants open beyond their life, until they are used or revoked */
	struct http_pool *http; /* reaches its server; NULL where there is none */
	bool links; /* it makes links */
};

/*
 * "file:///var/lib/tutti" (an absolute directory, made if missing; leftovers of crashed puts are
 * removed), "mem://name" (a new, empty store; the name is a label), "s3://bucket/prefix?endpoint=...",
 * "gs://bucket/prefix", "az://account/container/prefix" (docs/storage.md; these ask no server yet), "fault://..." (for tests:
 * storage/store_fault.h). The caller frees it with store_free(). ERR_UNSUPPORTED names the schemes.
 */
MUST_CHECK int store_open(struct store **out, const char *url, struct err *e);
void store_free(struct store *s); /* NULL is fine */

/* Before the first call from another thread. */
void store_set_fence(struct store *s, const struct store_fence *fence);

/* For back ends: once more right before the step that readers see, where a put takes long before it. */
MUST_CHECK int store_check_fence(const struct store *s, struct err *e);

/* Each checks the key, then calls the table's member of the same name. `out` may be NULL. Errors name the
 * call and the key. */
MUST_CHECK int store_put(struct store *s, const struct store_put *put, struct store_stat *out,
			 struct err *e);
MUST_CHECK int store_get(struct store *s, const struct store_get *get, struct store_stat *out,
			 struct err *e);
MUST_CHECK int store_stat(struct store *s, const char *key, int64_t deadline_mono_ns,
			  struct store_stat *out, struct err *e);
MUST_CHECK int store_list(struct store *s, const struct store_list *list, struct err *e);
MUST_CHECK int store_remove(struct store *s, const char *key, int64_t deadline_mono_ns,
			    struct err *e);

/* As store_remove() for each key, in as few requests as the store takes. After an error some are left. */
MUST_CHECK int store_remove_all(struct store *s, const char *const *keys, size_t n,
				int64_t deadline_mono_ns, struct err *e);

/*
 * A readable fd of one version of the object (close() it); a later put or remove does not change
 * what it reads. Back ends without open_fd give a copy in an unnamed file.
 */
MUST_CHECK int store_open_fd(struct store *s, const char *key, int64_t deadline_mono_ns, int *fd,
			     uint64_t *size, struct err *e);

/* ---- grants ---- */

bool store_grants(const struct store *s);

/* ERR_UNSUPPORTED if the store makes none; ERR_EXISTS if the key is there, where the store tells that already now; ERR_LIMIT if an object of one request cannot be so large. The caller
 * releases `out` with store_grant_release(). */
MUST_CHECK int store_grant(struct store *s, const struct store_grant_request *req,
			   struct store_grant *out, struct err *e);
void store_grant_release(struct store_grant *g);

/* Whether grants stay open beyond their life: who makes one ends it, unless it was used. */
bool store_revokes(const struct store *s);

/* Ends the grant with this URL; one that was used or has ended already is no error, and its object stays.
 * ERR_UNSUPPORTED if grants of this store end by themselves. */
MUST_CHECK int store_revoke(struct store *s, const char *url, int64_t deadline_mono_ns,
			    struct err *e);

/* ---- links ---- */

/*
 * A URL that lets whoever has it read this object, with any range, until `life_ns` from now, and nothing else; rounded up to whole
 * seconds. A link that is made with keys that end sooner ends with them: `*until_s` is the Unix time of its end. It is a secret: log no link. ERR_UNSUPPORTED if the store makes
 * none; ERR_LIMIT beyond STORE_LINK_MAX_NS. Whether there is such an object is not looked at. The caller frees it with store_free_link().
 */
#define STORE_LINK_MAX_NS (7 * 24 * 3600 * INT64_C(1000000000))
bool store_links(const struct store *s);
MUST_CHECK int store_link(struct store *s, const char *key, int64_t life_ns, char **url,
			  int64_t *until_s, struct err *e);
void store_free_link(char *url); /* overwrites it; NULL is fine */

/* ---- small documents ---- */

MUST_CHECK int store_put_bytes(struct store *s, const char *key, const void *data, size_t len,
			       unsigned int flags, int64_t deadline_mono_ns, struct err *e);

/* Appends the whole object to `out`; ERR_LIMIT beyond max_bytes. After a failure `out` is as before. */
MUST_CHECK int store_get_bytes(struct store *s, const char *key, size_t max_bytes,
			       int64_t deadline_mono_ns, struct buf *out, struct err *e);

/* The deadline that is `ns` from now, for the calls above. */
int64_t store_within(int64_t ns);

/* How long callers without a deadline of their own wait: for documents, and for whole files. */
#define STORE_PATIENCE_NS      INT64_C(60000000000)
#define STORE_FILE_PATIENCE_NS INT64_C(600000000000)

/* The directory behind a file:// store, or NULL; to show people where their files are. */
const char *store_directory(const struct store *s);

/* The rule for keys at the top; ERR_INVALID names the wrong part. */
MUST_CHECK int store_check_key(const char *key, struct err *e);

#endif
