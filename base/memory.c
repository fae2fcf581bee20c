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
/* so much must have been freed: giving back less is not worth the page faults that follow */
#define FREED_BYTES ((uint64_t)4 << 20)

struct trim_job {
	struct memory *owner; /* loop's thread only; NULL when it is gone */
	uint64_t kept_bytes;
};

struct memory {
	struct loop *loop;
	struct loop_timer timer;
	uint64_t least_bytes; /* resident bytes, the least that was seen */
	/* free bytes that malloc() had when memory was last given back, or fewer: it has used some of them since */
	uint64_t kept_bytes;
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

/* On a worker, because it takes milliseconds. The size of the process does not say what can be given back: memory that
 * was in use at the last look may be free now. */
static void trim(void *arg)
{
	struct trim_job *j = arg;
	uint64_t free_bytes = mallinfo2().fordblks;

	if (free_bytes >= j->kept_bytes + FREED_BYTES) {
		malloc_trim(0);
		free_bytes = j->kept_bytes = mallinfo2().fordblks;
	}
	if (free_bytes < j->kept_bytes)
		j->kept_bytes = free_bytes;
}

static void trimmed(void *arg)
{
	struct trim_job *j = arg;

	if (j->owner) {
		j->owner->kept_bytes = j->kept_bytes;
		j->owner->job = NULL;
	}
	free(j);
}

static void on_timer(void *arg)
{
	struct memory *m = arg;
	uint64_t bytes = memory_resident_bytes();

	loop_timer_in(m->loop, &m->timer, CHECK_NS, on_timer, m);
	if (bytes < m->least_bytes)
		m->least_bytes = bytes;
	if (m->job || bytes < m->least_bytes + FREED_BYTES)
		return;
	m->job = xcalloc(1, sizeof(*m->job));
	m->job->owner = m;
	m->job->kept_bytes = m->kept_bytes;
	loop_work(m->loop, trim, trimmed, m->job);
}

struct memory *memory_new(struct loop *loop)
{
	struct memory *m = xcalloc(1, sizeof(*m));

	m->loop = loop;
	m->least_bytes = UINT64_MAX - FREED_BYTES;
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
