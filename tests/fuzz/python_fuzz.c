/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Python process that lies: whatever its memory says, a round of samples ends, and stays inside what it may use. The
 * first bytes choose the version and how much of the memory can be read; the rest is the memory, over and over, so
 * that pointers lead into it, in circles too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/python/lines.h"
#include "agent/python/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct liar {
	const uint8_t *bytes;
	size_t len;
	uint64_t unreadable; /* each so manieth page; 0 = none */
};

static int64_t read_lies(void *arg, const struct python_range *ranges, size_t n)
{
	const struct liar *liar = arg;
	int64_t got = 0;

	for (size_t i = 0; i < n; i++) {
		uint8_t *out = ranges[i].out;

		for (size_t k = 0; k < ranges[i].len; k++) {
			uint64_t at = ranges[i].address + k;

			if (liar->unreadable && at / 4096 % liar->unreadable == 1) {
				errno = EFAULT;
				return got ? got : -1;
			}
			out[k] = liar->bytes[at % liar->len];
			got++;
		}
	}
	return got;
}

static void check(const struct python_targets *ts, const struct python_functions *fs)
{
	const struct python_target *t = python_targets_get(ts, 0);

	if (t->threads.n > PYTHON_THREADS_MAX)
		abort();
	for (size_t i = 0; i < t->threads.n_slots; i++) {
		const struct python_thread *thread = u32_map_at(&t->threads, i);

		if (thread && thread->n_frames > PYTHON_FRAMES_MAX)
			abort();
		for (size_t k = 0; thread && k < thread->n_frames; k++)
			if (thread->frames[k].function >= python_functions_count(fs))
				abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t versions[] = { 0x030b00f0, 0x030c00f0, 0x030d00f0, 0x030e00f0,
					     0x030f00f0 };
	struct python_interpreter interpreter = { .runtime = 0 };
	struct python_functions *functions;
	struct python_targets *targets;
	struct python_memory memory;
	struct python_lines lines;
	struct liar liar;

	if (size < 16)
		return 0;
	liar = (struct liar){ data + 2, size - 2, data[1] % 16 };
	memory = (struct python_memory){ read_lies, &liar };
	python_lines_decode(&lines, liar.bytes, liar.len, data[1]);
	python_lines_release(&lines);
	if (python_layout_load(&interpreter.layout, versions[data[0] % 5], liar.bytes, liar.len,
			       NULL))
		return 0;
	functions = python_functions_new();
	targets = python_targets_new(functions);
	if (!python_targets_add(targets, 1, &memory, &interpreter))
		abort();
	for (int i = 0; i < 2; i++) {
		python_targets_sample(targets);
		check(targets, functions);
	}
	python_targets_free(targets);
	python_functions_free(functions);
	return 0;
}
