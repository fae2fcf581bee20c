/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks out of the memory of a process that a test makes, changes between copies, and makes lie. */
#include "agent/python/targets.h"

#include <string.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/fake_python.h"

#define PLENTY_NS INT64_MAX /* of CPU time for a round */

struct bed {
	struct fake_python *f;
	struct python_functions *functions;
	struct python_targets *targets;
	struct python_target *target;
	uint64_t thread; /* with three frames: main, middle, leaf */
	uint64_t main, middle, leaf; /* code */
	uint64_t frames[3];
};

static struct bed bed_new(void)
{
	struct bed b = { .f = fake_python_new(), .functions = python_functions_new() };

	b.targets = python_targets_new(b.functions, NULL);
	b.target = python_targets_add(b.targets, 4711, &b.f->memory, &b.f->interpreter);
	b.main = fake_python_code(b.f, "main", "/job.py", 10);
	b.middle = fake_python_code(b.f, "Model.forward", "/model.py", 100);
	b.leaf = fake_python_code(b.f, "leaf", "/model.py", 200);
	b.thread = fake_python_thread(b.f, 77);
	b.frames[0] = fake_python_push(b.f, b.thread, b.main, 0);
	b.frames[1] = fake_python_push(b.f, b.thread, b.middle, 1);
	b.frames[2] = fake_python_push(b.f, b.thread, b.leaf, 2);
	return b;
}

static void bed_free(struct bed *b)
{
	python_targets_free(b->targets);
	python_functions_free(b->functions);
	fake_python_free(b->f);
}

static struct python_thread *find(const struct bed *b, uint32_t id)
{
	for (size_t i = 0; i < b->target->threads.n_slots; i++) {
		struct python_thread *t = u32_map_at(&b->target->threads, i);

		if (t && t->id == id)
			return t;
	}
	return NULL;
}

static struct python_thread *sample(struct bed *b)
{
	python_targets_sample(b->targets, PLENTY_NS);
	return find(b, 77);
}

static void check_frame(const struct bed *b, const struct python_thread *t, size_t i,
			const char *name, const char *file, uint32_t line)
{
	const struct python_function *f;

	CHECK(i < t->n_frames);
	f = python_functions_get(b->functions, t->frames[i].function);
	CHECK_STR(f->name, name);
	CHECK_STR(f->file, file);
	CHECK_EQ(t->frames[i].line, line);
}

static void a_stack_is_read(void)
{
	struct bed b = bed_new();
	struct python_thread *t = sample(&b);

	CHECK_EQ(t->result, PYTHON_RESULT_NEW);
	CHECK_EQ(t->n_frames, 3);
	check_frame(&b, t, 0, "leaf", "/model.py", 203);
	check_frame(&b, t, 1, "Model.forward", "/model.py", 102);
	check_frame(&b, t, 2, "main", "/job.py", 11);
	CHECK(t->frames[2].is_entry && !t->frames[0].is_entry);
	bed_free(&b);
}

/* A thread that does not move costs one call, and the list of threads another. */
static void a_thread_that_waits_is_cheap(void)
{
	struct bed b = bed_new();

	sample(&b);
	sample(&b);
	b.f->reads = 0;
	CHECK_EQ(sample(&b)->result, PYTHON_RESULT_SAME);
	CHECK_EQ(b.f->reads, 2);
	bed_free(&b);
}

/* Numbers of functions that were freed name others: none of them is taken from what was known of the code objects. */
static void freed_functions_are_named_anew(void)
{
	static const bool keep[16];
	struct bed b = bed_new();
	struct python_thread *t;

	sample(&b);
	CHECK(python_functions_count(b.functions) < ARRAY_SIZE(keep));
	python_functions_sweep(b.functions, keep);
	python_targets_forget_functions(b.targets, b.functions);
	CHECK_EQ(python_functions_add(b.functions, "other", "/other.py", 1), 5);
	t = sample(&b);
	CHECK_EQ(t->result, PYTHON_RESULT_NEW);
	check_frame(&b, t, 0, "leaf", "/model.py", 203);
	check_frame(&b, t, 2, "main", "/job.py", 11);
	bed_free(&b);
}

static void a_renewed_thread_is_copied_anew(void)
{
	struct bed b = bed_new();
	struct python_thread *t;

	sample(&b);
	python_targets_renew(b.targets);
	t = sample(&b);
	CHECK_EQ(t->result, PYTHON_RESULT_NEW);
	CHECK_EQ(t->n_frames, 3);
	check_frame(&b, t, 0, "leaf", "/model.py", 203);
	CHECK_EQ(sample(&b)->result, PYTHON_RESULT_SAME);
	bed_free(&b);
}

static void another_code_object_at_the_address_is_noticed(void)
{
	struct bed b = bed_new();
	const struct python_layout *l = &b.f->interpreter.layout;

	sample(&b);
	fake_python_set(b.f, b.leaf + l->code_name, fake_python_text(b.f, "other"));
	fake_python_set(b.f, b.frames[2] + l->frame_instruction, b.leaf + l->code_instructions);
	check_frame(&b, sample(&b), 0, "other", "/model.py", 201);
	bed_free(&b);
}

/* The thread returned from leaf and middle, and called main again, which has no room there: what is read of leaf's
 * frame is old. */
static void frames_that_do_not_meet_are_torn(void)
{
	struct bed b = bed_new();
	const struct python_layout *l = &b.f->interpreter.layout;

	fake_python_set32(b.f, b.middle + l->code_locals, 60);
	CHECK_EQ(sample(&b)->result, PYTHON_RESULT_TORN);
	fake_python_set32(b.f, b.middle + l->code_locals, 6);
	CHECK_EQ(sample(&b)->result, PYTHON_RESULT_NEW);
	bed_free(&b);
}

static void an_instruction_beyond_the_code_is_torn(void)
{
	struct bed b = bed_new();
	const struct python_layout *l = &b.f->interpreter.layout;

	fake_python_set(b.f, b.frames[2] + l->frame_instruction,
			b.leaf + l->code_instructions + 1000);
	CHECK_EQ(sample(&b)->result, PYTHON_RESULT_TORN);
	bed_free(&b);
}

/* The process goes on between two copies: the frame becomes whole just then. */
static void mend(struct fake_python *f, void *arg)
{
	const struct bed *b = arg;

	if (f->reads == 6)
		fake_python_set(f, b->frames[2] + f->interpreter.layout.frame_code, b->leaf);
}

static void a_torn_copy_is_made_again(void)
{
	struct bed b = bed_new();

	fake_python_set(b.f, b.frames[2] + b.f->interpreter.layout.frame_code, 0);
	b.f->before_read = mend;
	b.f->arg = &b;
	CHECK_EQ(sample(&b)->result, PYTHON_RESULT_NEW);
	bed_free(&b);
}

static void wild_pointers_are_torn(void)
{
	static const uint64_t wild[] = { 8, 0x7f0000000001, UINT64_MAX - 7,
					 FAKE_PYTHON_BASE + FAKE_PYTHON_BYTES - 8,
					 0xffff800000000000 };

	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		struct bed b = bed_new();

		fake_python_set(b.f, b.frames[1] + b.f->interpreter.layout.frame_previous, wild[i]);
		CHECK_EQ(sample(&b)->result, PYTHON_RESULT_TORN);
		fake_python_set(b.f, b.frames[1] + b.f->interpreter.layout.frame_previous, 0);
		fake_python_set(b.f, b.leaf + b.f->interpreter.layout.code_name, wild[i]);
		CHECK_EQ(sample(&b)->result, PYTHON_RESULT_TORN);
		bed_free(&b);
	}
}

static void huge_lengths_are_torn_or_cut(void)
{
	struct bed b = bed_new();
	const struct python_layout *l = &b.f->interpreter.layout;
	uint64_t name = fake_python_get(b.f, b.leaf + l->code_name);
	uint64_t table = fake_python_get(b.f, b.leaf + l->code_table);

	fake_python_set(b.f, name + l->text_length, UINT64_MAX / 2);
	CHECK_EQ(sample(&b)->result, PYTHON_RESULT_TORN);
	fake_python_set(b.f, name + l->text_length, 4);
	fake_python_set(b.f, table + l->bytes_length, UINT64_MAX / 2);
	CHECK_EQ(sample(&b)->result, PYTHON_RESULT_NEW);
	bed_free(&b);
}

static void a_circle_of_frames_is_cut(void)
{
	struct bed b = bed_new();
	const struct python_layout *l = &b.f->interpreter.layout;
	struct python_thread *t;

	fake_python_set(b.f, b.frames[2] + l->frame_previous, b.frames[2]);
	t = sample(&b);
	CHECK(t->result == PYTHON_RESULT_TORN || (t->is_cut && t->n_frames <= PYTHON_FRAMES_MAX));
	bed_free(&b);
}

static void a_deep_stack_loses_its_outermost_frames(void)
{
	struct bed b = bed_new();
	struct python_thread *t;

	for (int i = 0; i < 90; i++)
		fake_python_push(b.f, b.thread, b.middle, 3);
	CHECK_EQ(sample(&b)->n_frames, 93);
	CHECK(!sample(&b)->is_cut);
	/* A second piece of stack would follow; frames elsewhere are read one by one. */
	t = sample(&b);
	check_frame(&b, t, 92, "main", "/job.py", 11);
	bed_free(&b);
}

static void threads_come_and_go(void)
{
	struct bed b = bed_new();
	uint64_t second = fake_python_thread(b.f, 78);
	const struct python_layout *l = &b.f->interpreter.layout;

	sample(&b);
	CHECK(find(&b, 77) && find(&b, 78));
	CHECK_EQ(find(&b, 78)->n_frames, 0);
	fake_python_set(b.f, b.f->first + l->interpreter_threads, b.thread);
	sample(&b);
	CHECK_EQ(find(&b, 78)->result, PYTHON_RESULT_NONE);
	for (int i = 0; i < 4; i++)
		sample(&b);
	CHECK(!find(&b, 78));
	/* Another thread in the same place. */
	fake_python_set(b.f, second + l->thread_id, 79);
	fake_python_set(b.f, b.f->first + l->interpreter_threads, second);
	sample(&b);
	CHECK(find(&b, 79) && find(&b, 77));
	bed_free(&b);
}

/* A state of a sub-interpreter, which another thread runs, has the id of the thread that made it. */
static void a_thread_has_one_state(void)
{
	struct bed b = bed_new();
	const struct python_layout *l = &b.f->interpreter.layout;
	uint64_t sub = FAKE_PYTHON_BASE + FAKE_PYTHON_BYTES / 2,
		 second = fake_python_thread(b.f, 77);

	fake_python_push(b.f, second, b.middle, 0);
	fake_python_set(b.f, sub + l->interpreter_threads, second);
	fake_python_set(b.f, sub + l->interpreter_next, b.f->first);
	fake_python_set(b.f, second + l->thread_next, 0);
	fake_python_set(b.f, b.f->first + l->interpreter_threads, b.thread);
	fake_python_set(b.f, b.f->interpreter.runtime + l->interpreters, sub);
	for (int round = 0; round < 2; round++) {
		python_targets_sample(b.targets, PLENTY_NS);
		CHECK_EQ(b.target->threads.n, 2);
		CHECK_EQ(b.target->left_out, 1);
		for (size_t i = 0; i < b.target->threads.n_slots; i++) {
			const struct python_thread *t = u32_map_at(&b.target->threads, i);

			CHECK(!t || (t->state == second) == (t->result == PYTHON_RESULT_NONE));
		}
	}
	bed_free(&b);
}

/* What could not be reached in a list that leads nowhere counts as torn. */
static void a_broken_list_of_threads_tears_the_rest(void)
{
	struct bed b = bed_new();
	uint64_t second = fake_python_thread(b.f, 78);
	const struct python_layout *l = &b.f->interpreter.layout;

	sample(&b);
	fake_python_set(b.f, second + l->thread_next, 8);
	sample(&b);
	CHECK_EQ(find(&b, 78)->result, PYTHON_RESULT_SAME);
	CHECK_EQ(find(&b, 77)->result, PYTHON_RESULT_TORN);
	fake_python_set(b.f, second + l->thread_next, second);
	sample(&b);
	CHECK_EQ(find(&b, 77)->result, PYTHON_RESULT_TORN);
	bed_free(&b);
}

/* A round takes a number of new threads: the others have no sample yet, and are counted. */
static void new_threads_beyond_those_of_a_round_are_counted(void)
{
	struct bed b = bed_new();

	for (uint32_t id = 100; id < 169; id++)
		fake_python_thread(b.f, id);
	sample(&b);
	CHECK_EQ(b.target->left_out, 6);
	CHECK(!b.target->is_crowded && !find(&b, 77));
	CHECK(sample(&b));
	CHECK_EQ(b.target->left_out, 0);
	bed_free(&b);
}

/* The first copy of a round takes as long as a whole round may. */
static void take_long(struct fake_python *f, void *arg)
{
	int64_t until_ns = now_thread_cpu_ns() + 60 * NS_PER_MS;

	(void)arg;
	while (now_thread_cpu_ns() < until_ns)
		;
	f->before_read = NULL;
}

/* The thread that began first is the last of the list, which was not followed to there. */
static void threads_beyond_the_limits_are_counted(void)
{
	struct bed b = bed_new();

	for (uint32_t id = 100; id < 115; id++)
		fake_python_thread(b.f, id);
	b.f->before_read = take_long;
	CHECK(!sample(&b));
	CHECK(b.target->is_crowded && find(&b, 100));
	CHECK_EQ(b.target->left_out, 1);
	CHECK(sample(&b));
	CHECK(!b.target->is_crowded);
	CHECK_EQ(b.target->left_out, 0);
	bed_free(&b);
}

static void a_process_that_is_gone_has_ended(void)
{
	struct bed b = bed_new();

	sample(&b);
	b.target->interpreter.runtime = 64;
	sample(&b);
	CHECK(b.target->has_ended);
	bed_free(&b);
}

int main(void)
{
	a_stack_is_read();
	freed_functions_are_named_anew();
	a_thread_that_waits_is_cheap();
	a_renewed_thread_is_copied_anew();
	another_code_object_at_the_address_is_noticed();
	frames_that_do_not_meet_are_torn();
	an_instruction_beyond_the_code_is_torn();
	a_torn_copy_is_made_again();
	wild_pointers_are_torn();
	huge_lengths_are_torn_or_cut();
	a_circle_of_frames_is_cut();
	a_deep_stack_loses_its_outermost_frames();
	threads_come_and_go();
	a_thread_has_one_state();
	a_broken_list_of_threads_tears_the_rest();
	new_threads_beyond_those_of_a_round_are_counted();
	threads_beyond_the_limits_are_counted();
	a_process_that_is_gone_has_ended();
	return 0;
}
