/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file to import: opened, unpacked if it is compressed, read as an XSpace or converted to one, and written anew as
 * files of a session. Nothing of it is trusted; errors name the file and the place in it.
 */
#ifndef CLI_IMPORT_FILE_H
#define CLI_IMPORT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "xspace/xspace.h"

#define IMPORT_FILE_BYTES \
	((uint64_t)2000000000) /* of a file of a session: readers refuse larger ones */
#define IMPORT_UNPACKED_BYTES ((uint64_t)64 << 30) /* of a compressed file */
#define IMPORT_PARTS_MAX      64

/* One file of the session, in a nameless file of this machine. */
struct import_part {
	uint64_t offset, bytes;
	uint32_t crc32c;
};

struct import_file {
	const char *path; /* borrowed */
	char *host;
	const char *format; /* "XSpace", "PyTorch trace", "Chrome trace", "Neuron system profile" */
	int fd; /* the XSpace; -1 = not open */
	uint64_t bytes;
	int64_t modified_ns; /* the file's own */
	struct xs_clean
		*clean; /* the same without wrong bytes in its texts; NULL = not checked yet */
	struct xs_summary summary;
	bool has_time; /* it says when it was recorded */
	int64_t zero_ns; /* Unix time of a line time of 0; if has_time */
	int64_t begin_ns, end_ns; /* of its window, Unix time; if has_time */

	/* What import_file_write() makes. */
	int out; /* -1 = none */
	struct import_part parts[IMPORT_PARTS_MAX];
	size_t n_parts;
	uint64_t events;
};

/*
 * Opens the file and reads what it has of its `nth` host, from 0 on; `*n_hosts` is how many it has: a system profile of Neuron
 * may have several, any other file has one. `f` is zeroed, and released by the caller after an error, too.
 */
MUST_CHECK int import_file_open(struct import_file *f, const char *path, size_t nth,
				size_t *n_hosts, struct err *e);
void import_file_release(struct import_file *f);

/* The host's name in the session, and how many files of it came before. */
struct import_window {
	int64_t t0_ns, duration_ns;
	unsigned int n_before; /* files of this host */
};

/* Writes it as files of the session: times since T0, a plane Task Environment, the host's name. */
MUST_CHECK int import_file_write(struct import_file *f, const struct import_window *w,
				 struct err *e);

#endif
