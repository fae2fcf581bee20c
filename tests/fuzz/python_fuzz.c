/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Python process that lies: whatever its memory says, a round of samples ends, and stays inside what it may use. The
 * first bytes choose the version, how much of the memory can be read, and how often; the rest is the memory, over and over, so
 * that pointers lead into it, in circles too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/python/lines.h"
#include "agent/python/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAGE	   4096
#define TABLE_SIZE (64U << 10)

struct liar {
	uint8_t table[2 * TABLE_SIZE]; /* the input over and over */
	size_t len; /* of the input */
	uint64_t unreadable; /* each so manieth page; 0 = none */
	unsigned int reads_left; /* then the process has ended */
};

static void fill(struct liar *liar, const uint8_t *bytes, size_t len)
{
	size_t used = len < TABLE_SIZE ? len : TABLE_SIZE;

	liar->len = used;
	memcpy(liar->table, bytes, used);
	while (used < sizeof(liar->table)) {
		size_t more = used < sizeof(liar->table) - used ? used : sizeof(liar->table) - used;

		memcpy(liar->table + used, liar->table, more);
		used += more;
	}
}

/* Up to the end of a page; 0: it cannot be read. */
static size_t read_page(const struct liar *liar, uint64_t at, uint8_t *out, size_t len)
{
	size_t room = PAGE - at % PAGE;

	if (liar->unreadable && at / PAGE % liar->unreadable == 1)
		return 0;
	if (len > room)
		len = room;
	memcpy(out, liar->table + at % liar->len, len);
	return len;
}

static int64_t read_lies(void *arg, const struct python_range *ranges, size_t n)
{
	struct liar *liar = arg;
	int64_t got = 0;

	if (!liar->reads_left) {
		errno = ESRCH;
		return -1;
	}
	liar->reads_left--;
	for (size_t i = 0; i < n; i++) {
		for (size_t at = 0, read; at < ranges[i].len; at += read, got += (int64_t)read) {
			read = read_page(liar, ranges[i].address + at,
					 (uint8_t *)ranges[i].out + at, ranges[i].len - at);
			if (!read) {
				errno = EFAULT;
				return got ? got : -1;
			}
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
	static struct liar liar;

	if (size < 16)
		return 0;
	fill(&liar, data + 2, size - 2);
	liar.unreadable = data[1] % 16;
	liar.reads_left = 16U << data[1] / 64 * 2; /* mostly few, so that most runs are short */
	memory = (struct python_memory){ read_lies, &liar };
	python_lines_decode(&lines, liar.table, liar.len, data[1]);
	python_lines_release(&lines);
	if (python_layout_load(&interpreter.layout, versions[data[0] % 5], liar.table, liar.len,
			       NULL))
		return 0;
	functions = python_functions_new();
	targets = python_targets_new(functions, NULL);
	if (!python_targets_add(targets, 1, &memory, &interpreter))
		abort();
	for (int i = 0; i < 2; i++) {
		python_targets_sample(targets, INT64_MAX);
		check(targets, functions);
	}
	python_targets_free(targets);
	python_functions_free(functions);
	return 0;
}
