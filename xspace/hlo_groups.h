/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes which devices exchange data in one instruction of HLO. XLA writes such groups as lists of ids, as a
 * reshaped and transposed array of all ids, or as axes of a mesh. Private to xspace/.
 */
#ifndef XSPACE_HLO_GROUPS_H
#define XSPACE_HLO_GROUPS_H

#include "xspace/hlo.h"
#include "xspace/wire.h"

/* A schema without known fields: HLO's are not those of an XSpace. */
extern const uint8_t hlo_schema[SCHEMA_FIELDS];

/* The devices of a module by logical id: replica * partitions + partition. */
struct hlo_devices {
	int64_t *ids;
	size_t n, replicas, partitions;
};

/* Sets `out` to the group of the device `logical`. False: the bytes are malformed, or their form is not
 * supported; `out` is undefined. */
bool hlo_find_members(struct wire *w, const struct wire_field *instruction,
		      const struct hlo_devices *devices, size_t logical, struct hlo_group *out);

/* Starts as zeros. */
struct hlo_numbers {
	int64_t *items;
	size_t n, cap;
	bool too_many; /* more than HLO_DEVICES_MAX; the rest is dropped */
};

/* Appends all numbers of one repeated field of a message, packed or not. */
MUST_CHECK int hlo_numbers_read(struct wire *w, const struct wire_field *message, uint32_t number,
				struct hlo_numbers *out, struct err *e);
void hlo_numbers_release(struct hlo_numbers *numbers);

#endif
