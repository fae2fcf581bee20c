/* SPDX-License-Identifier: Apache-2.0 */
/* Python functions between the frames of C that a CPU sample has. */
#include "agent/tracer/cpu/python_frames.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"

#define FUNCTIONS 3
#define MS	  INT64_C(1000000)

/* Letters are functions of C by their code, "I" is the interpreter; digits are Python functions. */
static const char *merge(const struct python_frames *pf, uint32_t node, const char *native,
			 size_t max)
{
	static char text[64];
	bool is_interpreter[32];
	uint32_t names[64];
	size_t n = strlen(native);

	for (size_t i = 0; i < n; i++) {
		names[i] = (uint32_t)native[i];
		is_interpreter[i] = native[i] == 'I';
	}
	n = python_frames_merge(pf, node, names, is_interpreter, n, max);
	for (size_t i = 0; i < n; i++)
		text[i] = names[i] & PYTHON_NAME ? (char)('0' + (names[i] & ~PYTHON_NAME))
						 : (char)names[i];
	text[n] = '\0';
	return text;
}

/* Functions 1 .. 5, each called by the one before; C called 1 and 4. */
static struct python_node nodes[] = {
	{ 0 },
	{ .function = 1, .is_entry = true },
	{ .function = 2, .parent = 1 },
	{ .function = 3, .parent = 2 },
	{ .function = 4, .parent = 3, .is_entry = true },
	{ .function = 5, .parent = 4 },
};

static struct python_sample samples[] = {
	{ .raw_ns = 100 * MS, .process = 1, .tid = 7, .node = 3, .period_us = 10000 },
	{ .raw_ns = 110 * MS, .process = 1, .tid = 7, .node = 5, .period_us = 10000 },
	{ .raw_ns = 120 * MS,
	  .process = 1,
	  .tid = 7,
	  .node = PYTHON_NODE_TORN,
	  .period_us = 10000 },
	{ .raw_ns = 110 * MS, .process = 1, .tid = 9, .node = 1, .period_us = 50000 },
	{ .raw_ns = 110 * MS, .process = 2, .tid = 3, .node = 2, .period_us = 10000 },
};

static struct python_function functions[FUNCTIONS] = {
	[0] = { (char *)"other", (char *)"", 1 },
	[1] = { (char *)"main", (char *)"/srv/job.py", 10 },
	[2] = { (char *)"step", (char *)"", 20 },
};

static const struct python_cut cut = {
	.samples = samples,
	.n_samples = sizeof(samples) / sizeof(samples[0]),
	.nodes = nodes,
	.n_nodes = sizeof(nodes) / sizeof(nodes[0]),
	.functions = functions,
	.n_functions = FUNCTIONS,
};

static void runs_stand_where_the_interpreter_does(const struct python_frames *pf)
{
	CHECK_STR(merge(pf, 5, "mIcIx", 60), "m123c45x");
	CHECK_STR(merge(pf, 3, "mIx", 60), "m123x");
	CHECK_STR(merge(pf, 3, "mI", 60), "m123");
}

static void a_walk_that_ended_early(const struct python_frames *pf)
{
	CHECK_STR(merge(pf, 5, "Ix", 60),
		  "12345x"); /* the outermost call stands for all that is left */
	CHECK_STR(merge(pf, 5, "x", 60), "12345x");
	CHECK_STR(merge(pf, 5, "", 60), "12345");
}

static void calls_without_python_functions_stay(const struct python_frames *pf)
{
	CHECK_STR(merge(pf, 3, "mIaIx", 60), "mIa123x");
}

static void deep_results_lose_the_outermost(const struct python_frames *pf)
{
	CHECK_STR(merge(pf, 5, "mIcIx", 4), "c45x");
}

static void the_nearest_sample_counts_within_its_period(const struct python_frames *pf)
{
	CHECK_EQ(python_frames_find(pf, 7, 104 * MS), 3);
	CHECK_EQ(python_frames_find(pf, 7, 106 * MS), 5);
	CHECK_EQ(python_frames_find(pf, 7, 91 * MS), 3);
	CHECK_EQ(python_frames_find(pf, 7, 89 * MS), 0);
	CHECK_EQ(python_frames_find(pf, 7, 118 * MS), 0); /* torn */
	CHECK_EQ(python_frames_find(pf, 9, 150 * MS), 1);
	CHECK_EQ(python_frames_find(pf, 3, 110 * MS), 2);
	CHECK_EQ(python_frames_find(pf, 4, 110 * MS), 0);
}

static void texts(const struct python_frames *pf)
{
	CHECK_STR(python_frames_text(pf, 1 | PYTHON_NAME), "main (job.py)");
	CHECK_STR(python_frames_text(pf, 2 | PYTHON_NAME), "step");
	CHECK(python_frames_is_interpreter("_PyEval_EvalFrameDefault.cold"));
	CHECK(!python_frames_is_interpreter("PyEval_EvalCode"));
}

int main(void)
{
	struct python_frames *pf = python_frames_new(&cut);

	runs_stand_where_the_interpreter_does(pf);
	a_walk_that_ended_early(pf);
	calls_without_python_functions_stay(pf);
	deep_results_lose_the_outermost(pf);
	the_nearest_sample_counts_within_its_period(pf);
	texts(pf);
	python_frames_free(pf);
	return 0;
}
