/* SPDX-License-Identifier: Apache-2.0 */
/* What the rounds bring goes into the ring; stacks and threads that no sample has any more are forgotten, and no others. */
#include "agent/python/python_parts.h"

#include <string.h>

#include "agent/perf/stacks.h"
#include "base/mem.h"
#include "tests/lib/check.h"

#define NODES_MAX 2048
#define DEPTH	  100
#define MS	  INT64_C(1000000)

struct bed {
	struct python py;
	struct python_target target;
	int64_t raw_ns;
	uint32_t line; /* of the next frame: none is like another one */
};

static struct bed *bed_new(int64_t ring_ns)
{
	struct bed *b = xcalloc(1, sizeof(*b));

	b->py.ring = ring_new(
		&(struct ring_conf){ .limits = { .bytes = RING_BYTES_MIN, .ns = ring_ns },
				     .record_bytes = sizeof(struct sample_bytes),
				     .late_ns = MS });
	b->py.nodes_max = NODES_MAX;
	b->py.stacks = stacks_new(NODES_MAX);
	b->target.serial = 1;
	python_take_process(&b->py, &b->target);
	return b;
}

static void bed_free(struct bed *b)
{
	python_process_release(&b->py, 0);
	free(b->py.processes);
	free(b->py.threads);
	stacks_free(b->py.stacks);
	ring_free(b->py.ring);
	free(b);
}

static void take(struct bed *b, uint32_t tid, enum python_result result, size_t n_frames)
{
	struct python_frame frames[DEPTH] = { { 0 } };
	struct handed sample = { .serial = 1, .tid = tid, .result = result, .n = n_frames };

	for (size_t i = 0; i < n_frames; i++)
		frames[i] = (struct python_frame){ .function = 7, .line = ++b->line };
	sample.raw_ns = b->raw_ns += MS;
	python_take_sample(&b->py, &sample, frames);
}

/* So many stacks that the tree of stacks is full again and again. */
static void flood(struct bed *b, uint32_t tid)
{
	for (int i = 0; i < 10 * NODES_MAX / DEPTH; i++)
		take(b, tid, PYTHON_RESULT_NEW, DEPTH);
}

struct last {
	uint32_t tid, node;
};

static bool keep_last(void *arg, const struct ring_record *record)
{
	const struct sample_bytes *sample = record->data;
	struct last *last = arg;

	if (sample->tid == last->tid)
		last->node = sample->node;
	return true;
}

static uint32_t last_node(const struct bed *b, uint32_t tid)
{
	struct ring_cut *all = ring_cut_new(b->py.ring, INT64_MIN, INT64_MAX);
	struct last last = { tid, PYTHON_NODE_TORN };

	CHECK_EQ(ring_cut_each(all, keep_last, &last), 0);
	ring_cut_free(all);
	return last.node;
}

static void a_thread_that_waits_keeps_its_stack(void)
{
	struct bed *b = bed_new(64 * MS);
	uint32_t node;

	take(b, 77, PYTHON_RESULT_NEW, 3);
	node = last_node(b, 77);
	for (int i = 0; i < 10 * NODES_MAX / DEPTH; i++) {
		take(b, 78, PYTHON_RESULT_NEW, DEPTH);
		take(b, 77, PYTHON_RESULT_SAME, 0);
		CHECK_EQ(last_node(b, 77), node);
	}
	CHECK(b->py.is_swept);
	CHECK_EQ(stacks_node(b->py.stacks, node)->offset, 1);
	bed_free(b);
}

/* Its stack is freed with its last sample: it must be copied anew. */
static void a_stack_that_is_gone_is_not_taken_for_the_same(void)
{
	struct bed *b = bed_new(3600 * 1000 * MS);

	take(b, 77, PYTHON_RESULT_NEW, 3);
	flood(b, 78);
	CHECK(b->py.is_swept);
	take(b, 77, PYTHON_RESULT_SAME, 0);
	CHECK_EQ(last_node(b, 77), PYTHON_NODE_TORN);
	take(b, 77, PYTHON_RESULT_NEW, 3);
	CHECK(last_node(b, 77) != PYTHON_NODE_TORN);
	bed_free(b);
}

/* As in a server that begins a thread for each request. */
static void threads_that_ended_make_room(void)
{
	struct bed *b = bed_new(1000 * MS);

	for (uint32_t tid = 1; tid <= 50000; tid++) {
		take(b, tid, PYTHON_RESULT_NEW, 0);
		take(b, 1, PYTHON_RESULT_SAME, 0);
	}
	CHECK_EQ(last_node(b, 50000), STACK_EMPTY);
	CHECK_EQ(last_node(b, 1), STACK_EMPTY);
	CHECK(b->py.processes[0].n_threads < 20000);
	bed_free(b);
}

int main(void)
{
	a_thread_that_waits_keeps_its_stack();
	a_stack_that_is_gone_is_not_taken_for_the_same();
	threads_that_ended_make_room();
	return 0;
}
