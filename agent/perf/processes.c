/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/processes.h"

#include <stdio.h>
#include <string.h>

#include "base/clean_text.h"
#include "agent/proc/u32_map.h"
#include "base/mem.h"

/* A table reaches this size only if ends of processes were missed: it is emptied and filled again from /proc. */
#define PROCESSES_MAX 65536
#define THREADS_MAX   262144
#define MAPPINGS_MAX  16384

#define OWN_IMAGE UINT32_MAX /* for memory without a file: the image of the process itself */

struct mapping {
	uint64_t start, end, offset;
	uint32_t image;
};

enum maps_state { MAPS_UNKNOWN, MAPS_ASKED, MAPS_KNOWN };

struct process {
	uint32_t pid;
	uint32_t image; /* its own; 0 until needed */
	enum maps_state maps_state;
	bool listed; /* its pid is among the open questions */
	struct mapping *maps; /* in order of address, without overlap */
	size_t n, cap;
};

struct thread {
	uint32_t pid, tid;
	char comm[COMM_BYTES];
	bool sampled, asked;
	int64_t ended_ns; /* 0 = alive */
};

/* Pids or tids whose question is open; some may have ended since. */
struct open_questions {
	uint32_t *v;
	size_t n, cap;
};

struct processes {
	struct images *images;
	struct u32_map by_pid, by_tid;
	struct open_questions processes, threads;
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

static void forget_threads(struct processes *ps)
{
	for (size_t i = 0; i < ps->by_tid.n_slots; i++)
		free(u32_map_at(&ps->by_tid, i));
	u32_map_release(&ps->by_tid);
}

void processes_free(struct processes *ps)
{
	if (!ps)
		return;
	forget_processes(ps);
	forget_threads(ps);
	free(ps->processes.v);
	free(ps->threads.v);
	free(ps);
}

static void open_questions_add(struct open_questions *u, uint32_t id)
{
	if (u->n == u->cap) {
		u->cap = u->cap ? 2 * u->cap : 64;
		u->v = xrealloc(u->v, u->cap * sizeof(*u->v));
	}
	u->v[u->n++] = id;
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

static struct thread *thread_of(struct processes *ps, uint32_t pid, uint32_t tid)
{
	struct thread *t = u32_map_get(&ps->by_tid, tid);

	if (!t) {
		if (ps->by_tid.n == THREADS_MAX)
			forget_threads(ps);
		t = xcalloc(1, sizeof(*t));
		t->tid = tid;
		u32_map_set(&ps->by_tid, tid, t);
	}
	t->pid = pid;
	return t;
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

static void apply_comm(struct processes *ps, const struct perf_record *rec)
{
	struct thread *t = thread_of(ps, rec->pid, rec->tid);
	struct process *p;

	clean_text(t->comm, sizeof(t->comm), rec->text, strlen(rec->text));
	t->ended_ns = 0;
	if (!rec->exec)
		return;
	p = process_of(ps, rec->pid);
	p->n = 0;
	p->image = 0;
	p->maps_state = MAPS_KNOWN;
}

/* Has its mappings read from /proc. */
static void ask_maps(struct processes *ps, struct process *p)
{
	if (p->maps_state != MAPS_UNKNOWN || p->listed)
		return;
	if (!p->image)
		p->image = images_process(ps->images, p->pid);
	if (p->image == IMAGE_UNKNOWN)
		return;
	p->listed = true;
	open_questions_add(&ps->processes, p->pid);
}

static void fork_process(struct processes *ps, const struct perf_record *rec)
{
	struct process *parent = process_of(ps, rec->ppid), *child;

	process_free(u32_map_remove(&ps->by_pid, rec->pid));
	/* A shell older than the agent is asked once: what it starts from then on has known mappings. */
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

static void apply_fork(struct processes *ps, const struct perf_record *rec)
{
	const struct thread *parent = u32_map_get(&ps->by_tid, rec->ptid);
	char comm[COMM_BYTES] = "";
	struct thread *t;

	if (parent)
		memcpy(comm, parent->comm, sizeof(comm));
	t = thread_of(ps, rec->pid, rec->tid);
	*t = (struct thread){ .pid = rec->pid, .tid = rec->tid };
	memcpy(t->comm, comm, sizeof(t->comm));
	if (rec->pid != rec->ppid)
		fork_process(ps, rec);
}

static void apply_exit(struct processes *ps, const struct perf_record *rec)
{
	struct thread *t = u32_map_get(&ps->by_tid, rec->tid);

	if (t)
		t->ended_ns = rec->time_ns;
	if (rec->pid == rec->tid)
		process_free(u32_map_remove(&ps->by_pid, rec->pid));
}

void processes_apply(struct processes *ps, const struct perf_record *rec)
{
	switch (rec->kind) {
	case PERF_KIND_MAP:
		apply_map(ps, rec);
		break;
	case PERF_KIND_COMM:
		apply_comm(ps, rec);
		break;
	case PERF_KIND_FORK:
		apply_fork(ps, rec);
		break;
	case PERF_KIND_EXIT:
		apply_exit(ps, rec);
		break;
	default:
		break;
	}
}

void processes_note_thread(struct processes *ps, uint32_t pid, uint32_t tid)
{
	struct thread *t = thread_of(ps, pid, tid);

	if (!t->sampled && !t->comm[0])
		open_questions_add(&ps->threads, tid);
	t->sampled = true;
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

struct thread_question *processes_threads(const struct processes *ps, size_t *n)
{
	struct thread_question *out = xcalloc(ps->by_tid.n + 1, sizeof(*out));

	*n = 0;
	for (size_t i = 0; i < ps->by_tid.n_slots; i++) {
		const struct thread *t = u32_map_at(&ps->by_tid, i);

		if (!t || !t->sampled)
			continue;
		out[*n] = (struct thread_question){ .pid = t->pid, .tid = t->tid };
		memcpy(out[(*n)++].comm, t->comm, sizeof(t->comm));
	}
	return out;
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

void processes_sweep(struct processes *ps, int64_t ended_before_ns)
{
	uint32_t *gone = xmalloc((ps->by_tid.n + 1) * sizeof(*gone));
	size_t n = 0;

	for (size_t i = 0; i < ps->by_tid.n_slots; i++) {
		const struct thread *t = u32_map_at(&ps->by_tid, i);

		if (t && t->ended_ns && t->ended_ns < ended_before_ns)
			gone[n++] = t->tid;
	}
	while (n)
		free(u32_map_remove(&ps->by_tid, gone[--n]));
	free(gone);
}

/* ---- questions ---- */

/* A process that ended before the worker came is not asked. */
size_t processes_take_questions(struct processes *ps, struct process_question **out, size_t max)
{
	struct open_questions *u = &ps->processes;
	size_t n = 0;

	*out = NULL;
	while (u->n && n < max) {
		struct process *p = u32_map_get(&ps->by_pid, u->v[--u->n]);

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

size_t threads_take_questions(struct processes *ps, struct thread_question **out, size_t max)
{
	struct open_questions *u = &ps->threads;
	size_t n = 0;

	*out = NULL;
	while (u->n && n < max) {
		struct thread *t = u32_map_get(&ps->by_tid, u->v[--u->n]);

		if (!t || !t->sampled || t->asked || t->comm[0] || t->ended_ns)
			continue;
		if (!n)
			*out = xcalloc(max, sizeof(**out));
		(*out)[n++] = (struct thread_question){ .pid = t->pid, .tid = t->tid };
		t->asked = true;
	}
	return n;
}

/* Mappings that the kernel reported meanwhile are newer than what was read: they stay. */
static void add_if_free(struct process *p, const struct mapping *m)
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

		add_if_free(p, &(struct mapping){ .start = m->start,
						  .end = m->end,
						  .offset = map_kind_of(m->path) == MAP_KIND_VDSO
								    ? 0
								    : m->offset,
						  .image = image_of(ps, p->pid, m) });
	}
	p->maps_state = MAPS_KNOWN;
}

void threads_apply_answer(struct processes *ps, const struct thread_question *q)
{
	struct thread *t = u32_map_get(&ps->by_tid, q->tid);

	if (t && !t->comm[0])
		clean_text(t->comm, sizeof(t->comm), q->comm, strlen(q->comm));
}
