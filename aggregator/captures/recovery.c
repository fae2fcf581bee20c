/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery: captures that an earlier run of the aggregator left are carried on from their ledgers. Agents keep
 * their capture requests and what they recorded, dial again by themselves and report what they hold. A host
 * that has not connected in time is lost. The capture ends like any other, committed or failed.
 */
#include "aggregator/captures/capture_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "aggregator/sessions/sessions.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/names.h"

/* A host that had no agent when the capture began has failed already. */
static void load_failed(struct capture_host *h, const json_t *result)
{
	h->state = HOST_FAILED;
	h->capture->n_ended++;
	capture_host_set_reason(h, json_get_text(result, "reason"),
				json_get_text(result, "detail"));
}

/* The first file of a host is stored last: if it is there, all are. */
void capture_load_stored(struct capture_host *h, const json_t *stored)
{
	char name[NAME_FILE_BYTES];
	const json_t *size;

	for (unsigned int n = 1; n <= LIMIT_HOST_FILES; n++) {
		char *file;

		name_of_file(h->name, n, name);
		file = xasprintf("%s" SESSION_FILE_SUFFIX, name);
		size = json_object_get(stored, file);
		free(file);
		if (!size)
			break;
		h->bytes += (uint64_t)json_integer_value(size);
		h->n_files = n;
	}
	h->bytes_done = h->bytes;
	h->stored = h->n_files > 0;
	if (h->stored)
		h->state =
			/* its file is stored and only its report is missing: it must not record again */
			HOST_UPLOADING;
}

void capture_load_agent(struct capture_host *h, const json_t *host)
{
	h->instance = strtoull(json_get_text(host, "instance"), NULL, 16);
	h->t0_ns = json_get_int(host, "t0_ns");
}

static void load_host(struct capture_host *h, const json_t *host, const json_t *stored)
{
	h->name = pool_text(&h->capture->kept, json_get_text(host, "host"));
	capture_load_agent(h, host);
	if (h->instance)
		capture_load_stored(h, stored);
	else
		load_failed(h, host);
}

static void load_hosts(struct capture *c, const json_t *left, int64_t reconnect_by_ns)
{
	const json_t *hosts = json_object_get(json_object_get(left, "record"), "hosts");
	size_t n = json_array_size(hosts);

	capture_new_hosts(c, n);
	for (size_t i = 0; i < n; i++) {
		c->hosts[i].reconnect_by_ns = reconnect_by_ns;
		load_host(&c->hosts[i], json_array_get(hosts, i), json_object_get(left, "stored"));
	}
	c->next_reconnect_by_ns = reconnect_by_ns;
}

/* Returns until when to wait for agents. A host that connects in time gets the full grace to deliver. If the
 * session clock was not kept, the agents' times mean nothing any more, so there is no wait. */
int64_t capture_extend_for_agents(struct capture *c)
{
	int64_t now_ns = captures_now(c->captures);
	int64_t until_ns = now_ns + BACK_PATIENCE_NS;

	if (!c->captures->env.clock->kept)
		return now_ns;
	if (c->deadline_ns < until_ns + c->grace_ns)
		c->deadline_ns = until_ns + c->grace_ns;
	if (c->last_ns < c->deadline_ns)
		c->last_ns = c->deadline_ns;
	return until_ns;
}

static struct capture *load(struct captures *cs, const json_t *left)
{
	const json_t *record = json_object_get(left, "record");
	const json_t *plan = json_object_get(record, "plan");
	struct capture *c = capture_new(cs);
	struct err e;

	capture_load(c, record, plan);
	c->state = CAP_ARMING;
	c->lead_ns = json_get_int(plan, "lead_ns");
	c->grace_given_ns = json_get_int(plan, "grace_given_ns");
	capture_set_deadline(c, c->t0_ns + c->duration_ns);
	c->deadline_ns = json_get_int(plan, "deadline_ns");
	c->open_ended = json_get_bool(plan, "open_ended");
	load_hosts(c, left, capture_extend_for_agents(c));
	if (capture_load_options(c, plan, &e))
		log_warn("AGG-RESUMED", "session=%s reason=\"%s\"", c->session, e.msg);
	json_array_append_new(c->warnings,
			      json_string("the aggregator was restarted during this capture"));
	return c;
}

static int64_t epoch_of(const json_t *record)
{
	return json_get_int(json_object_get(record, "owner"), "epoch");
}

static void recover(struct captures *cs, const json_t *left)
{
	const json_t *record = json_object_get(left, "record");
	const json_t *plan = json_object_get(record, "plan");
	struct capture *c = load(cs, left);

	if (json_object_get(plan, "queued_until_ns"))
		capture_queue_recover(c, plan);
	capture_insert(c);
	log_warn("AGG-RESUMED", "session=%s run=\"%s\" hosts=%zu clock_kept=%d", c->session, c->run,
		 c->n_hosts, cs->env.clock->kept);
	capture_take_over(c, (unsigned int)json_get_int(left, "ledger"), epoch_of(record));
	if (!capture_finish_if_ended(c))
		capture_wake(c);
}

void captures_recover(struct captures *cs, const json_t *recoverable)
{
	for (size_t i = 0; i < json_array_size(recoverable); i++) {
		const json_t *left = json_array_get(recoverable, i);

		if (json_object_get(left, "manifest"))
			capture_retry_recover(cs, left);
		else
			recover(cs, left);
	}
}
