/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/metrics.h"

#include <inttypes.h>

#include "aggregator/api/api.h"
#include "aggregator/captures/capture.h"
#include "aggregator/fleet/registry.h"
#include "aggregator/ingest/ingest.h"
#include "aggregator/link/control.h"
#include "aggregator/retention/quotas.h"
#include "aggregator/retention/retention.h"
#include "aggregator/sessions/session_store.h"
#include "aggregator/time/time_service.h"
#include "base/buf.h"
#include "base/jobs.h"
#include "base/now.h"
#include "json/json_text.h"

static void write_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_value(struct buf *out, const char *name, const char *type, uint64_t value,
			const char *help)
{
	write_head(out, name, type, help);
	buf_addf(out, "%s %" PRIu64 "\n", name, value);
}

static void write_hosts(const struct api_env *env, struct buf *out)
{
	size_t connected, known = registry_count(env->registry, &connected);

	write_head(out, "tutti_hosts", "gauge", "Hosts of the fleet.");
	buf_addf(out, "tutti_hosts{state=\"connected\"} %zu\n", connected);
	buf_addf(out, "tutti_hosts{state=\"lost\"} %zu\n", known - connected);
}

static void write_captures(const struct api_env *env, size_t pages, struct buf *out)
{
	const struct captures_stats *stats = captures_stats(env->captures);
	struct captures_count n = captures_count(env->captures);

	write_value(out, "tutti_captures_active", "gauge", n.active, "Captures under way.");
	write_value(out, "tutti_captures_queued", "gauge", n.queued, "Captures in the queue.");
	write_value(out, "tutti_uploads_waiting", "gauge", n.waiting,
		    "Hosts that wait for an upload credit.");
	write_value(out, "tutti_pages", "gauge", pages, "Open event streams of pages.");
	write_head(out, "tutti_captures_total", "counter", "Captures that ended.");
	buf_addf(out, "tutti_captures_total{result=\"committed\"} %" PRIu64 "\n", stats->committed);
	buf_addf(out, "tutti_captures_total{result=\"failed\"} %" PRIu64 "\n", stats->failed);
	write_value(out, "tutti_captures_shared_total", "counter", stats->shared,
		    "Requests that shared an earlier capture.");
	write_value(out, "tutti_hosts_failed_total", "counter", stats->hosts_failed,
		    "Hosts that failed in a capture: they have no file.");
}

static void write_retention(const struct retention_stats *s, struct buf *out)
{
	write_value(out, "tutti_retention_removed_total", "counter", s->removed,
		    "Sessions removed because a rule calls them old.");
	if (!s->looked)
		return;
	write_value(out, "tutti_sessions", "gauge", s->sessions,
		    "Stored sessions at the last look for old ones.");
	write_value(out, "tutti_sessions_pinned", "gauge", s->pinned,
		    "Those of them that are pinned.");
	write_value(out, "tutti_sessions_bytes", "gauge", s->bytes,
		    "Bytes of those that stay; 0 without --retain-bytes.");
}

static void write_quota(struct buf *out, const char *name, const char *help, const json_t *quotas,
			const char *member)
{
	const json_t *quota;
	size_t i;

	write_head(out, name, "gauge", help);
	json_array_foreach(quotas, i, quota)
	{
		/* without a label: of all sessions */
		if (json_object_get(quota, "run"))
			buf_addf(out, "%s{run=\"%s\"} %" PRId64 "\n", name,
				 json_get_text(quota, "run"), json_get_int(quota, member));
		else
			buf_addf(out, "%s %" PRId64 "\n", name, json_get_int(quota, member));
	}
}

static void write_quotas(const struct quotas *q, struct buf *out)
{
	json_t *quotas = quotas_json(q);

	if (json_array_size(quotas)) {
		write_quota(out, "tutti_quota_used_bytes", "Bytes that count for a quota.", quotas,
			    "bytes");
		write_quota(out, "tutti_quota_used_sessions", "Sessions that count for a quota.",
			    quotas, "sessions");
		write_quota(out, "tutti_quota_bytes", "A quota of bytes; 0 = any number.", quotas,
			    "max_bytes");
		write_quota(out, "tutti_quota_sessions", "A quota of sessions; 0 = any number.",
			    quotas, "max_sessions");
	}
	json_decref(quotas);
}

static void write_uploads(const struct ingest_stats *s, struct buf *out)
{
	write_value(out, "tutti_uploads_total", "counter", s->uploads, "Files stored.");
	write_value(out, "tutti_upload_bytes_total", "counter", s->bytes,
		    "Bytes of files that came through this program.");
	write_value(out, "tutti_grants_total", "counter", s->grants,
		    "Grants: permissions for an agent to put one file into the store.");
	write_value(out, "tutti_grants_revoked_total", "counter", s->grants_revoked,
		    "Grants that were ended unused, in stores that keep them open.");
	write_value(out, "tutti_upload_errors_total", "counter", s->errors,
		    "Uploads refused or broken.");
}

static void write_control(const struct control_stats *s, struct buf *out)
{
	write_value(out, "tutti_control_messages_total", "counter", s->messages,
		    "Messages from agents.");
	write_value(out, "tutti_armed_total", "counter", s->armed,
		    "Hosts that were armed, summed over captures.");
	write_value(out, "tutti_bad_messages_total", "counter", s->bad_messages,
		    "Malformed control messages; each ends its connection.");
}

static void write_probes(const struct time_stats *s, struct buf *out)
{
	write_value(out, "tutti_probes_total", "counter", s->probes, "Time probes answered.");
	write_value(out, "tutti_probes_dropped_total", "counter", s->dropped,
		    "Datagrams on the probe port that are no new probe of a connected agent.");
	write_value(out, "tutti_probe_bad_stamps_total", "counter", s->bad_stamps,
		    "Probe replies whose kernel send time is impossible.");
}

/* A histogram. A bucket of Prometheus includes the counts of all smaller buckets. */
static void write_turns(const struct loop_turns *t, struct buf *out)
{
	static const char name[] = "tutti_loop_turn_seconds";
	uint64_t n = 0;

	write_head(out, name, "histogram",
		   "CPU time of the turns of the loop; everything waits while one lasts.");
	for (size_t i = 0; i < LOOP_TURN_CLASSES; i++) {
		n += t->n[i];
		buf_addf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
			 (double)loop_turn_limits_ns[i] / NS_PER_S, n);
	}
	n += t->n[LOOP_TURN_CLASSES];
	buf_addf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, n);
	buf_addf(out, "%s_sum %.6f\n%s_count %" PRIu64 "\n", name, (double)t->total_ns / NS_PER_S,
		 name, n);
	write_head(out, "tutti_loop_turn_max_seconds", "gauge",
		   "The longest turn of the loop since the start, in CPU time.");
	buf_addf(out, "tutti_loop_turn_max_seconds %.6f\n", (double)t->longest_ns / NS_PER_S);
	write_head(out, "tutti_loop_turn_wall_max_seconds", "gauge",
		   "The longest turn of the loop since the start, with the time it waited for a "
		   "core.");
	buf_addf(out, "tutti_loop_turn_wall_max_seconds %.6f\n",
		 (double)t->longest_wall_ns / NS_PER_S);
}

void metrics_write(const struct api_env *env, size_t pages, struct buf *out)
{
	write_head(out, "tutti_build_info", "gauge", "Always 1; the label is the version.");
	buf_addf(out, "tutti_build_info{version=\"%s\"} 1\n", TUTTI_VERSION);
	write_value(out, "tutti_uptime_seconds", "gauge",
		    (uint64_t)((now_mono_ns() - env->started_mono_ns) / NS_PER_S),
		    "Seconds since start.");
	write_value(out, "tutti_leads", "gauge", !env->leader,
		    "Whether this aggregator leads: always 1 where it is the only one.");
	if (env->leader) {
		write_turns(loop_turns(env->jobs->loop), out);
		return;
	}
	write_value(out, "tutti_store_ready", "gauge", env->store->ready,
		    "Whether captures are possible: the store takes writes.");
	write_hosts(env, out);
	write_captures(env, pages, out);
	write_retention(env->retention, out);
	write_quotas(env->quotas, out);
	write_uploads(ingest_stats(env->ingest), out);
	write_control(control_stats(env->control), out);
	write_probes(time_service_stats(env->time), out);
	write_turns(loop_turns(env->jobs->loop), out);
}
