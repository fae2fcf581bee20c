/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/processes.h"

#include <stdio.h>
#include <string.h>

#include "agent/proc/u32_map.h"
#include "base/mem.h"

/* A table grows to this size only if ends of processes were missed. It is then emptied, and filled again from
 * /proc. */
#define PROCESSES_MAX 65536
#define MAPPINGS_MAX  16384

#define OWN_IMAGE UINT32_MAX /* the image of the process itself, for memory without a file */

struct mapping {
	uint64_t start, end, offset;
	uint32_t image;
};

enum maps_state { MAPS_UNKNOWN, MAPS_ASKED, MAPS_KNOWN };

struct process {
	uint32_t pid;
	uint32_t image; /* the number of its own image; 0 until needed */
	enum maps_state maps_state;
	bool listed; /* its pid is among the open questions */
	struct mapping *maps; /* in order of address, without overlap */
	size_t n, cap;
};

struct processes {
	struct images *images;
	struct u32_map by_pid;
	struct {
		uint32_t *v; /* pids; some may have ended since */
		size_t n, cap;
	} open; /* questions */
};

struct processes *processes_new(struct images *images)
{
	struct processes *ps = xcalloc(1, sizeof(*ps));

	ps->images = images;
	return ps;
}

static void process_free(struct process *p)
{
	if (!p)
		return;
	free(p->maps);
	free(p);
}

static void forget_processes(struct processes *ps)
{
	for (size_t i = 0; i < ps->by_pid.n_slots; i++)
		process_free(u32_map_at(&ps->by_pid, i));
	u32_map_release(&ps->by_pid);
}

void processes_free(struct processes *ps)
{
	if (!ps)
		return;
	forget_processes(ps);
	free(ps->open.v);
	free(ps);
}

static struct process *process_of(struct processes *ps, uint32_t pid)
{
	struct process *p = u32_map_get(&ps->by_pid, pid);

	if (p)
		return p;
	if (ps->by_pid.n == PROCESSES_MAX)
		forget_processes(ps);
	p = xcalloc(1, sizeof(*p));
	p->pid = pid;
	u32_map_set(&ps->by_pid, pid, p);
	return p;
}

/* ---- mappings ---- */

static size_t first_after(const struct process *p, uint64_t address)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (p->maps[mid].end <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void insert_mapping(struct process *p, size_t at, const struct mapping *m)
{
	if (p->n == MAPPINGS_MAX)
		return;
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 16;
		p->maps = xrealloc(p->maps, p->cap * sizeof(*p->maps));
	}
	memmove(p->maps + at + 1, p->maps + at, (p->n - at) * sizeof(*p->maps));
	p->maps[at] = *m;
	p->n++;
}

/* A new mapping replaces what was there; parts before and behind it stay. */
static void replace_mappings(struct process *p, const struct mapping *m)
{
	size_t at = first_after(p, m->start), end = at;
	struct mapping before = { 0 }, behind = { 0 };

	for (; end < p->n && p->maps[end].start < m->end; end++) {
		struct mapping old = p->maps[end];

		if (old.start < m->start) {
			before = old;
			before.end = m->start;
		}
		if (old.end > m->end) {
			behind = old;
			behind.start = m->end;
			behind.offset += m->end - old.start;
		}
	}
	if (end > at) {
		memmove(p->maps + at, p->maps + end, (p->n - end) * sizeof(*p->maps));
		p->n -= end - at;
	}
	if (behind.end)
		insert_mapping(p, at, &behind);
	insert_mapping(p, at, m);
	if (before.end)
		insert_mapping(p, at, &before);
}

static uint32_t image_of(struct processes *ps, uint32_t pid, const struct proc_map *m)
{
	switch (map_kind_of(m->path)) {
	case MAP_KIND_VDSO:
		return IMAGE_VDSO;
	case MAP_KIND_FILE:
		return images_file(ps->images, &(struct image){ .kind = IMAGE_KIND_FILE,
								.pid = pid,
								.major = m->major,
								.minor = m->minor,
								.inode = m->inode,
								.path = m->path });
	default:
		return OWN_IMAGE;
	}
}

static void apply_map(struct processes *ps, const struct perf_record *rec)
{
	struct proc_map m = { .start = rec->address,
			      .end = rec->address + rec->length,
			      .offset = rec->offset,
			      .inode = rec->inode,
			      .major = rec->major,
			      .minor = rec->minor,
			      .path = (char *)rec->text };

	if (m.end <= m.start || rec->pid == UINT32_MAX)
		return; /* the kernel's modules have pid -1 */
	replace_mappings(
		process_of(ps, rec->pid),
		&(struct mapping){ .start = m.start,
				   .end = m.end,
				   .offset = map_kind_of(m.path) == MAP_KIND_VDSO ? 0 : m.offset,
				   .image = image_of(ps, rec->pid, &m) });
}

/* ---- records ---- */

static void apply_exec(struct processes *ps, const struct perf_record *rec)
{
	struct process *p = process_of(ps, rec->pid);

	p->n = 0;
	p->image = 0;
	p->maps_state = MAPS_KNOWN;
}

/* Asks for the process's mappings to be read from /proc. */
static void ask_maps(struct processes *ps, struct process *p)
{
	if (p->maps_state != MAPS_UNKNOWN || p->listed)
		return;
	if (!p->image)
		p->image = images_process(ps->images, p->pid);
	if (p->image == IMAGE_UNKNOWN)
		return;
	p->listed = true;
	if (ps->open.n == ps->open.cap) {
		ps->open.cap = ps->open.cap ? 2 * ps->open.cap : 64;
		ps->open.v = xrealloc(ps->open.v, ps->open.cap * sizeof(*ps->open.v));
	}
	ps->open.v[ps->open.n++] = p->pid;
}

static void fork_process(struct processes *ps, const struct perf_record *rec)
{
	struct process *parent = process_of(ps, rec->ppid), *child;

	process_free(u32_map_remove(&ps->by_pid, rec->pid));
	/* Asks about the parent, which may be a shell older than the agent: all processes that it starts later
	 * then have known mappings. */
	ask_maps(ps, parent);
	child = xcalloc(1, sizeof(*child));
	child->pid = rec->pid;
	child->maps_state = parent->maps_state == MAPS_KNOWN ? MAPS_KNOWN : MAPS_UNKNOWN;
	child->n = child->cap = parent->n;
	if (parent->n) {
		child->maps = xmalloc(parent->n * sizeof(*child->maps));
		memcpy(child->maps, parent->maps, parent->n * sizeof(*child->maps));
	}
	u32_map_set(&ps->by_pid, rec->pid, child);
}

void processes_apply(struct processes *ps, const struct perf_record *rec)
{
	if (rec->kind == PERF_KIND_MAP)
		apply_map(ps, rec);
	else if (rec->kind == PERF_KIND_COMM && rec->exec)
		apply_exec(ps, rec);
	else if (rec->kind == PERF_KIND_FORK && rec->pid != rec->ppid)
		fork_process(ps, rec);
	else if (rec->kind == PERF_KIND_EXIT && rec->pid == rec->tid)
		process_free(u32_map_remove(&ps->by_pid, rec->pid));
}

/* ---- frames ---- */

static struct frame own_frame(struct processes *ps, struct process *p, uint64_t address)
{
	if (!p->image)
		p->image = images_process(ps->images, p->pid);
	if (p->image == IMAGE_UNKNOWN)
		return (struct frame){ .image = IMAGE_UNKNOWN };
	return (struct frame){ .image = p->image, .offset = address };
}

struct frame processes_frame(struct processes *ps, uint32_t pid, uint64_t address)
{
	struct process *p = process_of(ps, pid);
	size_t i = first_after(p, address);
	const struct mapping *m = i < p->n && p->maps[i].start <= address ? &p->maps[i] : NULL;

	if (m && m->image != OWN_IMAGE)
		return (struct frame){ .image = m->image,
				       .offset = address - m->start + m->offset };
	if (!m && p->maps_state == MAPS_KNOWN)
		return (struct frame){ .image = IMAGE_UNKNOWN };
	ask_maps(ps, p);
	return own_frame(ps, p, address);
}

void processes_mark_images(const struct processes *ps, bool *used)
{
	for (size_t i = 0; i < ps->by_pid.n_slots; i++) {
		const struct process *p = u32_map_at(&ps->by_pid, i);

		if (!p)
			continue;
		used[p->image] = true;
		for (size_t k = 0; k < p->n; k++)
			if (p->maps[k].image != OWN_IMAGE)
				used[p->maps[k].image] = true;
	}
}

/* ---- questions ---- */

/* Leaves out processes that have ended meanwhile. */
size_t processes_take_questions(struct processes *ps, struct process_question **out, size_t max)
{
	size_t n = 0;

	*out = NULL;
	while (ps->open.n && n < max) {
		struct process *p = u32_map_get(&ps->by_pid, ps->open.v[--ps->open.n]);

		if (!p || !p->listed)
			continue;
		p->listed = false;
		if (p->maps_state != MAPS_UNKNOWN || !p->image)
			continue;
		if (!n)
			*out = xcalloc(max, sizeof(**out));
		(*out)[n++] = (struct process_question){
			.pid = p->pid,
			.serial = images_get(ps->images, p->image)->serial,
		};
		p->maps_state = MAPS_ASKED;
	}
	return n;
}

/* Mappings that the kernel reported meanwhile are newer than what was read: they stay. */
static void add_mapping_if_free(struct process *p, const struct mapping *m)
{
	size_t at = first_after(p, m->start);

	if (at == p->n || p->maps[at].start >= m->end)
		insert_mapping(p, at, m);
}

void processes_apply_answer(struct processes *ps, const struct process_question *q)
{
	struct process *p = u32_map_get(&ps->by_pid, q->pid);

	if (!p || p->maps_state != MAPS_ASKED || !p->image ||
	    images_get(ps->images, p->image)->serial != q->serial)
		return;
	for (size_t i = 0; q->answered && i < q->maps.n; i++) {
		const struct proc_map *m = &q->maps.v[i];

		add_mapping_if_free(
			p, &(struct mapping){
				   .start = m->start,
				   .end = m->end,
				   .offset = map_kind_of(m->path) == MAP_KIND_VDSO ? 0 : m->offset,
				   .image = image_of(ps, p->pid, m) });
	}
	p->maps_state = MAPS_KNOWN;
}
