/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/pod_failures.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/captures/capture.h"
#include "aggregator/pods/pods.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define GATHER_NS    (500 * NS_PER_MS)
#define PAUSE_NS     (60 * NS_PER_S) /* of one host, from one snapshot to the next */
#define REMEMBERED   4096 /* places for hosts that had one; two hosts may share a place */
#define HOSTS_MOST   256 /* of one snapshot */
#define ORIGIN_BYTES 300

struct pod_failures {
	struct loop *loop;
	struct captures *captures;
	struct loop_timer timer;
	struct buf hosts; /* of the next snapshot: "host-a,host-b" */
	size_t n_hosts;
	int64_t duration_ns;
	char origin[ORIGIN_BYTES]; /* of the first failure */
	int64_t last_mono_ns[REMEMBERED]; /* by the hash of the host; 0 = never */
};

static void take_snapshot(void *arg)
{
	struct pod_failures *f = arg;
	const struct capture_request req = { .hosts = buf_str(&f->hosts),
					     .run = "pod-failures",
					     .duration_ns = f->duration_ns,
					     .snapshot = true,
					     .origin = f->origin };
	struct capture *c;
	struct err e;

	if (capture_begin(f->captures, &req, &c, &e))
		log_warn("POD-FAILED", "hosts=%s state=no-snapshot reason=\"%s\"",
			 buf_str(&f->hosts), e.msg);
	else
		log_info("POD-FAILED", "hosts=%s session=%s", buf_str(&f->hosts), c->session);
	buf_release(&f->hosts);
	f->n_hosts = 0;
	f->duration_ns = 0;
}

/* Why the next snapshot is without the host; NULL if it takes part. */
static const char *refuse_host(struct pod_failures *f, const char *host)
{
	int64_t *last = &f->last_mono_ns[hash_text(host) % REMEMBERED], now = loop_now_ns(f->loop);

	if (*last && now - *last < PAUSE_NS)
		return "its host, or one that shares its place in the table, had a snapshot within "
		       "a minute";
	if (f->n_hosts == HOSTS_MOST)
		return "the snapshot has as many hosts as it may";
	*last = now;
	return NULL;
}

static void on_failure(void *arg, const struct pod *pod, const char *host, const char *what)
{
	struct pod_failures *f = arg;
	const char *refused = refuse_host(f, host);

	if (refused) {
		log_info("POD-FAILED", "pod=%s/%s host=%s state=no-snapshot reason=\"%s, and %s\"",
			 pod->space, pod->name, host, what, refused);
		return;
	}
	log_info("POD-FAILED", "pod=%s/%s host=%s reason=\"%s\"", pod->space, pod->name, host,
		 what);
	if (!f->n_hosts++) {
		snprintf(f->origin, sizeof(f->origin), "pod %.100s/%.150s: %s", pod->space,
			 pod->name, what);
		loop_timer_in(f->loop, &f->timer, GATHER_NS, take_snapshot, f);
	}
	buf_addf(&f->hosts, "%s%s", f->hosts.len ? "," : "", host);
	if (pod->snapshot_ns > f->duration_ns)
		f->duration_ns = pod->snapshot_ns;
}

struct pod_failures *pod_failures_new(struct loop *loop, struct pods *pods,
				      struct captures *captures)
{
	struct pod_failures *f = xcalloc(1, sizeof(*f));

	f->loop = loop;
	f->captures = captures;
	pods_on_failure(pods, on_failure, f);
	return f;
}

void pod_failures_free(struct pod_failures *f)
{
	if (!f)
		return;
	loop_timer_cancel(f->loop, &f->timer);
	buf_release(&f->hosts);
	free(f);
}
