/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells which devices take part in a collective operation. Reads the HLO that XLA puts into a profile: the
 * stat "Hlo Proto" of event metadata in the planes "/host:metadata". Private to xspace/.
 */
#ifndef XSPACE_HLO_H
#define XSPACE_HLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "xspace/xspace.h"

/* Limits; groups of operations beyond them are unknown. */
#define HLO_OPS_MAX	    16384 /* collectives of one file */
#define HLO_MODULES_MAX	    4096
#define HLO_DEVICES_MAX	    65536 /* of one module */
#define HLO_ALL_DEVICES_MAX (8 * HLO_DEVICES_MAX) /* of all modules */
#define HLO_NAME_BYTES	    192 /* of a module or an operation */
/* how many devices all calls of hlo_find_group() together may look at */
#define HLO_WORK_MAX (1 << 26)

struct hlo;

/* NULL: the file is malformed. The source must outlive the result. */
struct hlo *hlo_read(const struct xs_source *in, struct err *e);
void hlo_free(struct hlo *h); /* NULL is fine */

/* The devices that one device exchanges data with in an operation, itself included. */
struct hlo_group {
	uint64_t id; /* the same for the same devices */
	size_t n; /* devices */
};

enum hlo_answer {
	HLO_NO_COLLECTIVE, /* the module is known, and the operation is another kind */
	/* there is no HLO, its groups cannot be read, or the operation is no barrier (a permute, for example) */
	HLO_UNKNOWN,
	HLO_BARRIER, /* no device of the group gets its result before all have arrived */
};

/* `module` is XLA's name of a compiled program: "jit_step(7)". Sets `out` for HLO_BARRIER. */
enum hlo_answer hlo_find_group(struct hlo *h, const char *module, const char *op, int64_t device,
			       struct hlo_group *out);

#endif
