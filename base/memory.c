/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"

#define HEAPS	 2
#define CHECK_NS (4 * NS_PER_S)
/* so much must have been freed: giving back less is not worth the page faults that follow */
#define FREED_BYTES (4 << 20)

/* What malloc() has handed out, and what it holds beyond that in resident memory: freed and kept, plus stacks, which
 * hardly change. Its own count of free bytes does not tell: it includes those that were given back and not touched
 * since. */
struct heap {
	int64_t used_bytes, unused_bytes;
};

struct trim_job {
	struct memory *owner; /* loop's thread only; NULL when it is gone */
	struct heap least;
};

struct memory {
	struct loop *loop;
	struct loop_timer timer;
	uint64_t least_bytes; /* resident bytes, the least that was seen */
	struct heap
		least; /* when memory was last given back; unused_bytes may have become less since */
	struct trim_job *job; /* NULL: no worker gives memory back now */
};

void memory_set_up(int large_bytes, int kept_bytes)
{
	mallopt(M_ARENA_MAX, HEAPS);
	/* A fixed limit: otherwise glibc raises it, large blocks come from heaps and leave holes in them. */
	mallopt(M_MMAP_THRESHOLD, large_bytes);
	mallopt(M_TRIM_THRESHOLD, kept_bytes);
}

struct pages {
	unsigned long long all, resident, of_files; /* of_files: resident and mapped from a file */
};

static bool read_pages(struct pages *p)
{
	char line[128];

	return file_first_line("/proc/self/statm", line, sizeof(line)) &&
	       sscanf(line, "%llu %llu %llu", &p->all, &p->resident, &p->of_files) == 3;
}

uint64_t memory_resident_bytes(void)
{
	struct pages p;

	return read_pages(&p) ? p.resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static struct heap read_heap(void)
{
	struct mallinfo2 m = mallinfo2();
	struct heap h = { .used_bytes = (int64_t)(m.uordblks + m.hblkhd) };
	struct pages p;

	if (read_pages(&p))
		h.unused_bytes = (int64_t)(p.resident - p.of_files) * sysconf(_SC_PAGESIZE) -
				 h.used_bytes;
	return h;
}

/* On a worker, because it takes milliseconds. The size of the process does not say what can be given back: memory that
 * was in use at the last look may be free now. What was freed may lie on pages that others still used when memory was
 * last given back; hence the look at what is in use, too. */
static void trim(void *arg)
{
	struct trim_job *j = arg;
	struct heap now = read_heap();

	if (now.unused_bytes >= j->least.unused_bytes + FREED_BYTES ||
	    now.used_bytes + FREED_BYTES <= j->least.used_bytes) {
		malloc_trim(0);
		j->least = now = read_heap();
	}
	if (now.unused_bytes < j->least.unused_bytes)
		j->least.unused_bytes = now.unused_bytes;
}

static void trimmed(void *arg)
{
	struct trim_job *j = arg;

	if (j->owner) {
		j->owner->least = j->least;
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
	m->job->least = m->least;
	loop_work(m->loop, trim, trimmed, m->job);
}

struct memory *memory_new(struct loop *loop)
{
	struct memory *m = xcalloc(1, sizeof(*m));

	m->loop = loop;
	m->least_bytes = memory_resident_bytes();
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
