/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"

#define HEAPS	    2
#define LARGE_BYTES (256 << 10)
#define CHECK_NS    (4 * NS_PER_S)
/* the process must grow by this much: giving back less is not worth the page faults that follow */
#define GROWTH_BYTES ((uint64_t)4 << 20)

struct trim_job {
	struct memory *owner; /* loop's thread only; NULL when it is gone */
	uint64_t bytes;
};

struct memory {
	struct loop *loop;
	struct loop_timer timer;
	uint64_t trimmed_bytes; /* resident bytes after memory was last given back */
	struct trim_job *job; /* NULL: no worker gives memory back now */
};

void memory_set_up(void)
{
	mallopt(M_ARENA_MAX, HEAPS);
	/* A fixed limit: otherwise glibc raises it, large blocks come from heaps and leave holes in them. */
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
}

uint64_t memory_resident_bytes(void)
{
	unsigned long long size, resident;
	char line[128];

	if (!file_first_line("/proc/self/statm", line, sizeof(line)) ||
	    sscanf(line, "%llu %llu", &size, &resident) != 2)
		return 0;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* On a worker, because it takes milliseconds. */
static void trim(void *arg)
{
	struct trim_job *j = arg;

	malloc_trim(0);
	j->bytes = memory_resident_bytes();
}

static void trimmed(void *arg)
{
	struct trim_job *j = arg;

	if (j->owner) {
		j->owner->trimmed_bytes = j->bytes;
		j->owner->job = NULL;
	}
	free(j);
}

static void on_timer(void *arg)
{
	struct memory *m = arg;

	loop_timer_in(m->loop, &m->timer, CHECK_NS, on_timer, m);
	if (m->job || memory_resident_bytes() < m->trimmed_bytes + GROWTH_BYTES)
		return;
	m->job = xcalloc(1, sizeof(*m->job));
	m->job->owner = m;
	loop_work(m->loop, trim, trimmed, m->job);
}

struct memory *memory_new(struct loop *loop)
{
	struct memory *m = xcalloc(1, sizeof(*m));

	m->loop = loop;
	loop_timer_in(loop, &m->timer, CHECK_NS, on_timer, m);
	return m;
}

void memory_free(struct memory *m)
{
	if (!m)
		return;
	loop_timer_cancel(m->loop, &m->timer);
	if (m->job)
		m->job->owner = NULL;
	free(m);
}
