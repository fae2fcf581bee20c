/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/rings.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

struct perf_ring_watch {
	struct perf_ring ring;
	struct loop_watch *watch;
	struct perf_rings *owner;
};

int perf_rings_open(struct perf_rings *rs, const struct perf_source *source, int *errno_value,
		    struct err *e)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int rc;

	*rs = (struct perf_rings){ .scratch = BUF_INIT };
	rs->v = xcalloc(cpus > 0 ? (size_t)cpus : 1, sizeof(*rs->v));
	for (int cpu = 0; cpu < cpus; cpu++) {
		errno = 0;
		rc = perf_ring_open(&rs->v[rs->n].ring, cpu, source, e);
		if (rc == ERR_NOT_FOUND)
			continue;
		if (rc) {
			*errno_value = errno;
			return rc;
		}
		rs->v[rs->n++].owner = rs;
	}
	return 0;
}

int perf_rings_add_tracepoint(struct perf_rings *rs, uint32_t id, int *errno_value, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < rs->n && !rc; i++)
		rc = perf_ring_add_tracepoint(&rs->v[i].ring, id, e);
	if (!rc)
		return 0;
	*errno_value = errno;
	for (size_t i = 0; i < rs->n; i++)
		perf_ring_drop_tracepoint(&rs->v[i].ring);
	return rc;
}

void perf_rings_close(struct perf_rings *rs)
{
	for (size_t i = 0; i < rs->n; i++) {
		loop_unwatch(rs->v[i].watch);
		perf_ring_close(&rs->v[i].ring);
	}
	free(rs->v);
	buf_release(&rs->scratch);
	*rs = (struct perf_rings){ .scratch = BUF_INIT };
}

/* Runs when a ring is half full, or its CPU went offline. */
static void on_ring(void *arg, uint32_t events)
{
	struct perf_ring_watch *w = arg;

	w->owner->due(w->owner->arg);
	if (events & (EPOLLERR | EPOLLHUP)) {
		loop_unwatch(w->watch);
		w->watch = NULL;
	}
}

void perf_rings_start(struct perf_rings *rs, struct loop *loop, void (*due)(void *arg), void *arg)
{
	struct err e;

	rs->due = due;
	rs->arg = arg;
	for (size_t i = 0; i < rs->n; i++) {
		struct perf_ring_watch *w = &rs->v[i];

		/* Without the watch the reader's timer still empties the ring. */
		if (loop_watch(loop, w->ring.fd, EPOLLIN, on_ring, w, &w->watch, &e))
			log_warn("AGENT-PERF", "cpu=%d reason=\"%s\"", w->ring.cpu, e.msg);
		perf_ring_enable(&w->ring, true);
	}
}

void perf_rings_pause(struct perf_rings *rs, bool paused)
{
	for (size_t i = 0; i < rs->n; i++)
		perf_ring_enable(&rs->v[i].ring, !paused);
}

void perf_rings_take(struct perf_rings *rs, perf_rings_fn fn, void *arg)
{
	for (size_t i = 0; i < rs->n; i++) {
		buf_reset(&rs->scratch);
		perf_ring_take(&rs->v[i].ring, &rs->scratch);
		fn(arg, rs->v[i].ring.cpu, rs->scratch.data, rs->scratch.len);
	}
}

void perf_rings_explain(const struct perf_rings *rs, const struct err *e, char *out, size_t size)
{
	if (rs->n)
		snprintf(out, size, "only %zu CPUs are recorded: %.180s", rs->n, e->msg);
	else
		snprintf(out, size, "%.250s", e->msg);
}
