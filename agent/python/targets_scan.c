/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/targets_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/proc/command.h"
#include "agent/proc/status.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

/* every so many scans, processes that ran no Python are examined again */
#define LOOK_EVERY 32
/* and the command lines of others are read again: a program may begin another one in its place */
#define COMMAND_EVERY 4
#define PIDS_MAX      65536

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

/* One user's programs do not take all the room. */
static bool has_room(const struct python_targets *ts, uint32_t uid)
{
	size_t of_user = 0;

	for (size_t i = 0; i < ts->n; i++)
		of_user += ts->v[i]->uid == uid;
	return ts->n < PYTHON_TARGETS_MAX && of_user < PYTHON_PER_USER_MAX;
}

static void begin_target(struct python_targets *ts, struct known *k,
			 const struct python_memory *memory,
			 const struct python_interpreter *interpreter, bool is_nested)
{
	struct python_target *t = python_targets_add(ts, k->pid, memory, interpreter);

	t->uid = k->uid;
	if (k->serial)
		t->serial = k->serial;
	t->memory.arg = &t->pid;
	t->is_checked = true;
	t->is_nested = is_nested;
	read_command(t);
	k->target = t;
}

static void look(struct python_targets *ts, struct known *k)
{
	struct python_memory memory = { python_memory_of_process, &k->pid };
	struct python_interpreter interpreter;
	struct proc_status status;
	struct err e = { 0 };

	k->is_left_out = false;
	python_targets_reading(ts, k->pid);
	k->rc = python_interpreter_find(&interpreter, ts->files, k->pid, &memory, &e);
	if (k->rc == ERR_DENIED)
		note_unread(&ts->unread.denied, ts->unread.denied_why, k, &e);
	else if (k->rc == ERR_UNSUPPORTED || k->rc == ERR_TIMEOUT)
		note_unread(&ts->unread.unsupported, ts->unread.unsupported_why, k, &e);
	if (!k->rc && proc_status_of(k->pid, &status)) {
		k->uid = status.uid;
		k->is_left_out = !has_room(ts, k->uid);
		if (!k->is_left_out)
			begin_target(ts, k, &memory, &interpreter, status.is_nested);
	}
	k->serial = 0;
}

/* Tries to read the process, since capabilities, Yama and seccomp all decide. No process has memory at address 1, so
 * nothing is read. As root, the agent probes processes of all users, root's own too, since some have capabilities that
 * the agent lacks; not those that run its program, which are likely to be itself. */
static void probe(struct python_targets *ts, uint32_t pid)
{
	const struct python_range range = { 1, &(char){ 0 }, 1 };
	char path[32], program[512], own[512];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (ts->may_read || stat(path, &st) || (geteuid() && st.st_uid == geteuid()))
		return;
	read_program(pid, program, sizeof(program));
	read_program((uint32_t)getpid(), own, sizeof(own));
	if (!strcmp(program, own))
		return;
	errno = 0;
	python_memory_of_process(&pid, &range, 1);
	ts->may_read |= errno == EFAULT;
	ts->may_not |= errno == EPERM;
}

/* NULL: there are too many. */
static struct known *know(struct python_targets *ts, uint32_t pid)
{
	struct known *k = u32_map_get(&ts->known, pid);

	if (k || ts->known.n == PIDS_MAX)
		return k;
	k = xcalloc(1, sizeof(*k));
	k->pid = pid;
	u32_map_set(&ts->known, pid, k);
	return k;
}

void python_targets_expect(struct python_targets *ts, uint32_t pid, uint32_t serial)
{
	struct known *k = know(ts, pid);

	if (k)
		k->serial = serial;
}

/* Decides whether to examine a process in this scan: a new one if its name is Python's; each one once more in
 * the scan after that; later when it runs another program. Processes that cannot be read are examined in each
 * scan, to be counted. */
static void visit(struct python_targets *ts, uint32_t pid)
{
	struct known *k = know(ts, pid);
	char program[512];

	if (!k)
		return;
	if (!k->scan)
		probe(ts, pid);
	k->scan = ts->scans;
	if (k->target) {
		if ((pid + ts->scans) % COMMAND_EVERY == 0)
			read_command(k->target);
		return;
	}
	if (k->is_left_out && !has_room(ts, k->uid)) {
		ts->unread.left_out++;
		return;
	}
	if (k->looks >= 2 && k->rc != ERR_DENIED && k->rc != ERR_UNSUPPORTED &&
	    k->rc != ERR_TIMEOUT && !k->is_left_out && (pid + ts->scans) % LOOK_EVERY)
		return;
	read_program(pid, program, sizeof(program));
	if (k->exe != hash_text(program))
		k->looks = 0;
	k->exe = hash_text(program);
	if (program[0] &&
	    (is_named_python(program) || k->looks == 1 || k->is_left_out || k->serial))
		look(ts, k);
	if (k->looks < 2)
		k->looks++;
	ts->unread.left_out += k->is_left_out;
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
		python_target_free(t);
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

void python_targets_scan(struct python_targets *ts, const void *pids, size_t n,
			 uint32_t last_serial, void (*between)(void *arg), void *arg)
{
	uint32_t pid;

	ts->scans++;
	if (ts->last_serial < last_serial)
		ts->last_serial = last_serial;
	ts->unread = (struct python_unread){ 0 };
	python_files_begin(ts->files);
	for (size_t i = 0; i < n; i++) {
		memcpy(&pid, (const uint8_t *)pids + i * sizeof(pid), sizeof(pid));
		visit(ts, pid);
		between(arg);
	}
	ts->unread.is_own_only = ts->may_not && !ts->may_read;
	forget_targets(ts);
	forget_known(ts);
}
