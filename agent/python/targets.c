/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/targets.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pods/pod_view.h"
#include "agent/proc/command.h"
#include "base/clean_text.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/now.h"

#define INTERPRETERS_MAX 64
/* new threads of a process that one round takes: each needs a look into /proc */
#define NEW_THREADS_MAX 64
#define NAME_TRIES	4 /* how often a stack is copied until its code objects fit */
/* every so many scans, processes that ran no Python are examined again */
#define LOOK_EVERY 32
/* CPU time for one process in a round: it may have thousands of threads, or lie */
#define PROCESS_CPU_NS (50 * NS_PER_MS)
#define CLOCK_EVERY    16 /* threads between two checks of that time */
#define PIDS_MAX       65536
#define ENDED_AFTER    2 /* a thread that this many rounds did not meet has ended */

/* A process of the host, and what was found in it. */
struct known {
	uint32_t pid;
	uint64_t scan; /* the last scan that met it */
	int looks; /* how often it was examined */
	uint64_t exe; /* hash of its executable's path */
	int rc; /* result of the last examination */
	struct python_target *target; /* NULL: not sampled */
};

struct python_targets {
	struct python_functions *functions;
	struct python_files *files;
	struct python_walk *walk;
	struct python_stack stack;
	struct python_target **v;
	size_t n;
	struct u32_map known; /* by pid */
	struct python_unread unread;
	/* of processes of other users, at least one could be read; at least one could not */
	bool may_read, may_not;
	uint64_t scans, rounds;
	uint32_t last_serial;
};

struct python_targets *python_targets_new(struct python_functions *functions)
{
	struct python_targets *ts = xcalloc(1, sizeof(*ts));

	ts->functions = functions;
	ts->files = python_files_new();
	ts->walk = python_walk_new();
	ts->v = xcalloc(PYTHON_TARGETS_MAX, sizeof(struct python_target *));
	return ts;
}

static void thread_free(struct python_thread *t)
{
	free(t->frames);
	free(t);
}

static void target_free(struct python_target *t)
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
		target_free(ts->v[i]);
	free(ts->v);
	for (size_t i = 0; i < ts->known.n_slots; i++)
		free(u32_map_at(&ts->known, i));
	u32_map_release(&ts->known);
	python_walk_free(ts->walk);
	python_files_free(ts->files);
	free(ts);
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

/* The last number of the line "NSpid:\t4711\t12" of a status file, which is the innermost id; 0 = none. */
static uint32_t inner_id(const char *path, bool *is_nested)
{
	struct buf text = BUF_INIT;
	const char *line;
	uint32_t id = 0;
	int n = 0;

	if (!file_load(path, 16384, &text, NULL) && (line = strstr(buf_str(&text), "\nNSpid:"))) {
		char *at = (char *)line + 7;

		while (*at == '\t' || *at == ' ') {
			id = (uint32_t)strtoul(at, &at, 10);
			n++;
		}
	}
	*is_nested = n > 1;
	buf_release(&text);
	return id;
}

/* The host's id of the thread that the process knows as `id`; 0 if there is none. */
static uint32_t outer_id(const struct python_target *t, uint32_t id)
{
	char path[32], status[320];
	struct dirent *entry;
	uint32_t found = 0;
	bool is_nested;
	DIR *dir;

	if (!t->is_nested)
		return id;
	snprintf(path, sizeof(path), "/proc/%u/task", t->pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(status, sizeof(status), "%s/%s/status", path, entry->d_name);
		if (inner_id(status, &is_nested) == id)
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
	if (!thread->round || stack->n != thread->n_frames || stack->is_cut != thread->is_cut)
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
	int64_t until_cpu_ns; /* of the worker's thread; 0 = not known yet */
	/* a list could not be followed, or took too long: threads may be left out */
	bool is_broken;
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
	if (!id || id > INT32_MAX || p->n_new++ >= NEW_THREADS_MAX)
		return NULL;
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
static bool is_too_long(struct pass *p)
{
	int64_t now;

	if (p->n_threads % CLOCK_EVERY)
		return false;
	now = now_thread_cpu_ns();
	if (!p->until_cpu_ns)
		p->until_cpu_ns = now + PROCESS_CPU_NS;
	return now > p->until_cpu_ns;
}

/* Returns the next thread's state; 0 at the end. */
static uint64_t sample_thread(struct pass *p, uint64_t state)
{
	struct python_thread *thread = find_thread(p, state);
	struct python_hint hint = { 0 };
	enum python_walk_result walked;
	int64_t raw_ns = now_raw_ns();
	uint64_t next;

	if (p->n_threads++ == PYTHON_THREADS_MAX || is_too_long(p) ||
	    (thread && thread->round == p->ts->rounds)) {
		p->is_broken = true; /* too many threads, too much time, or a circle */
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
		thread->round = p->ts->rounds;
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

		if (!thread || thread->round == p->ts->rounds)
			continue;
		thread->result = p->is_broken ? PYTHON_RESULT_TORN : PYTHON_RESULT_NONE;
		thread->raw_ns = now_raw_ns();
		if (thread->round + ENDED_AFTER < p->ts->rounds && n < ARRAY_SIZE(ended))
			ended[n++] = key_of(thread->state);
	}
	while (n)
		thread_free(u32_map_remove(map, ended[--n]));
}

static void sample_target(struct python_targets *ts, struct python_target *t)
{
	struct pass p = { .ts = ts, .t = t };
	uint64_t thread, next;
	bool ok;

	python_walk_set(ts->walk, &t->memory, &t->interpreter.layout);
	ok = read_first_interpreter(&p, &thread, &next);
	for (size_t i = 0; ok && i < INTERPRETERS_MAX; i++) {
		while (thread && !p.is_broken)
			thread = sample_thread(&p, thread);
		if (!next || p.is_broken)
			break;
		ok = read_interpreter(&p, next, &thread, &next);
	}
	p.is_broken |= !ok;
	settle(&p);
}

void python_targets_sample(struct python_targets *ts)
{
	ts->rounds++;
	for (size_t i = 0; i < ts->n; i++)
		if (!ts->v[i]->has_ended)
			sample_target(ts, ts->v[i]);
}

/* ---- which processes ---- */

/* What the process runs: the path of its executable or, if that is not visible, the process's name. */
static void read_program(uint32_t pid, char *out, size_t size)
{
	char path[48];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	len = readlink(path, out, size - 1);
	out[len > 0 ? len : 0] = '\0';
	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	if (len <= 0)
		file_first_line(path, out, size);
}

static bool is_named_python(const char *program)
{
	const char *slash = strrchr(program, '/');

	return !strncmp(slash ? slash + 1 : program, "python", 6);
}

static void read_command(struct python_target *t)
{
	struct buf text = BUF_INIT;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%u/cmdline", t->pid);
	(void)!file_load(path, 65536, &text, NULL);
	if (!proc_command(buf_str(&text), text.len < 4096 ? text.len : 4096, t->command,
			  sizeof(t->command)))
		snprintf(t->command, sizeof(t->command), "python");
	buf_release(&text);
}

static void note_unread(size_t *n, char why[200], const struct known *k, const struct err *e)
{
	++*n;
	snprintf(why, 200, "pid %u: %.180s", k->pid, e->msg);
}

static void look(struct python_targets *ts, struct known *k)
{
	struct python_memory memory = { python_memory_of_process, &k->pid };
	struct python_interpreter interpreter;
	struct python_target *t;
	char status[48];
	struct err e = { 0 };

	k->rc = python_interpreter_find(&interpreter, ts->files, k->pid, &memory, &e);
	if (k->rc == ERR_DENIED)
		note_unread(&ts->unread.denied, ts->unread.denied_why, k, &e);
	else if (k->rc == ERR_UNSUPPORTED)
		note_unread(&ts->unread.unsupported, ts->unread.unsupported_why, k, &e);
	if (k->rc)
		return;
	t = python_targets_add(ts, k->pid, &memory, &interpreter);
	if (!t)
		return;
	t->memory.arg = &t->pid;
	t->is_checked = true;
	snprintf(status, sizeof(status), "/proc/%u/status", k->pid);
	inner_id(status, &t->is_nested);
	read_command(t);
	k->target = t;
}

/* Tries to read the process, since capabilities, Yama and seccomp all decide. No process has memory at address 1, so
 * nothing is read. As root, the agent probes processes of all users, root's own too, since some have capabilities that
 * the agent lacks. */
static void probe(struct python_targets *ts, uint32_t pid)
{
	const struct python_range range = { 1, &(char){ 0 }, 1 };
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (ts->may_read || pid == (uint32_t)getpid() || stat(path, &st) ||
	    (geteuid() && st.st_uid == geteuid()))
		return;
	errno = 0;
	python_memory_of_process(&pid, &range, 1);
	ts->may_read |= errno == EFAULT;
	ts->may_not |= errno == EPERM;
}

/* Decides whether to examine a process in this scan: a new one if its name is Python's; each one once more in
 * the scan after that; later when it runs another program. Processes that cannot be read are examined in each
 * scan, to be counted. */
static void visit(struct python_targets *ts, uint32_t pid, const struct pod_view *pods)
{
	struct known *k = u32_map_get(&ts->known, pid);
	char program[512];

	if (pod_view_hides(pods, pid))
		return; /* as if it were not there */
	if (!k) {
		if (ts->known.n == PIDS_MAX)
			return;
		k = xcalloc(1, sizeof(*k));
		k->pid = pid;
		u32_map_set(&ts->known, pid, k);
		probe(ts, pid);
	}
	k->scan = ts->scans;
	if (k->target)
		return;
	if (k->looks >= 2 && k->rc != ERR_DENIED && k->rc != ERR_UNSUPPORTED &&
	    (pid + ts->scans) % LOOK_EVERY)
		return;
	read_program(pid, program, sizeof(program));
	if (k->exe != hash_text(program))
		k->looks = 0;
	k->exe = hash_text(program);
	if (program[0] && (is_named_python(program) || k->looks == 1))
		look(ts, k);
	if (k->looks < 2)
		k->looks++;
}

static void forget_targets(struct python_targets *ts)
{
	size_t n = 0;

	for (size_t i = 0; i < ts->n; i++) {
		struct python_target *t = ts->v[i];
		struct known *k = u32_map_get(&ts->known, t->pid);
		bool is_gone = t->has_ended || (t->is_checked && k && k->scan != ts->scans);

		if (!is_gone) {
			ts->v[n++] = t;
			continue;
		}
		if (k && k->target == t) {
			k->target = NULL;
			k->looks = 0;
		}
		target_free(t);
	}
	ts->n = n;
}

static void forget_known(struct python_targets *ts)
{
	uint32_t *gone = xcalloc(ts->known.n + 1, sizeof(*gone));
	size_t n = 0;

	for (size_t i = 0; i < ts->known.n_slots; i++) {
		const struct known *k = u32_map_at(&ts->known, i);

		if (k && k->scan != ts->scans)
			gone[n++] = k->pid;
	}
	while (n)
		free(u32_map_remove(&ts->known, gone[--n]));
	free(gone);
}

void python_targets_scan(struct python_targets *ts, const struct pod_view *pods)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	ts->scans++;
	ts->unread = (struct python_unread){ 0 };
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			visit(ts, (uint32_t)strtoul(entry->d_name, NULL, 10), pods);
	if (dir)
		closedir(dir);
	ts->unread.is_own_only = ts->may_not && !ts->may_read;
	forget_targets(ts);
	forget_known(ts);
}
