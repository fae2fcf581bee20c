/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading keeps the name, kind and place in the file of each collective; its groups are decoded when they are
 * asked for. Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto.
 */
#include "xspace/hlo.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/hlo_groups.h"
#include "xspace/wire.h"

#define METADATA_PLANE	 "/host:metadata"
#define METADATA_STATS	 5
#define PLANE_NAME_BYTES 64

enum { HLO_MODULE = 1 };
enum { MODULE_COMPUTATIONS = 3, MODULE_DEVICES = 15 };
enum { COMPUTATION_INSTRUCTIONS = 2 };
enum { ASSIGNMENT_REPLICAS = 1, ASSIGNMENT_PARTITIONS = 2, ASSIGNMENT_DEVICES = 3 };
enum { INSTRUCTION_NAME = 1, INSTRUCTION_OPCODE = 2 };

struct hlo_module {
	char name[HLO_NAME_BYTES];
	struct hlo_devices devices;
	bool has_devices;
};

struct hlo_op {
	size_t module;
	bool barrier;
	struct wire_field instruction;
	char name[HLO_NAME_BYTES];
};

struct hlo {
	struct wire w;
	struct hlo_module *modules;
	size_t n_modules, modules_cap;
	struct hlo_op **ops; /* sorted by name */
	size_t n_ops, ops_cap;
	size_t n_devices; /* of all modules */
	size_t work;
	struct err *e;
};

/* Kinds of collectives. An instruction of a kind with `true` waits for its whole group: it is a barrier. */
static const struct {
	const char *opcode;
	bool barrier;
} collectives[] = {
	{ "all-reduce", true },
	{ "all-gather", true },
	{ "all-to-all", true },
	{ "reduce-scatter", true },
	{ "all-reduce-start", false },
	{ "all-gather-start", false },
	{ "collective-permute", false },
	{ "collective-permute-start", false },
	{ "collective-broadcast", false },
	{ "ragged-all-to-all", false },
	{ "all-reduce-done", false },
	{ "all-gather-done", false },
	{ "collective-permute-done", false },
};

static struct wire_walk walk_of(struct hlo *h, const struct wire_field *message)
{
	return wire_walk(&h->w, message, hlo_schema);
}

/* `out` is "" if the name is too long for it. */
static int copy_text(struct hlo *h, const struct wire_field *f, char *out, size_t size)
{
	const uint8_t *p;
	int rc;

	out[0] = '\0';
	if (f->type != WIRE_LEN || f->value >= size)
		return 0;
	rc = wire_peek(&h->w, f->body, f->value, &p, h->e);
	if (rc)
		return rc;
	memcpy(out, p, (size_t)f->value);
	out[f->value] = '\0';
	return 0;
}

/* ---- what a file has ---- */

static int add_op(struct hlo *h, const struct wire_field *instruction)
{
	struct wire_walk walk = walk_of(h, instruction);
	char opcode[32] = "", name[HLO_NAME_BYTES] = "";
	struct wire_field f;
	struct hlo_op *op;
	size_t kind = 0;
	int rc;

	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		if (f.number == INSTRUCTION_OPCODE)
			rc = copy_text(h, &f, opcode, sizeof(opcode));
		else if (f.number == INSTRUCTION_NAME)
			rc = copy_text(h, &f, name, sizeof(name));
		if (rc < 0)
			return rc;
	}
	while (kind < ARRAY_SIZE(collectives) && strcmp(collectives[kind].opcode, opcode) != 0)
		kind++;
	if (rc || kind == ARRAY_SIZE(collectives) || !*name || h->n_ops == HLO_OPS_MAX)
		return rc;
	if (h->n_ops == h->ops_cap) {
		h->ops_cap = h->ops_cap ? 2 * h->ops_cap : 64;
		h->ops = xrealloc(h->ops, h->ops_cap * sizeof(struct hlo_op *));
	}
	op = xcalloc(1, sizeof(*op));
	op->module = h->n_modules - 1;
	op->barrier = collectives[kind].barrier;
	op->instruction = *instruction;
	memcpy(op->name, name, sizeof(name));
	h->ops[h->n_ops++] = op;
	return 0;
}

/* Devices are listed partition by partition. */
static int read_devices(struct hlo *h, const struct wire_field *assignment, struct hlo_module *m)
{
	struct wire_walk walk = walk_of(h, assignment);
	struct hlo_numbers all = { 0 };
	struct wire_field f;
	uint64_t replicas = 0, partitions = 0;
	int rc;

	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		replicas = f.number == ASSIGNMENT_REPLICAS ? f.value : replicas;
		partitions = f.number == ASSIGNMENT_PARTITIONS ? f.value : partitions;
		if (f.number == ASSIGNMENT_DEVICES &&
		    (rc = hlo_numbers_read(&h->w, &f, 1, &all, h->e)))
			break;
	}
	if (!rc && !all.too_many && all.n && !m->has_devices &&
	    h->n_devices + all.n <= HLO_ALL_DEVICES_MAX && replicas <= all.n &&
	    partitions <= all.n && replicas * partitions == all.n) {
		m->has_devices = true;
		h->n_devices += all.n;
		m->devices = (struct hlo_devices){ xcalloc(all.n, sizeof(*all.items)), all.n,
						   (size_t)replicas, (size_t)partitions };
		for (size_t i = 0; i < all.n; i++)
			m->devices.ids[i % replicas * partitions + i / replicas] = all.items[i];
	}
	hlo_numbers_release(&all);
	return rc;
}

/* Calls fn for each field of that number. */
static int each(struct hlo *h, const struct wire_field *message, uint32_t number,
		int (*fn)(struct hlo *h, const struct wire_field *f))
{
	struct wire_walk walk = walk_of(h, message);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		if (f.number == number && f.type == WIRE_LEN && (rc = fn(h, &f)))
			break;
	}
	return rc;
}

static int on_computation(struct hlo *h, const struct wire_field *computation)
{
	return each(h, computation, COMPUTATION_INSTRUCTIONS, add_op);
}

static int on_assignment(struct hlo *h, const struct wire_field *assignment)
{
	return read_devices(h, assignment, &h->modules[h->n_modules - 1]);
}

static int on_module(struct hlo *h, const struct wire_field *module)
{
	int rc = each(h, module, MODULE_DEVICES, on_assignment);

	return rc ? rc : each(h, module, MODULE_COMPUTATIONS, on_computation);
}

static int add_module(struct hlo *h, const char *name, const struct wire_field *proto)
{
	if (!*name || proto->type != WIRE_LEN || !proto->value || h->n_modules == HLO_MODULES_MAX)
		return 0;
	if (h->n_modules == h->modules_cap) {
		h->modules_cap = h->modules_cap ? 2 * h->modules_cap : 16;
		h->modules = xrealloc(h->modules, h->modules_cap * sizeof(*h->modules));
	}
	h->modules[h->n_modules] = (struct hlo_module){ 0 };
	memcpy(h->modules[h->n_modules++].name, name, strlen(name));
	return each(h, proto, HLO_MODULE, on_module);
}

/* A module's event metadata has its name, and its HLO in the only stat with bytes. */
static int read_metadata(struct hlo *h, const struct wire_field *metadata)
{
	struct wire_walk walk = walk_of(h, metadata);
	struct wire_field f, s, proto = { 0 };
	char name[HLO_NAME_BYTES] = "";
	int rc;

	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		struct wire_walk stat = walk_of(h, &f);

		if (f.number == METADATA_NAME && (rc = copy_text(h, &f, name, sizeof(name))))
			return rc;
		if (f.number != METADATA_STATS || f.type != WIRE_LEN)
			continue;
		while ((rc = wire_next(&stat, &s, h->e)) > 0) {
			if (s.number == XSTAT_BYTES)
				proto = s;
		}
		if (rc)
			return rc;
	}
	return rc ? rc : add_module(h, name, &proto);
}

static int on_entry(struct hlo *h, const struct wire_field *entry)
{
	return each(h, entry, ENTRY_VALUE, read_metadata);
}

static int on_plane(struct hlo *h, const struct wire_field *plane)
{
	struct wire_walk walk = walk_of(h, plane);
	char name[PLANE_NAME_BYTES] = "";
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		if (f.number == XPLANE_NAME && (rc = copy_text(h, &f, name, sizeof(name))))
			return rc;
	}
	if (rc || strncmp(name, METADATA_PLANE, strlen(METADATA_PLANE)) != 0)
		return rc;
	return each(h, plane, XPLANE_EVENT_METADATA, on_entry);
}

static int by_name(const void *a, const void *b)
{
	struct hlo_op *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

struct hlo *hlo_read(const struct xs_source *in, struct err *e)
{
	struct hlo *h = xcalloc(1, sizeof(*h));
	struct wire_field root = wire_root(in);

	h->e = e;
	wire_open(&h->w, in);
	if (each(h, &root, XSPACE_PLANES, on_plane)) {
		hlo_free(h);
		return NULL;
	}
	sort_array(h->ops, h->n_ops, sizeof(struct hlo_op *), by_name);
	return h;
}

void hlo_free(struct hlo *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n_modules; i++)
		free(h->modules[i].devices.ids);
	for (size_t i = 0; i < h->n_ops; i++)
		free(h->ops[i]);
	free(h->modules);
	free(h->ops);
	wire_close(&h->w);
	free(h);
}

/* ---- questions ---- */

static size_t first_op(const struct hlo *h, const char *name)
{
	size_t low = 0, high = h->n_ops;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(h->ops[middle]->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool has_module(struct hlo *h, const char *module)
{
	h->work += h->n_modules;
	for (size_t i = 0; i < h->n_modules; i++) {
		if (!strcmp(h->modules[i].name, module))
			return true;
	}
	return false;
}

static bool find_group(struct hlo *h, const struct hlo_op *op, int64_t device,
		       struct hlo_group *out)
{
	const struct hlo_devices *devices = &h->modules[op->module].devices;
	size_t logical = 0;

	h->work += 1 + 2 * devices->n;
	if (h->work > HLO_WORK_MAX)
		return false;
	while (logical < devices->n && devices->ids[logical] != device)
		logical++;
	return op->barrier && logical < devices->n &&
	       hlo_find_members(&h->w, &op->instruction, devices, logical, out);
}

/* Several processes of a host may have a program of the same name: the answer counts only if all give the
 * same. */
enum hlo_answer hlo_find_group(struct hlo *h, const char *module, const char *op, int64_t device,
			       struct hlo_group *out)
{
	bool is_collective = false, known = false;

	for (size_t i = first_op(h, op); i < h->n_ops && !strcmp(h->ops[i]->name, op); i++) {
		struct hlo_group group;

		if (h->work++ > HLO_WORK_MAX)
			return HLO_UNKNOWN;
		if (strcmp(h->modules[h->ops[i]->module].name, module) != 0)
			continue;
		is_collective = true;
		if (!find_group(h, h->ops[i], device, &group))
			continue;
		if (known && (out->id != group.id || out->n != group.n))
			return HLO_UNKNOWN;
		known = true;
		*out = group;
	}
	if (known)
		return HLO_BARRIER;
	if (is_collective || h->work > HLO_WORK_MAX || !has_module(h, module))
		return HLO_UNKNOWN;
	return HLO_NO_COLLECTIVE;
}
