/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/marks/marks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/marks/steps.h"
#include "base/clean_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"

/* Marks arrive out of order by at most this much, since each process stamps its own. */
#define LATE_NS (MARK_AGE_NS + MARK_FUTURE_NS)

/* Limits the ring's file, so that a process that sends marks without end does not fill the spool. */
#define FILE_BYTES (64U << 20)

#define STEP_RING_BYTES (2U << 20)
#define STEP_RING_NS	(LIMIT_DURATION_NS + 60 * NS_PER_S)

/* Of the time that windows had which were gathered, as one interval; of late marks the oldest are exact. */
#define LATE_MAX 64

struct late {
	int64_t from_raw_ns, to_raw_ns;
	int64_t raw_ns[LATE_MAX];
	uint64_t n; /* may be more than LATE_MAX */
	uint64_t untold; /* not yet in the log */
	int64_t told_mono_ns;
};

#define TELL_EVERY_NS (60 * NS_PER_S)

struct marks {
	struct late late;
	struct ring *ring; /* of struct mark_bytes */
	struct ring *step_ring; /* of struct step_bytes */
	struct steps *steps;
};

struct mark_bytes {
	int32_t pid, tid;
	char text[LIMIT_MARK_BYTES + 1]; /* the record ends with the NUL */
};

struct step_bytes {
	int64_t step;
	int32_t pid, reserved;
};

struct marks *marks_new(const struct ring_limits *limits, int64_t begin_raw_ns)
{
	struct marks *m = xcalloc(1, sizeof(*m));

	m->ring = ring_new(&(struct ring_conf){ .limits = *limits,
						.file_bytes = FILE_BYTES,
						.late_ns = LATE_NS,
						.begin_raw_ns = begin_raw_ns });
	m->step_ring = ring_new(
		&(struct ring_conf){ .limits = { .bytes = STEP_RING_BYTES, .ns = STEP_RING_NS },
				     .record_bytes = sizeof(struct step_bytes),
				     .late_ns = LATE_NS,
				     .begin_raw_ns = begin_raw_ns });
	m->steps = steps_new();
	return m;
}

void marks_free(struct marks *m)
{
	if (!m)
		return;
	steps_free(m->steps);
	ring_free(m->step_ring);
	ring_free(m->ring);
	free(m);
}

void marks_add_step(struct marks *m, const struct step_mark *step)
{
	struct step_bytes bytes = { .step = step->step, .pid = step->pid };

	ring_add(m->step_ring, step->raw_ns, &bytes, sizeof(bytes));
	steps_add(m->steps, step);
}

void marks_add_counted(struct marks *m, int32_t pid, int64_t first, int64_t n, int64_t from_raw_ns,
		       int64_t to_raw_ns)
{
	struct step_bytes begin = { .pid = pid, .step = first };
	struct step_bytes end = { .pid = pid, .step = first + n };

	ring_add(m->step_ring, from_raw_ns, &begin, sizeof(begin));
	ring_add(m->step_ring, to_raw_ns, &end, sizeof(end));
	steps_set_counted(m->steps, pid, first, n, from_raw_ns, to_raw_ns);
}

/* ---- late marks ---- */

void marks_note_gathered(struct marks *m, int64_t t0_raw_ns, int64_t t1_raw_ns)
{
	struct late *l = &m->late;

	if (t0_raw_ns < l->from_raw_ns || t0_raw_ns > l->to_raw_ns)
		l->from_raw_ns = t0_raw_ns;
	if (t1_raw_ns > l->to_raw_ns)
		l->to_raw_ns = t1_raw_ns;
}

/* The next session counts them, too; perhaps there is none. */
static void tell_late(struct late *l, const struct mark *mark)
{
	int64_t now_ns = now_mono_ns();

	l->untold++;
	if (l->told_mono_ns && now_ns - l->told_mono_ns < TELL_EVERY_NS)
		return;
	log_warn("AGT-MARKS",
		 "late=%" PRIu64 " pid=%" PRId32 " late_ms=%" PRId64
		 " reason=\"a session of its time was gathered before it came: it is not there\"",
		 l->untold, mark->pid, (now_raw_ns() - mark->raw_ns) / NS_PER_MS);
	l->untold = 0;
	l->told_mono_ns = now_ns;
}

static void note_late(struct late *l, const struct mark *mark)
{
	if (mark->raw_ns < l->from_raw_ns || mark->raw_ns >= l->to_raw_ns)
		return;
	if (l->n < LATE_MAX)
		l->raw_ns[l->n] = mark->raw_ns;
	l->n++;
	tell_late(l, mark);
}

uint64_t marks_take_late(struct marks *m, int64_t raw_ns)
{
	struct late *l = &m->late;
	uint64_t n = l->n > LATE_MAX ? l->n - LATE_MAX : 0;

	for (uint64_t i = 0; i < l->n && i < LATE_MAX; i++)
		n += l->raw_ns[i] < raw_ns;
	l->n = 0;
	return n;
}

bool marks_add(struct marks *m, const struct mark *mark)
{
	struct mark_bytes bytes = { .pid = mark->pid, .tid = mark->tid };
	size_t len = clean_text(bytes.text, sizeof(bytes.text), mark->text, strlen(mark->text));
	struct step_mark step = { .raw_ns = mark->raw_ns, .pid = mark->pid };
	size_t name_len;
	bool kept = ring_add(m->ring, mark->raw_ns, &bytes,
			     offsetof(struct mark_bytes, text) + len + 1);

	if (kept)
		note_late(&m->late, mark);
	if (step_of_mark(bytes.text, &step.step, &name_len))
		marks_add_step(m, &step);
	return kept;
}

struct ring *marks_ring(const struct marks *m)
{
	return m->ring;
}

struct mark mark_of_record(const struct ring_record *record)
{
	const struct mark_bytes *bytes = record->data;

	return (struct mark){
		.raw_ns = record->raw_ns, .pid = bytes->pid, .tid = bytes->tid, .text = bytes->text
	};
}

/* ---- steps ---- */

struct step_list {
	struct step_mark *v;
	size_t n, cap;
};

static bool append_step_of_record(void *arg, const struct ring_record *record)
{
	const struct step_bytes *bytes = record->data;
	struct step_list *list = arg;

	if (list->n == list->cap) {
		list->cap = list->cap ? 2 * list->cap : 64;
		list->v = xrealloc(list->v, list->cap * sizeof(*list->v));
	}
	list->v[list->n++] = (struct step_mark){ .raw_ns = record->raw_ns,
						 .step = bytes->step,
						 .pid = bytes->pid };
	return true;
}

/* Marks arrive out of order: each process stamps its own. */
static int by_time(const void *a, const void *b)
{
	const struct step_mark *x = a, *y = b;

	return (x->raw_ns > y->raw_ns) - (x->raw_ns < y->raw_ns);
}

void marks_each_step(const struct marks *m, int64_t from_raw_ns, int64_t to_raw_ns,
		     void (*fn)(void *arg, const struct step_mark *step), void *arg)
{
	struct ring_cut *cut = ring_cut_new(m->step_ring, from_raw_ns, to_raw_ns);
	struct step_list list = { 0 };

	ring_cut_each(cut, append_step_of_record, &list);
	ring_cut_free(cut);
	sort_array(list.v, list.n, sizeof(*list.v), by_time);
	for (size_t i = 0; i < list.n; i++)
		fn(arg, &list.v[i]);
	free(list.v);
}

struct steps *marks_steps(const struct marks *m)
{
	return m->steps;
}
