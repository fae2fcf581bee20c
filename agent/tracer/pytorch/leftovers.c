/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/pytorch/leftovers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define BATCH_MAX 64 /* files that one job looks for */

struct leftover {
	uint64_t id;
	struct trace_place place;
	int64_t by_mono_ns;
	int64_t due_mono_ns, wait_ns;
};

/* A job of a worker: looks for some of the files. */
struct batch {
	struct leftovers *owner;
	struct leftover list[BATCH_MAX];
	bool is_last[BATCH_MAX];
	size_t n, removed[BATCH_MAX];
};

struct leftovers {
	struct loop *loop;
	struct loop_timer timer;
	struct leftover *list; /* the oldest first */
	size_t n;
	uint64_t last_id;
	bool is_looking; /* a worker has a job */
	struct far_files *files; /* the worker's */
};

static void set_timer(struct leftovers *l);

static void drop(struct leftovers *l, size_t i)
{
	memmove(&l->list[i], &l->list[i + 1], (--l->n - i) * sizeof(*l->list));
}

static void look_run(void *arg)
{
	struct batch *b = arg;
	struct far_files *files = b->owner->files;

	(void)far_files_begin(files);
	for (size_t i = 0; i < b->n; i++) {
		const struct trace_place *place = &b->list[i].place;

		b->removed[i] = *place->name ? trace_file_remove(files, place, b->is_last[i])
					     : trace_file_remove_others(files, place);
	}
}

/* Forgets a file that was removed. With the name "" it stays, because the process may write more. */
static void looked(struct leftovers *l, const struct leftover *found, bool is_last, size_t removed)
{
	size_t i = 0;

	if (removed)
		log_info("AGT-PYTORCH", "pid=%" PRId64 " state=cleaned files=%zu", found->place.pid,
			 removed);
	while (i < l->n && l->list[i].id != found->id)
		i++;
	if (i < l->n && (is_last || (removed && *found->place.name)))
		drop(l, i);
}

static void look_done(void *arg)
{
	struct batch *b = arg;
	struct leftovers *l = b->owner;

	l->is_looking = false;
	for (size_t i = 0; i < b->n; i++)
		looked(l, &b->list[i], b->is_last[i], b->removed[i]);
	free(b);
	set_timer(l);
}

static void look(void *arg)
{
	struct leftovers *l = arg;
	struct batch *b = xcalloc(1, sizeof(*b));
	int64_t now_ns = loop_now_ns(l->loop);

	b->owner = l;
	for (size_t i = 0; i < l->n && b->n < BATCH_MAX; i++) {
		struct leftover *o = &l->list[i];

		if (o->due_mono_ns > now_ns)
			continue;
		b->is_last[b->n] = now_ns >= o->by_mono_ns;
		b->list[b->n++] = *o;
		o->due_mono_ns = now_ns + o->wait_ns;
		o->wait_ns = o->wait_ns < LEFTOVERS_LAST_NS / 2 ? 2 * o->wait_ns
								: LEFTOVERS_LAST_NS;
		if (o->due_mono_ns > o->by_mono_ns && now_ns < o->by_mono_ns)
			o->due_mono_ns = o->by_mono_ns;
	}
	l->is_looking = true;
	loop_work(l->loop, look_run, look_done, b);
}

static void set_timer(struct leftovers *l)
{
	int64_t due_ns = INT64_MAX;

	loop_timer_cancel(l->loop, &l->timer);
	for (size_t i = 0; i < l->n; i++)
		due_ns = l->list[i].due_mono_ns < due_ns ? l->list[i].due_mono_ns : due_ns;
	if (l->n && !l->is_looking)
		loop_timer_at(l->loop, &l->timer, due_ns, look, l);
}

void leftovers_add(struct leftovers *l, const struct trace_place *place, int64_t by_mono_ns)
{
	if (l->n == LEFTOVERS_MAX)
		drop(l, 0);
	l->list[l->n++] = (struct leftover){ .id = ++l->last_id,
					     .place = *place,
					     .by_mono_ns = by_mono_ns,
					     .due_mono_ns = loop_now_ns(l->loop),
					     .wait_ns = LEFTOVERS_FIRST_NS };
	set_timer(l);
}

struct leftovers *leftovers_new(struct loop *loop, const struct file_keeper *keeper)
{
	struct leftovers *l = xcalloc(1, sizeof(*l));

	l->loop = loop;
	l->files = far_files_new(keeper);
	l->list = xcalloc(LEFTOVERS_MAX, sizeof(*l->list));
	return l;
}

void leftovers_free(struct leftovers *l)
{
	if (!l)
		return;
	l->n = 0;
	far_files_stop(l->files);
	while (l->is_looking)
		loop_turn(l->loop, 50);
	loop_timer_cancel(l->loop, &l->timer);
	far_files_free(l->files);
	free(l->list);
	free(l);
}
