/* SPDX-License-Identifier: Apache-2.0 */
/* Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto. */
#include "xspace/hlo_groups.h"

#include <stdlib.h>

#include "base/mem.h"

#define AXES_MAX 16

enum {
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

const uint8_t hlo_schema[SCHEMA_FIELDS];

/* ---- numbers ---- */

static void add_number(struct hlo_numbers *out, uint64_t value)
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

void hlo_numbers_release(struct hlo_numbers *out)
{
	free(out->items);
	*out = (struct hlo_numbers){ 0 };
}

/* Appends the numbers of one occurrence of a repeated field, packed or not. */
static int add_numbers(struct wire *w, const struct wire_field *f, struct hlo_numbers *out,
		       struct err *e)
{
	const uint8_t *p;
	uint64_t value = 0;
	unsigned int shift = 0;
	int rc;

	if (f->type != WIRE_LEN) {
		add_number(out, f->value);
		return 0;
	}
	rc = wire_peek(w, f->body, f->value, &p, e);
	for (uint64_t i = 0; !rc && i < f->value; i++) {
		value |= shift < 64 ? (uint64_t)(p[i] & 0x7f) << shift : 0;
		shift += 7;
		if (p[i] & 0x80)
			continue;
		add_number(out, value);
		value = shift = 0;
	}
	return rc;
}

int hlo_numbers_read(struct wire *w, const struct wire_field *message, uint32_t number,
		     struct hlo_numbers *out, struct err *e)
{
	struct wire_walk walk = wire_walk(w, message, hlo_schema);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, e)) > 0) {
		if (f.number == number && (rc = add_numbers(w, &f, out, e)))
			break;
	}
	return rc;
}

/* ---- groups ---- */

struct finding {
	struct wire *w;
	const struct hlo_devices *devices;
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
	if (logical < 0 || (size_t)logical >= k->devices->n)
		return false;
	k->out->id += mix((uint64_t)k->devices->ids[logical] + UINT64_C(0x9e3779b97f4a7c15));
	k->out->n++;
	return true;
}

static void set_all(struct finding *k)
{
	*k->out = (struct hlo_group){ 0 };
	for (size_t i = 0; i < k->devices->n; i++)
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
	struct hlo_numbers ids = { 0 };
	int rc = hlo_numbers_read(k->w, group, 1, &ids, NULL);

	if (!rc && !ids.too_many && !k->known) {
		if (ids.n)
			set_members(k, ids.items, ids.n);
		else
			set_all(k);
	}
	hlo_numbers_release(&ids);
	return rc;
}

/* Groups in short form: an array of all ids, reshaped and transposed; each row is a group. */
static void set_iota(struct finding *k, size_t per_group, const struct hlo_numbers *dims,
		     const struct hlo_numbers *perm)
{
	size_t strides[AXES_MAX], at[AXES_MAX] = { 0 }, total = 1;
	int64_t *ids;

	for (size_t i = dims->n; i-- > 0; total *= (size_t)dims->items[i]) {
		strides[i] = total;
		if (dims->items[i] <= 0 || dims->items[i] > HLO_DEVICES_MAX ||
		    total > k->devices->n)
			return;
	}
	if (total != k->devices->n || !per_group || total % per_group)
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

static bool is_permutation(struct hlo_numbers *perm, size_t n)
{
	uint32_t seen = 0;

	for (size_t i = 0; !perm->n && i < n; i++)
		add_number(perm, i);
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
	struct hlo_numbers dims = { 0 }, perm = { 0 };
	struct wire_walk walk = wire_walk(k->w, list, hlo_schema);
	struct wire_field f;
	uint64_t groups = 0, per_group = 0;
	int rc;

	while ((rc = wire_next(&walk, &f, NULL)) > 0) {
		groups = f.number == IOTA_GROUPS ? f.value : groups;
		per_group = f.number == IOTA_DEVICES ? f.value : per_group;
		if (f.number == IOTA_DIMS)
			rc = add_numbers(k->w, &f, &dims, NULL);
		else if (f.number == IOTA_PERM)
			rc = add_numbers(k->w, &f, &perm, NULL);
		if (rc < 0)
			break;
	}
	if (!rc && groups <= k->devices->n && per_group <= k->devices->n &&
	    groups * per_group == k->devices->n && is_permutation(&perm, dims.n))
		set_iota(k, (size_t)per_group, &dims, &perm);
	hlo_numbers_release(&dims);
	hlo_numbers_release(&perm);
	return rc;
}

static int on_device_list(struct finding *k, const struct wire_field *list)
{
	struct wire_walk walk = wire_walk(k->w, list, hlo_schema);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, NULL)) > 0) {
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
	/* all its fields are supported */
	bool plain;
};

static int read_axis(struct wire *w, const struct wire_field *axis, uint32_t number, uint64_t *out,
		     bool *plain)
{
	struct wire_walk walk = wire_walk(w, axis, hlo_schema);
	struct wire_field f;
	int rc;

	*out = 0;
	while ((rc = wire_next(&walk, &f, NULL)) > 0) {
		if (f.number == number)
			*out = f.value;
		else if (number == AXIS_REF_INDEX)
			*plain = false; /* a part of an axis */
	}
	return rc;
}

static int read_mesh(struct wire *w, const struct wire_field *message, struct mesh *mesh)
{
	struct wire_walk walk = wire_walk(w, message, hlo_schema);
	struct wire_field f;
	uint64_t size;
	int rc;

	while ((rc = wire_next(&walk, &f, NULL)) > 0) {
		if (f.number != MESH_AXES || mesh->n == AXES_MAX) {
			mesh->plain = false; /* the devices are listed in an order of their own */
			continue;
		}
		rc = read_axis(w, &f, AXIS_SIZE, &size, &mesh->plain);
		if (rc)
			break;
		mesh->plain &= size > 0 && size <= HLO_DEVICES_MAX;
		mesh->sizes[mesh->n++] = (size_t)size;
	}
	return rc;
}

static int read_mesh_axes(struct wire *w, const struct wire_field *list, struct mesh *mesh)
{
	struct wire_walk walk = wire_walk(w, list, hlo_schema);
	struct wire_field f;
	uint64_t index;
	int rc;

	while ((rc = wire_next(&walk, &f, NULL)) > 0) {
		if (f.number != MESH_LIST_AXES)
			continue;
		rc = read_axis(w, &f, AXIS_REF_INDEX, &index, &mesh->plain);
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

	for (size_t i = 0; i < mesh->n && total <= k->devices->n; i++)
		total *= mesh->sizes[i];
	if (!mesh->plain || total != k->devices->n)
		return;
	*k->out = (struct hlo_group){ 0 };
	for (size_t i = 0; i < k->devices->n; i++) {
		if (is_same_group(mesh, i, k->logical))
			(void)add_member(k, (int64_t)i);
	}
	k->known = true;
}

static int on_mesh_list(struct finding *k, const struct wire_field *list)
{
	struct mesh mesh = { .plain = true };
	struct wire_walk walk = wire_walk(k->w, list, hlo_schema);
	struct wire_field f;
	int rc;

	while ((rc = wire_next(&walk, &f, NULL)) > 0) {
		mesh.plain &= f.number == MESH_LIST_MESH || f.number == MESH_LIST_AXES;
		if (f.number == MESH_LIST_MESH && (rc = read_mesh(k->w, &f, &mesh)))
			break;
	}
	if (!rc)
		rc = read_mesh_axes(k->w, list, &mesh);
	if (!rc)
		set_mesh(k, &mesh);
	return rc;
}

/* Do groups number devices by replica * partitions + partition? */
static bool has_logical_ids(const struct hlo_devices *d, bool channel, bool global)
{
	return global || d->partitions == 1 || (d->replicas == 1 && channel);
}

static int read_groups(struct finding *k, const struct wire_field *instruction)
{
	struct wire_walk walk = wire_walk(k->w, instruction, hlo_schema);
	struct wire_field f;
	bool listed = false, channel = false, global = false;
	int rc;

	while ((rc = wire_next(&walk, &f, NULL)) > 0) {
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
	k->known &= has_logical_ids(k->devices, channel, global);
	return rc;
}

bool hlo_find_members(struct wire *w, const struct wire_field *instruction,
		      const struct hlo_devices *devices, size_t logical, struct hlo_group *out)
{
	struct finding k = { .w = w, .devices = devices, .logical = logical, .out = out };

	return !read_groups(&k, instruction) && k.known;
}
