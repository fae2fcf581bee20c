/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/merge_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "xspace/schema.h"

#define uthash_malloc(size) xmalloc(size)
#include <uthash.h>

/* XProf's viewer distinguishes ids 0 to 499 of GPUs and TPUs, and 0 to 199 of custom devices. */
#define DEVICE_IDS 500
#define CUSTOM_IDS 200

/* The longest number of a device that is renamed; a longer one is part of a plain name. */
#define NUMBER_DIGITS 6

static const char *const kinds[] = { "/device:GPU:", "/device:TPU:" };
#define KINDS ARRAY_SIZE(kinds)

struct name {
	char *text;
	size_t suffix; /* the last number that was added to a name equal to this one */
	UT_hash_handle hh;
};

/* A device of one input and its number in the merged file. With `input` ANY the entry only says that the
 * number is taken. */
struct device {
	struct device_key {
		uint64_t input, kind, number;
	} key;
	unsigned long renumbered;
	UT_hash_handle hh;
};
#define ANY UINT64_MAX

struct ids {
	bool taken[DEVICE_IDS];
	int64_t limit;
	int64_t free; /* no id below this one is free */
};

struct naming {
	struct name *names;
	struct device *devices;
	unsigned long next_number[KINDS];
	struct ids device_ids, custom_ids;
};

/* ---- names ---- */

/* Returns the entry of the name if there is one; else adds one and returns NULL. */
static struct name *name_add(struct naming *n, const char *text)
{
	struct name *known;
	size_t len = strlen(text);

	HASH_FIND(hh, n->names, text, len, known);
	if (known)
		return known;
	known = xmalloc(sizeof(*known));
	known->text = xstrdup(text);
	known->suffix = 1;
	HASH_ADD_KEYPTR(hh, n->names, known->text, len, known);
	return NULL;
}

/* `wanted` if the name is free, else a free name made from it. Takes `wanted`. */
static char *make_unique(struct naming *n, char *wanted, int64_t pid)
{
	struct name *other = name_add(n, wanted);
	char *text = wanted;

	if (other && pid > 0) {
		text = xasprintf("%s [%lld]", wanted, (long long)pid);
		free(wanted);
		other = name_add(n, text);
	}
	while (other) {
		free(text);
		text = xasprintf("%s #%zu", other->text, ++other->suffix);
		if (!name_add(n, text))
			break;
	}
	return text;
}

/* ---- devices ---- */

/* Splits "/device:GPU:<n><rest>"; returns the kind, or KINDS for any other name. */
static size_t parse_device(const char *name, unsigned long *number, const char **rest)
{
	for (size_t kind = 0; kind < KINDS; kind++) {
		size_t len = strlen(kinds[kind]), digits;

		if (strncmp(name, kinds[kind], len))
			continue;
		digits = strspn(name + len, "0123456789");
		*rest = name + len + digits;
		if (!digits || digits > NUMBER_DIGITS || (**rest && **rest != ' '))
			return KINDS;
		*number = strtoul(name + len, NULL, 10);
		return kind;
	}
	return KINDS;
}

static struct device *device_find(struct naming *n, uint64_t input, uint64_t kind, uint64_t number)
{
	struct device_key key = { input, kind, number };
	struct device *d;

	HASH_FIND(hh, n->devices, &key, sizeof(key), d);
	return d;
}

static void device_add(struct naming *n, uint64_t input, uint64_t kind, uint64_t number,
		       unsigned long renumbered)
{
	struct device *d = xcalloc(1, sizeof(*d));

	d->key = (struct device_key){ input, kind, number };
	d->renumbered = renumbered;
	HASH_ADD(hh, n->devices, key, sizeof(d->key), d);
}

/* The number of a device in the merged file: its own if no other input has it, else a new one. */
static unsigned long renumber(struct naming *n, size_t input, size_t kind, unsigned long number)
{
	struct device *d = device_find(n, input, kind, number);
	unsigned long to = number;

	if (d)
		return d->renumbered;
	if (device_find(n, ANY, kind, number))
		to = n->next_number[kind]++;
	device_add(n, input, kind, number, to);
	device_add(n, ANY, kind, to, to);
	return to;
}

static char *device_name(struct naming *n, const struct merge_plane *p)
{
	unsigned long number, to;
	const char *rest;
	size_t kind = parse_device(p->name, &number, &rest);

	if (kind == KINDS)
		return xstrdup(p->name);
	to = renumber(n, p->input, kind, number);
	return to == number ? xstrdup(p->name) : xasprintf("%s%lu%s", kinds[kind], to, rest);
}

/* A new number is above those of all inputs, so that as few devices as possible are renamed. */
static void find_next_numbers(struct naming *n, const struct merge_plane *planes, size_t n_planes)
{
	unsigned long number;
	const char *rest;

	for (size_t i = 0; i < n_planes; i++) {
		size_t kind = parse_device(planes[i].name, &number, &rest);

		if (kind < KINDS && number >= n->next_number[kind])
			n->next_number[kind] = number + 1;
	}
}

/* ---- ids ---- */

static int64_t unique_id(struct ids *ids, int64_t wanted)
{
	if (wanted < 0 || wanted >= ids->limit || ids->taken[wanted]) {
		while (ids->free < ids->limit && ids->taken[ids->free])
			ids->free++;
		wanted = ids->free;
	}
	if (wanted < ids->limit)
		ids->taken[wanted] = true;
	else
		ids->free++; /* unique, but XProf does not distinguish ids beyond the limit */
	return wanted;
}

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static int64_t plane_id(struct naming *n, const struct merge_plane *p)
{
	if (has_prefix(p->name, kinds[0]) || has_prefix(p->name, kinds[1]))
		return unique_id(&n->device_ids, p->id);
	if (has_prefix(p->name, "/device:CUSTOM:") || has_prefix(p->name, "/custom:"))
		return unique_id(&n->custom_ids, p->id);
	return p->id;
}

/* ---- all ---- */

/* Chooses the plane that stays "/host:CPU" for XProf's tools: that of the first process that has one, else
 * Tutti's own. */
static size_t find_host_plane(const struct merge_plane *planes, size_t n)
{
	size_t own = n;

	for (size_t i = n; i > 0; i--) {
		if (!planes[i - 1].pid && !strcmp(planes[i - 1].name, HOST_PLANE))
			own = i - 1;
	}
	for (size_t i = 0; i < n; i++) {
		if (planes[i].pid && !strcmp(planes[i].name, HOST_PLANE))
			return i;
	}
	return own;
}

static char *new_name_of(struct naming *n, const struct merge_plane *p)
{
	if (strcmp(p->name, HOST_PLANE))
		return device_name(n, p);
	if (p->pid > 0)
		return xasprintf(HOST_PLANE " [%lld]", (long long)p->pid);
	if (p->pid)
		return xstrdup(HOST_PLANE " [?]");
	return xstrdup(HOST_PLANE " samples");
}

static void naming_release(struct naming *n)
{
	struct name *name, *next_name;
	struct device *device, *next_device;

	HASH_ITER (hh, n->names, name, next_name) {
		HASH_DEL(n->names, name);
		free(name->text);
		free(name);
	}
	HASH_ITER (hh, n->devices, device, next_device) {
		HASH_DEL(n->devices, device);
		free(device);
	}
}

void merge_names(struct merge_plane *planes, size_t n)
{
	struct naming naming = { .device_ids.limit = DEVICE_IDS, .custom_ids.limit = CUSTOM_IDS };
	size_t host = find_host_plane(planes, n);

	find_next_numbers(&naming, planes, n);
	name_add(&naming, HOST_PLANE);
	name_add(&naming, ENVIRONMENT_PLANE);
	for (size_t i = 0; i < n; i++) {
		struct merge_plane *p = &planes[i];

		p->dropped = !strcmp(p->name, ENVIRONMENT_PLANE);
		p->new_id = p->id;
		if (p->dropped)
			continue;
		if (i == host) {
			p->new_name = xstrdup(HOST_PLANE);
			continue;
		}
		p->new_id = plane_id(&naming, p);
		p->new_name = new_name_of(&naming, p);
		p->new_name = make_unique(&naming, p->new_name,
					  strcmp(p->name, HOST_PLANE) ? p->pid : 0);
	}
	naming_release(&naming);
}
