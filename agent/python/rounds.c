/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/rounds.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "base/reader.h"

/* with a longer period the rounds end instead of waiting for the next one */
#define PERIOD_LONG_NS (60 * NS_PER_MS)
#define BATCH_NS       (250 * NS_PER_MS) /* the rounds of this time are reported together */
#define SHARE	       50 /* of a CPU: one 50th */
/* CPU time beyond the share after which all rounds come later: the parts of the processes keep the share, but what they
 * need is not known before */
#define OVER_MAX_NS (100 * NS_PER_MS)
/* A round that is so much later than planned was not made because the agent did not run. */
#define STOP_NS NS_PER_S

struct python_rounds {
	struct python_board *board;
	struct python_functions *functions;
	uint32_t n_reported; /* of the functions */
	struct python_targets *targets;
	int hz; /* 0 = no samples */
	int64_t next_mono_ns; /* when the next round is due */
	int64_t period_ns; /* planned time between two rounds */
	int64_t cpu_ns; /* CPU time of the thread when the last round ended */
	int64_t over_ns; /* what rounds took beyond the share */
	struct handed *samples;
	size_t n_samples, cap_samples;
	struct handed_frame *frames;
	size_t n_frames, cap_frames;
	struct python_stop stop; /* since the last report */
	uint64_t left_out; /* samples of threads beyond the limits, since then */
};

struct python_rounds *python_rounds_new(const struct file_keeper *keeper,
					struct python_board *board)
{
	struct python_rounds *r = xcalloc(1, sizeof(*r));

	r->board = board;
	r->functions = python_functions_new();
	r->targets = python_targets_new(r->functions, keeper);
	r->n_reported = PYTHON_FUNCTION_CUT + 1;
	python_targets_show(r->targets, &board->reading);
	return r;
}

void python_rounds_free(struct python_rounds *r)
{
	if (!r)
		return;
	python_targets_free(r->targets);
	python_functions_free(r->functions);
	free(r->samples);
	free(r->frames);
	free(r);
}

void python_rounds_stop(struct python_rounds *r)
{
	python_targets_stop(r->targets);
}

/* ---- samples ---- */

static size_t keep_frames(struct python_rounds *r, const struct python_thread *thread)
{
	size_t first = r->n_frames;

	while (r->cap_frames < first + thread->n_frames) {
		r->cap_frames = r->cap_frames ? 2 * r->cap_frames : 1024;
		r->frames = xrealloc(r->frames, r->cap_frames * sizeof(*r->frames));
	}
	for (size_t i = 0; i < thread->n_frames; i++)
		r->frames[r->n_frames++] =
			(struct handed_frame){ .function = thread->frames[i].function,
					       .line = thread->frames[i].line,
					       .is_entry = thread->frames[i].is_entry };
	return first;
}

static uint32_t us_of_rounds(const struct python_rounds *r, uint32_t n)
{
	int64_t us = r->period_ns / NS_PER_US;

	return !n || us < UINT32_MAX / n ? (uint32_t)us * n : UINT32_MAX;
}

static void keep_sample(struct python_rounds *r, const struct python_target *t,
			const struct python_thread *thread)
{
	struct handed sample = { .serial = t->serial,
				 .tid = thread->tid,
				 .period_us = us_of_rounds(r, t->next_rounds),
				 .result = thread->result,
				 .raw_ns = thread->raw_ns,
				 .is_cut = thread->is_cut };

	memcpy(sample.name, thread->name, sizeof(sample.name));
	if (thread->result == PYTHON_RESULT_NEW) {
		sample.first = keep_frames(r, thread);
		sample.n = thread->n_frames;
	}
	if (r->n_samples == r->cap_samples) {
		r->cap_samples = r->cap_samples ? 2 * r->cap_samples : 64;
		r->samples = xrealloc(r->samples, r->cap_samples * sizeof(*r->samples));
	}
	r->samples[r->n_samples++] = sample;
}

static void keep_round(struct python_rounds *r)
{
	for (size_t i = 0; i < python_targets_count(r->targets); i++) {
		const struct python_target *t = python_targets_get(r->targets, i);

		if (t->is_sampled && !t->has_ended)
			r->left_out += t->left_out;
		for (size_t k = 0; t->is_sampled && !t->has_ended && k < t->threads.n_slots; k++) {
			const struct python_thread *thread = u32_map_at(&t->threads, k);

			if (thread && thread->result != PYTHON_RESULT_NONE)
				keep_sample(r, t, thread);
		}
	}
}

/* ---- rounds ---- */

/* The round just made came late_ns too late. */
static void note_stop(struct python_rounds *r, int64_t late_ns)
{
	struct python_stop *s = &r->stop;

	if (late_ns <= STOP_NS)
		return;
	s->to_raw_ns = now_raw_ns();
	if (!s->samples)
		s->from_raw_ns = s->to_raw_ns - late_ns;
	for (size_t i = 0; r->hz && i < python_targets_count(r->targets); i++) {
		const struct python_target *t = python_targets_get(r->targets, i);

		if (t->next_rounds)
			s->samples += (uint64_t)(late_ns / r->period_ns) * t->threads.n /
				      t->next_rounds;
	}
}

/* Adds what the round took; the period becomes longer if that is too much. */
static void take_account(struct python_rounds *r)
{
	int64_t cpu_ns = now_thread_cpu_ns();

	r->over_ns += cpu_ns - r->cpu_ns - r->period_ns / SHARE;
	r->cpu_ns = cpu_ns;
	if (r->over_ns < 0)
		r->over_ns = 0;
	if (r->over_ns > OVER_MAX_NS) {
		r->period_ns += (r->over_ns - OVER_MAX_NS) * SHARE;
		r->over_ns = OVER_MAX_NS;
	}
}

/* Makes one round and sets when the next is due: one period later. If rounds were missed, it is due half a period
 * from now. */
static void make_round(struct python_rounds *r)
{
	int64_t now;

	r->period_ns = r->hz && python_targets_count(r->targets) ? NS_PER_S / r->hz
								 : PYTHON_SCAN_EVERY_NS;
	if (r->hz)
		python_targets_sample(r->targets, r->period_ns / SHARE);
	take_account(r);
	if (r->hz)
		keep_round(r);
	now = now_mono_ns();
	r->next_mono_ns += r->period_ns;
	note_stop(r, now - r->next_mono_ns);
	if (r->next_mono_ns < now)
		r->next_mono_ns = now + r->period_ns / 2;
}

/* While new processes are examined, which takes seconds where many begin or CPUs are busy. */
static void make_due_round(void *arg)
{
	struct python_rounds *r = arg;

	if (!r->hz || now_mono_ns() < r->next_mono_ns ||
	    atomic_load_explicit(&r->board->end, memory_order_relaxed))
		return;
	r->cpu_ns = now_thread_cpu_ns();
	make_round(r);
}

static void make_rounds(struct python_rounds *r)
{
	int64_t until = r->next_mono_ns + BATCH_NS;

	if (r->next_mono_ns > now_mono_ns() + PERIOD_LONG_NS)
		return; /* one was made in the scan */
	now_sleep_until_mono(r->next_mono_ns);
	r->cpu_ns = now_thread_cpu_ns();
	make_round(r);
	while (r->period_ns <= PERIOD_LONG_NS && r->next_mono_ns < until) {
		now_sleep_until_mono(r->next_mono_ns);
		if (atomic_load_explicit(&r->board->end, memory_order_relaxed))
			break;
		make_round(r);
	}
}

/* ---- orders and reports ---- */

static void scan(struct python_rounds *r, const struct python_order *o, struct reader *in)
{
	const uint8_t *pids, *bytes;
	struct python_expected e;

	if (!reader_take(in, o->n_pids * sizeof(uint32_t), &pids))
		return;
	for (uint32_t i = 0; i < o->n_expected && reader_take(in, sizeof(e), &bytes); i++) {
		memcpy(&e, bytes, sizeof(e));
		python_targets_expect(r->targets, e.pid, e.serial);
	}
	python_targets_scan(r->targets, pids, o->n_pids, o->last_serial, make_due_round, r);
}

/* All functions have other numbers from now on. */
static void begin_anew(struct python_rounds *r)
{
	python_functions_free(r->functions);
	r->functions = python_functions_new();
	r->n_reported = PYTHON_FUNCTION_CUT + 1;
	python_targets_forget_functions(r->targets, r->functions);
}

static void report_sampled(const struct python_rounds *r, struct buf *out)
{
	for (size_t i = 0; i < python_targets_count(r->targets); i++) {
		const struct python_target *t = python_targets_get(r->targets, i);
		struct python_sampled sampled = { .serial = t->serial,
						  .pid = t->pid,
						  .minor = t->interpreter.layout.minor,
						  .period_us = us_of_rounds(r, t->every_rounds),
						  .has_ended = t->has_ended,
						  .is_crowded = t->is_crowded };

		memcpy(sampled.command, t->command, sizeof(sampled.command));
		buf_add(out, &sampled, sizeof(sampled));
	}
}

static void report_functions(struct python_rounds *r, struct buf *out)
{
	for (; r->n_reported < python_functions_count(r->functions); r->n_reported++) {
		const struct python_function *f = python_functions_get(r->functions, r->n_reported);
		const struct handed_function head = { f->first_line, (uint32_t)strlen(f->name),
						      (uint32_t)strlen(f->file) };

		buf_add(out, &head, sizeof(head));
		buf_add(out, f->name, head.name_len);
		buf_add(out, f->file, head.file_len);
	}
}

static void report(struct python_rounds *r, struct python_report *head, struct buf *out)
{
	head->next_mono_ns = r->next_mono_ns;
	head->stop = r->stop;
	head->left_out = r->left_out;
	head->unread = *python_targets_unread(r->targets);
	head->n_sampled = python_targets_count(r->targets);
	head->n_samples = r->n_samples;
	head->n_frames = r->n_frames;
	head->n_functions = python_functions_count(r->functions) - r->n_reported;
	buf_add(out, head, sizeof(*head));
	report_sampled(r, out);
	if (r->n_samples)
		buf_add(out, r->samples, r->n_samples * sizeof(*r->samples));
	if (r->n_frames)
		buf_add(out, r->frames, r->n_frames * sizeof(*r->frames));
	report_functions(r, out);
	r->n_samples = r->n_frames = 0;
	r->stop.samples = r->left_out = 0;
}

void python_rounds_make(struct python_rounds *r, const void *order, size_t len, struct buf *out)
{
	struct reader in = reader_of(order, len);
	int64_t began_cpu_ns = now_thread_cpu_ns();
	struct python_report head = { 0 };
	struct python_order o;
	const uint8_t *bytes;
	bool is_order = reader_take(&in, sizeof(o), &bytes);

	assert(is_order);
	memcpy(&o, bytes, sizeof(o));
	head.is_anew = o.must_forget_functions ||
		       python_functions_used(r->functions) >= PYTHON_FUNCTIONS_MUCH;
	if (head.is_anew)
		begin_anew(r);
	if (o.must_renew)
		python_targets_renew(r->targets);
	head.has_scanned = o.must_scan;
	r->hz = o.hz;
	r->next_mono_ns = o.next_mono_ns;
	if (o.must_scan)
		scan(r, &o, &in);
	make_rounds(r);
	atomic_store_explicit(&r->board->reading, 0, memory_order_relaxed);
	head.cpu_ns = now_thread_cpu_ns() - began_cpu_ns;
	report(r, &head, out);
}
