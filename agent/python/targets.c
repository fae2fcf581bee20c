/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/targets_parts.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/proc/status.h"
#include "base/clean_text.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"

#define INTERPRETERS_MAX 64
/* new threads of a process that one round takes: each needs a look into /proc */
#define NEW_THREADS_MAX 64
#define NAME_TRIES	4 /* how often a stack is copied until its code objects fit */
/* CPU time for one process in a round: it may have thousands of threads, or lie */
#define PROCESS_CPU_NS (50 * NS_PER_MS)
#define CLOCK_EVERY    16 /* threads between two checks of that time */
#define ENDED_AFTER    2 /* a thread that this many rounds did not meet has ended */

struct python_targets *python_targets_new(struct python_functions *functions,
					  const struct file_keeper *keeper)
{
	struct python_targets *ts = xcalloc(1, sizeof(*ts));

	ts->functions = functions;
	ts->files = python_files_new(keeper);
	ts->walk = python_walk_new();
	ts->v = xcalloc(PYTHON_TARGETS_MAX, sizeof(struct python_target *));
	return ts;
}

static void thread_free(struct python_thread *t)
{
	free(t->frames);
	free(t);
}

void python_target_free(struct python_target *t)
{
	for (size_t i = 0; i < t->threads.n_slots; i++)
		if (u32_map_at(&t->threads, i))
			thread_free(u32_map_at(&t->threads, i));
	u32_map_release(&t->threads);
	python_codes_free(t->codes);
	free(t);
}

void python_targets_free(struct python_targets *ts)
{
	if (!ts)
		return;
	for (size_t i = 0; i < ts->n; i++)
		python_target_free(ts->v[i]);
	free(ts->v);
	for (size_t i = 0; i < ts->known.n_slots; i++)
		free(u32_map_at(&ts->known, i));
	u32_map_release(&ts->known);
	python_walk_free(ts->walk);
	python_files_free(ts->files);
	free(ts);
}

void python_targets_stop(struct python_targets *ts)
{
	python_files_stop(ts->files);
}

void python_targets_show(struct python_targets *ts, _Atomic uint32_t *pid)
{
	ts->shown = pid;
}

void python_targets_reading(struct python_targets *ts, uint32_t pid)
{
	if (ts->shown)
		atomic_store_explicit(ts->shown, pid, memory_order_relaxed);
}

size_t python_targets_count(const struct python_targets *ts)
{
	return ts->n;
}

struct python_target *python_targets_get(const struct python_targets *ts, size_t i)
{
	return ts->v[i];
}

const struct python_unread *python_targets_unread(const struct python_targets *ts)
{
	return &ts->unread;
}

struct python_target *python_targets_add(struct python_targets *ts, uint32_t pid,
					 const struct python_memory *memory,
					 const struct python_interpreter *interpreter)
{
	struct python_target *t;

	if (ts->n == PYTHON_TARGETS_MAX)
		return NULL;
	t = xcalloc(1, sizeof(*t));
	t->pid = pid;
	t->serial = ++ts->last_serial;
	t->memory = *memory;
	t->interpreter = *interpreter;
	t->codes = python_codes_new();
	ts->v[ts->n++] = t;
	return t;
}

/* ---- threads ---- */

/* The host's id of the thread that the process knows as `id`; 0 if there is none. */
static uint32_t outer_id(const struct python_target *t, uint32_t id)
{
	char path[32], status_path[320];
	struct proc_status status;
	struct dirent *entry;
	uint32_t found = 0;
	DIR *dir;

	if (!t->is_nested)
		return id;
	snprintf(path, sizeof(path), "/proc/%u/task", t->pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(status_path, sizeof(status_path), "%s/%s/status", path, entry->d_name);
		if (proc_status_read(status_path, &status) && (uint32_t)status.inner_id == id)
			found = (uint32_t)strtoul(entry->d_name, NULL, 10);
	}
	if (dir)
		closedir(dir);
	return found;
}

static uint32_t key_of(uint64_t state)
{
	return (uint32_t)(state >> 4);
}

/* Adds the thread of a state. NULL if the process has no thread with this id: the state is unused, or the
 * process lies. */
static struct python_thread *thread_new(struct python_target *t, uint64_t state, uint32_t id)
{
	uint32_t tid = t->is_checked ? outer_id(t, id) : id;
	struct python_thread *thread;
	char path[64], comm[16] = "";

	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", t->pid, tid);
	if (!tid || (t->is_checked && !file_first_line(path, comm, sizeof(comm))))
		return NULL;
	thread = xcalloc(1, sizeof(*thread));
	thread->state = state;
	thread->id = id;
	thread->tid = tid;
	clean_text(thread->name, sizeof(thread->name), comm, strlen(comm));
	u32_map_set(&t->threads, key_of(state), thread);
	return thread;
}

/* ---- one sample ---- */

static bool same_frames(const struct python_thread *thread, const struct python_stack *stack)
{
	if (!thread->frames || stack->n != thread->n_frames || stack->is_cut != thread->is_cut)
		return false;
	for (size_t i = 0; i < stack->n; i++) {
		const struct python_frame *a = &stack->v[i], *b = &thread->frames[i];

		if (a->at != b->at || a->code != b->code || a->instruction != b->instruction)
			return false;
	}
	return true;
}

static void keep_frames(struct python_thread *thread, const struct python_stack *stack)
{
	thread->frames = xrealloc(thread->frames, (stack->n + 1) * sizeof(*thread->frames));
	memcpy(thread->frames, stack->v, stack->n * sizeof(*thread->frames));
	thread->n_frames = stack->n;
	thread->is_cut = stack->is_cut;
}

/* One round over a process. */
struct pass {
	struct python_targets *ts;
	struct python_target *t;
	size_t n_threads, n_new;
	int64_t until_cpu_ns; /* of the worker's thread */
	/* a list could not be followed, or took too long: threads may be left out */
	bool is_broken;
	bool is_crowded; /* the list goes on behind the last thread that is sampled */
};

static struct python_thread *find_thread(const struct pass *p, uint64_t state)
{
	struct python_thread *thread = u32_map_get(&p->t->threads, key_of(state));

	return thread && thread->state == state ? thread : NULL;
}

/* The thread of the copied state: the one that had this state before, or a new one. NULL: it is not sampled. */
static struct python_thread *adopt_thread(struct pass *p, struct python_thread *thread,
					  uint64_t state)
{
	uint64_t id = python_walk_id(p->ts->walk);

	if (thread && thread->id == id)
		return thread;
	if (u32_map_get(&p->t->threads, key_of(state)))
		thread_free(u32_map_remove(&p->t->threads, key_of(state)));
	if (!id || id > INT32_MAX)
		return NULL;
	if (p->n_new++ >= NEW_THREADS_MAX) {
		p->t->left_out++;
		return NULL;
	}
	return thread_new(p->t, state, (uint32_t)id);
}

/* Names the frames of a copied stack, unless it is the same as in the last round. */
static enum python_result name_frames(struct pass *p, struct python_thread *thread,
				      enum python_walk_result walked)
{
	struct python_targets *ts = p->ts;
	struct python_target *t = p->t;

	for (int i = 0; walked == PYTHON_WALK_WHOLE && i < NAME_TRIES; i++) {
		if (same_frames(thread, &ts->stack))
			return PYTHON_RESULT_SAME;
		if (python_codes_name(t->codes, &t->memory, &t->interpreter.layout, ts->functions,
				      &ts->stack)) {
			keep_frames(thread, &ts->stack);
			return PYTHON_RESULT_NEW;
		}
		walked = python_walk_thread(ts->walk, thread->state, &thread->hint, &ts->stack);
	}
	return PYTHON_RESULT_TORN;
}

/* Checked only now and then, since reading that clock is not cheap. */
static bool is_too_long(const struct pass *p)
{
	return p->n_threads % CLOCK_EVERY == 0 && now_thread_cpu_ns() > p->until_cpu_ns;
}

/* Returns the next thread's state; 0 at the end. */
static uint64_t sample_thread(struct pass *p, uint64_t state)
{
	struct python_thread *thread = find_thread(p, state);
	struct python_hint hint = { 0 };
	enum python_walk_result walked;
	int64_t raw_ns = now_raw_ns();
	uint64_t next;

	if (thread && thread->round == p->t->rounds) {
		p->is_broken = true; /* a circle */
		return 0;
	}
	if (p->n_threads++ == PYTHON_THREADS_MAX || is_too_long(p)) {
		p->is_broken = p->is_crowded = true;
		return 0;
	}
	if (thread)
		hint = thread->hint;
	walked = python_walk_thread(p->ts->walk, state, &hint, &p->ts->stack);
	if (walked == PYTHON_WALK_GONE) {
		p->is_broken = true;
		return 0;
	}
	next = python_walk_next(p->ts->walk);
	thread = adopt_thread(p, thread, state);
	if (thread) {
		thread->hint = hint;
		thread->raw_ns = raw_ns;
		thread->result = name_frames(p, thread, walked);
		thread->round = p->t->rounds;
	}
	return next;
}

/* Reads the first thread's state of an interpreter, and which interpreter is next. */
static bool read_interpreter(const struct pass *p, uint64_t interpreter, uint64_t *threads,
			     uint64_t *next)
{
	const struct python_layout *l = &p->t->interpreter.layout;
	const struct python_range ranges[2] = {
		{ interpreter + l->interpreter_threads, threads, sizeof(*threads) },
		{ interpreter + l->interpreter_next, next, sizeof(*next) },
	};

	return p->t->memory.read(p->t->memory.arg, ranges, 2) == 2 * sizeof(uint64_t);
}

/* The same for the first interpreter, with a single call if it is still where the round before found it. */
static bool read_first_interpreter(struct pass *p, uint64_t *threads, uint64_t *next)
{
	const struct python_layout *l = &p->t->interpreter.layout;
	uint64_t guess = p->t->first_interpreter, first = 0;
	const struct python_range ranges[3] = {
		{ p->t->interpreter.runtime + l->interpreters, &first, sizeof(first) },
		{ guess + l->interpreter_threads, threads, sizeof(*threads) },
		{ guess + l->interpreter_next, next, sizeof(*next) },
	};
	int64_t got = p->t->memory.read(p->t->memory.arg, ranges, guess ? 3 : 1);

	if (got < (int64_t)sizeof(first))
		p->t->has_ended = true; /* or it runs another program by now */
	p->t->first_interpreter = first;
	if (first && first == guess && got == 3 * sizeof(uint64_t))
		return true;
	return first && read_interpreter(p, first, threads, next);
}

/* Forgets threads that ended. After a broken list it is unknown which those are: threads that were not met
 * then get torn samples. */
static void settle(struct pass *p)
{
	struct u32_map *map = &p->t->threads;
	uint32_t ended[64];
	size_t n = 0;

	for (size_t i = 0; i < map->n_slots; i++) {
		struct python_thread *thread = u32_map_at(map, i);

		if (!thread || thread->round == p->t->rounds)
			continue;
		thread->result = p->is_broken ? PYTHON_RESULT_TORN : PYTHON_RESULT_NONE;
		thread->raw_ns = now_raw_ns();
		if (thread->round + ENDED_AFTER < p->t->rounds && n < ARRAY_SIZE(ended))
			ended[n++] = key_of(thread->state);
	}
	while (n)
		thread_free(u32_map_remove(map, ended[--n]));
}

/* A list that was not followed to its end has at least one more thread, and no more than the process. Those that are known have a
 * torn sample. */
static uint64_t count_left_out(const struct python_target *t)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u/task", t->pid);
	if (!t->is_checked || stat(path, &st) || st.st_nlink < 3 + t->threads.n)
		return 1;
	return st.st_nlink - 2 - t->threads.n;
}

static int by_id_and_time(const void *a, const void *b)
{
	const struct python_thread *x = *(struct python_thread *const *)a;
	const struct python_thread *y = *(struct python_thread *const *)b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->raw_ns > y->raw_ns) - (x->raw_ns < y->raw_ns);
}

/* The state of a thread in a sub-interpreter keeps the id of the thread that made it, whichever runs it. The main interpreter is the
 * last of the list: of states with one id the last one is the thread's, and whose the others are is not known. */
static void drop_doubles(struct python_target *t)
{
	struct python_thread **v = xmalloc((t->threads.n + 1) * sizeof(struct python_thread *));
	size_t n = 0;

	for (size_t i = 0; i < t->threads.n_slots; i++) {
		struct python_thread *thread = u32_map_at(&t->threads, i);

		if (thread && thread->round == t->rounds)
			v[n++] = thread;
	}
	sort_array(v, n, sizeof(v[0]), by_id_and_time);
	for (size_t i = 0; i + 1 < n; i++) {
		if (v[i]->id != v[i + 1]->id)
			continue;
		v[i]->result = PYTHON_RESULT_NONE;
		t->left_out++;
	}
	free(v);
}

static void sample_target(struct python_targets *ts, struct python_target *t, int64_t now_cpu_ns)
{
	struct pass p = { .ts = ts, .t = t, .until_cpu_ns = now_cpu_ns + PROCESS_CPU_NS };
	uint64_t thread, next;
	size_t n = 0; /* interpreters */
	bool ok;

	t->rounds++;
	t->left_out = 0;
	python_walk_set(ts->walk, &t->memory, &t->interpreter.layout);
	ok = read_first_interpreter(&p, &thread, &next);
	for (; ok && n < INTERPRETERS_MAX; n++) {
		while (thread && !p.is_broken)
			thread = sample_thread(&p, thread);
		if (!next || p.is_broken)
			break;
		ok = read_interpreter(&p, next, &thread, &next);
	}
	p.is_broken |= !ok;
	t->is_crowded = p.is_crowded;
	if (p.is_crowded)
		t->left_out = count_left_out(t);
	settle(&p);
	if (n)
		drop_doubles(t);
}

void python_targets_sample(struct python_targets *ts, int64_t budget_ns)
{
	int64_t part_ns, cpu_ns = now_thread_cpu_ns();

	for (size_t i = 0; i < ts->n; i++)
		ts->costs_ns[i] = ts->v[i]->turn.cost_ns;
	part_ns = python_turns_part(ts->costs_ns, ts->n, budget_ns);
	for (size_t i = 0; i < ts->n; i++) {
		struct python_target *t = ts->v[i];
		int64_t before_ns = cpu_ns;

		t->every_rounds = python_turn_every(&t->turn, t->threads.n, part_ns);
		t->is_sampled = !t->has_ended && python_turn_begin(&t->turn, part_ns);
		if (!t->is_sampled)
			continue;
		python_targets_reading(ts, t->pid);
		sample_target(ts, t, before_ns);
		cpu_ns = now_thread_cpu_ns();
		python_turn_end(&t->turn, cpu_ns - before_ns);
		t->next_rounds = python_turn_rounds(&t->turn, part_ns);
	}
}

void python_targets_renew(struct python_targets *ts)
{
	for (size_t i = 0; i < ts->n; i++)
		for (size_t k = 0; k < ts->v[i]->threads.n_slots; k++) {
			struct python_thread *thread = u32_map_at(&ts->v[i]->threads, k);

			if (!thread)
				continue;
			free(thread->frames);
			thread->frames = NULL;
			thread->n_frames = 0;
		}
}

void python_targets_forget_functions(struct python_targets *ts, struct python_functions *functions)
{
	ts->functions = functions;
	for (size_t i = 0; i < ts->n; i++)
		python_codes_forget(ts->v[i]->codes);
	python_targets_renew(ts);
}
