/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings that a stored file is given before its session is committed. Blocks: for workers. */
#ifndef AGGREGATOR_EVIDENCE_NOTES_H
#define AGGREGATOR_EVIDENCE_NOTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct store;

/* All warnings of a file together are shorter. */
#define NOTES_MAX_BYTES (1 << 20)

struct notes_file {
	struct store *store;
	const char *key;
	const char *spool; /* folder in which the file is made anew */
	/* called right before the file is replaced: an error keeps it as it is; or NULL */
	int (*may_replace)(void *arg, struct err *e);
	void *arg;
};

/*
 * Puts the warnings (n texts, 0 is fine) behind the XSpace under the key: an XSpace at the end of another one adds its
 * warnings. Those that an earlier call left there go; a file that has exactly these stays as it is. `*size` is the size
 * without any warnings. It becomes the real size, also after a failure; 0 if that is unknown because it is not certain
 * whether a put took place. `*crc32c`, if there is one, is that of the file without warnings, and becomes that of the
 * file.
 */
MUST_CHECK int notes_put(const struct notes_file *f, char *const *texts, size_t n, uint64_t *size,
			 uint32_t *crc32c, struct err *e);

#endif
