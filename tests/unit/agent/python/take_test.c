/* SPDX-License-Identifier: Apache-2.0 */
/* What the rounds bring goes into the ring; stacks and threads that no sample has any more are forgotten, and no others. */
#include "agent/python/python_parts.h"

#include <stdio.h>
#include <string.h>

#include "agent/perf/stacks.h"
#include "base/mem.h"
#include "tests/lib/check.h"

#define NODES_MAX 2048
#define DEPTH	  100
#define MS	  INT64_C(1000000)

struct bed {
	struct python py;
	int64_t raw_ns;
	uint32_t line; /* of the next frame: none is like another one */
};

static struct bed *bed_new(int64_t ring_ns, uint64_t ring_bytes)
{
	struct bed *b = xcalloc(1, sizeof(*b));

	b->py.ring = ring_new(&(struct ring_conf){ .limits = { .bytes = ring_bytes, .ns = ring_ns },
						   .record_bytes = sizeof(struct sample_bytes),
						   .late_ns = MS });
	b->py.nodes_max = NODES_MAX;
	b->py.stacks = stacks_new(NODES_MAX);
	python_take_process(&b->py, &(struct python_sampled){ .serial = 1 });
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
	struct handed_frame frames[DEPTH] = { { 0 } };
	struct handed sample = { .serial = 1, .tid = tid, .result = result, .n = n_frames };

	for (size_t i = 0; i < n_frames; i++)
		frames[i] = (struct handed_frame){ .function = 7, .line = ++b->line };
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
	struct bed *b = bed_new(64 * MS, RING_BYTES_MIN);
	uint32_t node;

	take(b, 77, PYTHON_RESULT_NEW, 3);
	node = last_node(b, 77);
	for (int i = 0; i < 10 * NODES_MAX / DEPTH; i++) {
		take(b, 78, PYTHON_RESULT_NEW, DEPTH);
		take(b, 77, PYTHON_RESULT_SAME, 0);
		CHECK_EQ(last_node(b, 77), node);
	}
	CHECK(b->py.must_renew);
	CHECK_EQ(stacks_node(b->py.stacks, node)->offset, 1);
	bed_free(b);
}

/* Its stack is freed with its last sample: it must be copied anew. */
static void a_stack_that_is_gone_is_not_taken_for_the_same(void)
{
	struct bed *b = bed_new(3600 * 1000 * MS, RING_BYTES_MIN);

	take(b, 77, PYTHON_RESULT_NEW, 3);
	flood(b, 78);
	CHECK(b->py.must_renew);
	take(b, 77, PYTHON_RESULT_SAME, 0);
	CHECK_EQ(last_node(b, 77), PYTHON_NODE_TORN);
	take(b, 77, PYTHON_RESULT_NEW, 3);
	CHECK(last_node(b, 77) != PYTHON_NODE_TORN);
	bed_free(b);
}

static bool find_name(void *arg, const struct ring_record *record)
{
	const struct sample_bytes *sample = record->data;
	const struct bed *b = arg;
	const struct python_process *p = &b->py.processes[0];
	uintptr_t place = (uintptr_t)u32_map_get(&b->py.threads[0].places, sample->tid);

	if (sample->node != PYTHON_NODE_TORN)
		CHECK(place && place <= p->n_threads && p->threads[place - 1].tid == sample->tid);
	return true;
}

/* Each thread with a stack in the ring is known, and no tid twice. */
static void check_names(struct bed *b)
{
	struct ring_cut *all = ring_cut_new(b->py.ring, INT64_MIN, INT64_MAX);

	CHECK_EQ(ring_cut_each(all, find_name, b), 0);
	CHECK_EQ(b->py.threads[0].places.n, b->py.processes[0].n_threads);
	CHECK(b->py.processes[0].n_threads <= THREADS_KNOWN);
	ring_cut_free(all);
}

/* As in a server that begins a thread for each request. */
static void threads_that_ended_make_room(void)
{
	struct bed *b = bed_new(1000 * MS, RING_BYTES_MIN);

	for (uint32_t tid = 1; tid <= 50000; tid++) {
		take(b, tid, PYTHON_RESULT_NEW, 0);
		take(b, 1, PYTHON_RESULT_SAME, 0);
	}
	CHECK_EQ(last_node(b, 50000), STACK_EMPTY);
	CHECK_EQ(last_node(b, 1), STACK_EMPTY);
	check_names(b);
	bed_free(b);
}

/* Threads of which there are samples are not forgotten for others: those get torn samples until there is room, and then their stack is
 * asked for, even if they have not moved. */
static void too_many_threads(void)
{
	const uint32_t late = THREADS_KNOWN + 1;
	struct bed *b = bed_new(20000 * MS, 16 << 20);

	for (uint32_t tid = 1; tid < late; tid++)
		take(b, tid, PYTHON_RESULT_NEW, 0);
	take(b, late, PYTHON_RESULT_NEW, 3);
	CHECK_EQ(last_node(b, late), PYTHON_NODE_TORN);
	CHECK_EQ(b->py.processes[0].n_threads, THREADS_KNOWN);
	CHECK(!b->py.must_renew);
	for (int i = 0; i < 30000; i++)
		take(b, 2, PYTHON_RESULT_SAME, 0);
	take(b, late, PYTHON_RESULT_SAME, 0);
	CHECK_EQ(last_node(b, late), PYTHON_NODE_TORN);
	CHECK(b->py.must_renew);
	take(b, late, PYTHON_RESULT_NEW, 3);
	CHECK(last_node(b, late) != PYTHON_NODE_TORN);
	take(b, 2, PYTHON_RESULT_SAME, 0);
	CHECK_EQ(last_node(b, 2), STACK_EMPTY);
	check_names(b);
	bed_free(b);
}

static uint32_t add_function(struct python_functions *fs, int number)
{
	char name[16];

	snprintf(name, sizeof(name), "f%d", number);
	return python_functions_add(fs, name, "a.py", 1);
}

/* A sample whose stack is one frame of this function; returns its node. */
static uint32_t take_function(struct bed *b, uint32_t tid, uint32_t function)
{
	const struct handed_frame frame = { .function = function, .line = 1 };
	const struct handed sample = { .serial = 1,
				       .tid = tid,
				       .result = PYTHON_RESULT_NEW,
				       .raw_ns = b->raw_ns += MS,
				       .n = 1 };

	python_take_sample(&b->py, &sample, &frame);
	return last_node(b, tid);
}

/* Functions that no sample has make room, and no other: numbers that are given again name the new ones. */
static void functions_without_samples_make_room(void)
{
	struct bed *b = bed_new(3600 * 1000 * MS, RING_BYTES_MIN);
	struct python_functions *fs = python_functions_new();
	uint32_t kept = 0, node = 0, number;

	for (int i = 0; (number = add_function(fs, i)) != PYTHON_FUNCTION_MANY; i++) {
		if (i != 500)
			continue;
		kept = number;
		node = take_function(b, 77, number);
	}
	CHECK_EQ(python_functions_used(fs), PYTHON_FUNCTIONS_MAX);
	python_forget_functions(&b->py, fs);
	CHECK_EQ(python_functions_used(fs), 4); /* those that stand for others, and that one */
	CHECK(b->py.must_renew);
	CHECK_EQ(last_node(b, 77), node);
	CHECK_EQ(stacks_node(b->py.stacks, node)->image, kept);
	CHECK_EQ(add_function(fs, 500), kept);
	for (int i = 100000; (number = add_function(fs, i)) != PYTHON_FUNCTION_MANY; i++)
		CHECK(number != kept && number < PYTHON_FUNCTIONS_MAX);
	CHECK_EQ(python_functions_used(fs), PYTHON_FUNCTIONS_MAX);
	CHECK_STR(python_functions_get(fs, kept)->name, "f500");
	CHECK_STR(python_functions_get(fs, PYTHON_FUNCTION_CUT)->name, "[outer frames left out]");
	python_functions_free(fs);
	bed_free(b);
}

int main(void)
{
	a_thread_that_waits_keeps_its_stack();
	a_stack_that_is_gone_is_not_taken_for_the_same();
	threads_that_ended_make_room();
	too_many_threads();
	functions_without_samples_make_room();
	return 0;
}
