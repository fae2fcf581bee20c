/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading keeps the name, kind and place in the file of each collective; its groups are decoded when they are
 * asked for. Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto.
 */
#include "xspace/hlo.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/wire.h"

#define METADATA_PLANE	 "/host:metadata"
#define METADATA_STATS	 5
#define AXES_MAX	 16
#define STAT_NAMES_MAX	 64
#define PLANE_NAME_BYTES 64

enum { HLO_MODULE = 1 };
enum { MODULE_COMPUTATIONS = 3, MODULE_DEVICES = 15 };
enum { COMPUTATION_INSTRUCTIONS = 2 };
enum { ASSIGNMENT_REPLICAS = 1, ASSIGNMENT_PARTITIONS = 2, ASSIGNMENT_DEVICES = 3 };
enum {
	INSTRUCTION_NAME = 1,
	INSTRUCTION_OPCODE = 2,
	INSTRUCTION_CHANNEL = 26,
	INSTRUCTION_GROUPS = 49,
	INSTRUCTION_GLOBAL_IDS = 71,
	INSTRUCTION_DEVICE_LIST = 87,
	INSTRUCTION_IOTA_LIST = 92,
	INSTRUCTION_MESH_LIST = 93,
};
enum { LIST_GROUPS = 1, LIST_IOTA = 2 };
enum { IOTA_GROUPS = 1, IOTA_DEVICES = 2, IOTA_DIMS = 3, IOTA_PERM = 4 };
enum { MESH_LIST_MESH = 1, MESH_LIST_AXES = 2 };
enum { MESH_AXES = 1, AXIS_SIZE = 2, AXIS_REF_INDEX = 1 };

/* A schema without known fields: HLO's are not those of an XSpace. */
static const uint8_t any_schema[SCHEMA_FIELDS];

struct hlo_module {
	char name[HLO_NAME_BYTES];
	int64_t *devices; /* by logical id: replica * partitions + partition */
	size_t n, replicas, partitions;
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
	return wire_walk(&h->w, message, any_schema);
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

/* ---- numbers ---- */

struct numbers {
	int64_t *items;
	size_t n, cap;
	bool too_many;
};

static void numbers_add(struct numbers *out, uint64_t value)
{
	if (out->n == HLO_DEVICES_MAX) {
		out->too_many = true;
		return;
	}
	if (out->n == out->cap) {
		out->cap = out->cap ? 2 * out->cap : 16;
		out->items = xrealloc(out->items, out->cap * sizeof(*out->items));
	}
	out->items[out->n++] = (int64_t)value;
}

static void numbers_release(struct numbers *out)
{
	free(out->items);
	*out = (struct numbers){ 0 };
}

/* Calls fn for each number of a repeated field, packed or not. */
static int add_numbers(struct hlo *h, const struct wire_field *f, struct numbers *out)
{
	const uint8_t *p;
	uint64_t value = 0;
	unsigned int shift = 0;
	int rc;

	if (f->type != WIRE_LEN) {
		numbers_add(out, f->value);
		return 0;
	}
	rc = wire_peek(&h->w, f->body, f->value, &p, h->e);
	for (uint64_t i = 0; !rc && i < f->value; i++) {
		value |= shift < 64 ? (uint64_t)(p[i] & 0x7f) << shift : 0;
		shift += 7;
		if (p[i] & 0x80)
			continue;
		numbers_add(out, value);
		value = shift = 0;
	}
	return rc;
}

/* All numbers of one field of a message. */
static int read_numbers(struct hlo *h, const struct wire_field *message, uint32_t number,
			struct numbers *out)
{
	struct wire_walk walk = walk_of(h, message);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		if (f.number == number && (rc = add_numbers(h, &f, out)))
			break;
	}
	return rc;
}

/* ---- the groups of an instruction ---- */

struct finding {
	struct hlo *h;
	const struct hlo_module *m;
	size_t logical; /* the device asked for */
	struct hlo_group *out;
	bool known; /* out is set */
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static bool add_member(struct finding *k, int64_t logical)
{
	if (logical < 0 || (size_t)logical >= k->m->n)
		return false;
	k->out->id += mix((uint64_t)k->m->devices[logical] + UINT64_C(0x9e3779b97f4a7c15));
	k->out->n++;
	return true;
}

static void set_all(struct finding *k)
{
	*k->out = (struct hlo_group){ 0 };
	for (size_t i = 0; i < k->m->n; i++)
		(void)add_member(k, (int64_t)i);
	k->known = true;
}

static void set_members(struct finding *k, const int64_t *ids, size_t n)
{
	bool mine = false, all = true;

	for (size_t i = 0; i < n; i++)
		mine |= ids[i] == (int64_t)k->logical;
	if (!mine)
		return;
	*k->out = (struct hlo_group){ 0 };
	for (size_t i = 0; i < n; i++)
		all &= add_member(k, ids[i]);
	k->known = all;
}

/* A group that is a list of ids; an empty list means all devices. */
static int on_group(struct finding *k, const struct wire_field *group)
{
	struct numbers ids = { 0 };
	int rc = read_numbers(k->h, group, 1, &ids);

	if (!rc && !ids.too_many && !k->known) {
		if (ids.n)
			set_members(k, ids.items, ids.n);
		else
			set_all(k);
	}
	numbers_release(&ids);
	return rc;
}

/* Groups in short form: an array of all ids, reshaped and transposed; each row is a group. */
static void set_iota(struct finding *k, size_t per_group, const struct numbers *dims,
		     const struct numbers *perm)
{
	size_t strides[AXES_MAX], at[AXES_MAX] = { 0 }, total = 1;
	int64_t *ids;

	for (size_t i = dims->n; i-- > 0; total *= (size_t)dims->items[i]) {
		strides[i] = total;
		if (dims->items[i] <= 0 || dims->items[i] > HLO_DEVICES_MAX || total > k->m->n)
			return;
	}
	if (total != k->m->n || !per_group || total % per_group)
		return;
	ids = xcalloc(total, sizeof(*ids));
	for (size_t i = 0; i < total; i++) {
		for (size_t d = 0; d < perm->n; d++)
			ids[i] += (int64_t)(at[d] * strides[perm->items[d]]);
		for (size_t d = perm->n; d-- > 0;) {
			if (++at[d] < (size_t)dims->items[perm->items[d]])
				break;
			at[d] = 0;
		}
	}
	for (size_t i = 0; i < total && !k->known; i += per_group)
		set_members(k, &ids[i], per_group);
	free(ids);
}

static bool is_permutation(struct numbers *perm, size_t n)
{
	uint32_t seen = 0;

	for (size_t i = 0; !perm->n && i < n; i++)
		numbers_add(perm, i);
	if (n > AXES_MAX || perm->n != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (perm->items[i] < 0 || (size_t)perm->items[i] >= n)
			return false;
		seen |= UINT32_C(1) << perm->items[i];
	}
	return seen == (UINT32_C(1) << n) - 1;
}

static int on_iota(struct finding *k, const struct wire_field *list)
{
	struct numbers dims = { 0 }, perm = { 0 };
	struct wire_walk walk = walk_of(k->h, list);
	struct wire_field f;
	uint64_t groups = 0, per_group = 0;
	int rc;

	while ((rc = wire_next(&walk, &f, k->h->e)) > 0) {
		groups = f.number == IOTA_GROUPS ? f.value : groups;
		per_group = f.number == IOTA_DEVICES ? f.value : per_group;
		if (f.number == IOTA_DIMS)
			rc = add_numbers(k->h, &f, &dims);
		else if (f.number == IOTA_PERM)
			rc = add_numbers(k->h, &f, &perm);
		if (rc < 0)
			break;
	}
	if (!rc && groups <= k->m->n && per_group <= k->m->n && groups * per_group == k->m->n &&
	    is_permutation(&perm, dims.n))
		set_iota(k, (size_t)per_group, &dims, &perm);
	numbers_release(&dims);
	numbers_release(&perm);
	return rc;
}

static int on_device_list(struct finding *k, const struct wire_field *list)
{
	struct wire_walk walk = walk_of(k->h, list);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, k->h->e)) > 0) {
		if (f.number == LIST_GROUPS)
			rc = on_group(k, &f);
		else if (f.number == LIST_IOTA)
			rc = on_iota(k, &f);
		if (rc < 0)
			break;
	}
	return rc;
}

struct mesh {
	size_t sizes[AXES_MAX];
	bool grouped[AXES_MAX];
	size_t n;
	/* hlo.c supports all its fields */
	bool plain;
};

static int read_axis(struct hlo *h, const struct wire_field *axis, uint32_t number, uint64_t *out,
		     bool *plain)
{
	struct wire_walk walk = walk_of(h, axis);
	struct wire_field f;
	int rc;

	*out = 0;
	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		if (f.number == number)
			*out = f.value;
		else if (number == AXIS_REF_INDEX)
			*plain = false; /* a part of an axis */
	}
	return rc;
}

static int read_mesh(struct hlo *h, const struct wire_field *message, struct mesh *mesh)
{
	struct wire_walk walk = walk_of(h, message);
	struct wire_field f;
	uint64_t size;
	int rc;

	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		if (f.number != MESH_AXES || mesh->n == AXES_MAX) {
			mesh->plain = false; /* the devices are listed in an order of their own */
			continue;
		}
		rc = read_axis(h, &f, AXIS_SIZE, &size, &mesh->plain);
		if (rc)
			break;
		mesh->plain &= size > 0 && size <= HLO_DEVICES_MAX;
		mesh->sizes[mesh->n++] = (size_t)size;
	}
	return rc;
}

static int read_mesh_axes(struct hlo *h, const struct wire_field *list, struct mesh *mesh)
{
	struct wire_walk walk = walk_of(h, list);
	struct wire_field f;
	uint64_t index;
	int rc;

	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		if (f.number != MESH_LIST_AXES)
			continue;
		rc = read_axis(h, &f, AXIS_REF_INDEX, &index, &mesh->plain);
		if (rc)
			break;
		if (index < mesh->n)
			mesh->grouped[index] = true;
		else
			mesh->plain = false;
	}
	return rc;
}

/* Devices are in one group if they differ in the grouped axes only. */
static bool is_same_group(const struct mesh *mesh, size_t a, size_t b)
{
	for (size_t i = mesh->n; i-- > 0;) {
		if (!mesh->grouped[i] && a % mesh->sizes[i] != b % mesh->sizes[i])
			return false;
		a /= mesh->sizes[i];
		b /= mesh->sizes[i];
	}
	return true;
}

static void set_mesh(struct finding *k, const struct mesh *mesh)
{
	size_t total = 1;

	for (size_t i = 0; i < mesh->n && total <= k->m->n; i++)
		total *= mesh->sizes[i];
	if (!mesh->plain || total != k->m->n)
		return;
	*k->out = (struct hlo_group){ 0 };
	for (size_t i = 0; i < k->m->n; i++) {
		if (is_same_group(mesh, i, k->logical))
			(void)add_member(k, (int64_t)i);
	}
	k->known = true;
}

static int on_mesh_list(struct finding *k, const struct wire_field *list)
{
	struct mesh mesh = { .plain = true };
	struct wire_walk walk = walk_of(k->h, list);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, k->h->e)) > 0) {
		mesh.plain &= f.number == MESH_LIST_MESH || f.number == MESH_LIST_AXES;
		if (f.number == MESH_LIST_MESH && (rc = read_mesh(k->h, &f, &mesh)))
			break;
	}
	if (!rc)
		rc = read_mesh_axes(k->h, list, &mesh);
	if (!rc)
		set_mesh(k, &mesh);
	return rc;
}

/* Do groups number devices by replica * partitions + partition? */
static bool has_logical_ids(const struct hlo_module *m, bool channel, bool global)
{
	return global || m->partitions == 1 || (m->replicas == 1 && channel);
}

static int find_members(struct finding *k, const struct wire_field *instruction)
{
	struct wire_walk walk = walk_of(k->h, instruction);
	struct wire_field f;
	bool listed = false, channel = false, global = false;
	int rc;

	while ((rc = wire_next(&walk, &f, k->h->e)) > 0) {
		listed |= f.number == INSTRUCTION_GROUPS || f.number == INSTRUCTION_DEVICE_LIST ||
			  f.number == INSTRUCTION_IOTA_LIST || f.number == INSTRUCTION_MESH_LIST;
		channel |= f.number == INSTRUCTION_CHANNEL && f.value;
		global |= f.number == INSTRUCTION_GLOBAL_IDS && f.value;
		if (f.number == INSTRUCTION_GROUPS)
			rc = on_group(k, &f);
		else if (f.number == INSTRUCTION_DEVICE_LIST)
			rc = on_device_list(k, &f);
		else if (f.number == INSTRUCTION_IOTA_LIST)
			rc = on_iota(k, &f);
		else if (f.number == INSTRUCTION_MESH_LIST)
			rc = on_mesh_list(k, &f);
		if (rc < 0)
			return rc;
	}
	if (!listed)
		set_all(k);
	k->known &= has_logical_ids(k->m, channel, global);
	return rc;
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
	struct numbers all = { 0 };
	struct wire_field f;
	uint64_t replicas = 0, partitions = 0;
	int rc;

	while ((rc = wire_next(&walk, &f, h->e)) > 0) {
		replicas = f.number == ASSIGNMENT_REPLICAS ? f.value : replicas;
		partitions = f.number == ASSIGNMENT_PARTITIONS ? f.value : partitions;
		if (f.number == ASSIGNMENT_DEVICES && (rc = read_numbers(h, &f, 1, &all)))
			break;
	}
	if (!rc && !all.too_many && all.n && !m->has_devices &&
	    h->n_devices + all.n <= HLO_ALL_DEVICES_MAX && replicas <= all.n &&
	    partitions <= all.n && replicas * partitions == all.n) {
		m->has_devices = true;
		h->n_devices += all.n;
		m->n = all.n;
		m->replicas = (size_t)replicas;
		m->partitions = (size_t)partitions;
		m->devices = xcalloc(all.n, sizeof(*m->devices));
		for (size_t i = 0; i < all.n; i++)
			m->devices[i % m->replicas * m->partitions + i / m->replicas] =
				all.items[i];
	}
	numbers_release(&all);
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
		free(h->modules[i].devices);
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
	const struct hlo_module *m = &h->modules[op->module];
	struct finding k = { .h = h, .m = m, .out = out };

	h->e = NULL;
	h->work += 1 + 2 * m->n;
	if (h->work > HLO_WORK_MAX)
		return false;
	while (k.logical < m->n && m->devices[k.logical] != device)
		k.logical++;
	return op->barrier && k.logical < m->n && !find_members(&k, &op->instruction) && k.known;
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
