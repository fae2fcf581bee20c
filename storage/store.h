/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Object stores behind one table: keys to bytes, whole objects only.
 *
 * A key is parts of [A-Za-z0-9._~()-] joined by '/', at most STORE_KEY_MAX characters in all and
 * STORE_PART_MAX in a part; no part is ".", ".." or starts with ".tmp-" (file:// writes there).
 * Parentheses are for XProf, whose caches beside our files are called "jit_f(12).hlo_proto.pb".
 * store_*() checks the key before the back end sees it. No key may be the folder of another ("a"
 * beside "a/b"): file:// refuses the second with ERR_INVALID.
 *
 * Calls block; on a daemon's loop they belong into loop_work(). One store may be used from several
 * threads at once; mem:// holds the folder's only mutex for that, file:// leaves it to the kernel.
 *
 * To add a back end: write store_<kind>.c with a struct whose first member is `struct store`, one
 * const table, one open function; add it to the list in store.c and run the conformance suite
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

struct store;

/*
 * What to put: bytes in memory (fd = -1), or `len` bytes of the regular file `fd` from `offset` on
 * (its position is neither used nor moved). Stays the caller's.
 */
struct store_body {
	const void *data;
	int fd;
	uint64_t offset;
	uint64_t len;
};

#define STORE_CREATE 1u /* put: fail with ERR_EXISTS if the key is there */

/* put: nobody writes to the body's file any more, it may become the object itself: saves a copy */
#define STORE_TAKE 2u

struct store_stat {
	uint64_t size;
	int64_t modified_ns; /* Unix time */
};

/* One listed object; return false to stop. */
typedef bool (*store_list_fn)(void *arg, const char *key, const struct store_stat *st);

struct store_ops {
	const char *scheme; /* "file", "mem" */

	/* Opens `rest` of "scheme://rest"; `*out` is a struct whose first member is the store. */
	int (*open)(struct store **out, const char *rest, struct err *e);

	/* Writes the whole object; readers see the old bytes or the new, never a mix, and after
	 * success it survives a crash (where the back end has something that survives). */
	int (*put)(struct store *s, const char *key, const struct store_body *body,
		   unsigned int flags, struct err *e);

	/* Appends bytes [offset, offset + len) to `out`, fewer if the object ends before (none if it
	 * ends before `offset`); `*size` gets the object's whole size. All bytes are of one version
	 * of the object. After a failure `out` is as it was. */
	int (*get)(struct store *s, const char *key, uint64_t offset, uint64_t len, struct buf *out,
		   uint64_t *size, struct err *e);

	/* Calls fn for each key that starts with `prefix` ("" for all), in byte order of the whole
	 * key, only those greater than `after` (may be NULL). No lock is held: fn may call any
	 * store function. What is put or removed meanwhile may or may not be seen. */
	int (*list)(struct store *s, const char *prefix, const char *after, store_list_fn fn,
		    void *arg, struct err *e);

	/* Removing what is not there is success. Folders left empty go too: XProf shows any folder
	 * below plugins/profile as a session. */
	int (*remove)(struct store *s, const char *key, struct err *e);

	/* Optional (NULL): a readable fd of the object, for sendfile and mmap. */
	int (*open_fd)(struct store *s, const char *key, int *fd, uint64_t *size, struct err *e);

	/* Optional (NULL): nobody else can have it. */
	int (*claim)(struct store *s, struct err *e);

	/* Frees `s`; no call is under way. */
	void (*free)(struct store *s);
};

struct store {
	const struct store_ops *ops;
	const char *directory; /* where objects lie as files, no '/' at the end; NULL if nowhere */
};

/*
 * "file:///var/lib/tutti" (an absolute directory, made if missing; leftovers of crashed puts are
 * removed), "mem://name" (a new, empty store; the name is a label). Yours: store_free().
 * ERR_UNSUPPORTED names the schemes there are.
 */
MUST_CHECK int store_open(struct store **out, const char *url, struct err *e);
void store_free(struct store *s); /* NULL is fine */

/*
 * Has the store for this process alone until store_free(), among those that ask: ERR_BUSY if another
 * has it. Also 0 where the file system knows no locks.
 */
MUST_CHECK int store_claim(struct store *s, struct err *e);

/* The checked calls; each as its table member says. Errors name the call and the key. */
MUST_CHECK int store_put(struct store *s, const char *key, const struct store_body *body,
			 unsigned int flags, struct err *e);
MUST_CHECK int store_put_bytes(struct store *s, const char *key, const void *data, size_t len,
			       unsigned int flags, struct err *e);
/* `size` may be NULL. Bound `len` by what you can hold: `out` takes it in memory. */
MUST_CHECK int store_get(struct store *s, const char *key, uint64_t offset, uint64_t len,
			 struct buf *out, uint64_t *size, struct err *e);
MUST_CHECK int store_list(struct store *s, const char *prefix, const char *after, store_list_fn fn,
			  void *arg, struct err *e);
MUST_CHECK int store_remove(struct store *s, const char *key, struct err *e);

/*
 * A readable fd of one version of the object (close() it); a later put or remove does not change
 * what it reads. Back ends without open_fd give a copy in memory.
 */
MUST_CHECK int store_open_fd(struct store *s, const char *key, int *fd, uint64_t *size,
			     struct err *e);

/* The directory behind a file:// store, or NULL; for telling people where their files are. */
const char *store_directory(const struct store *s);

/* The rule at the top; ERR_INVALID names the part that breaks it. */
MUST_CHECK int store_check_key(const char *key, struct err *e);

#endif
