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
#include "json/packed.h"
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
	h->stored = h->was_found = h->n_files > 0;
	if (h->stored)
		h->state =
			/* its file is stored and only its report is missing: it must not record again */
			HOST_UPLOADING;
}

void capture_load_agent(struct capture_host *h, const json_t *host)
{
	h->instance = strtoull(json_get_text(host, "instance"), NULL, 16);
	h->t0_ns = json_get_int(host, "t0_ns");
	h->was_granted = true; /* it may have been, by an earlier aggregator */
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

static void load_hosts(struct capture *c, const json_t *hosts, const json_t *stored)
{
	capture_new_hosts(c, json_array_size(hosts));
	for (size_t i = 0; i < c->n_hosts; i++) {
		json_t *host = packed_get(hosts, i);

		load_host(&c->hosts[i], host, stored);
		json_decref(host);
	}
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

/* ---- what an earlier run left ---- */

struct capture_left {
	json_t *record; /* without its hosts */
	unsigned int n; /* its number in the ledger */
	struct retry_source *retry; /* NULL: it is a first attempt */
	struct capture
		*capture; /* of a first attempt, with its hosts; it belongs to no captures yet */
};

static json_t *without_hosts(const json_t *document)
{
	json_t *o = json_copy((json_t *)document);

	json_object_del(o, "hosts");
	return o;
}

static struct retry_source *read_retry(const json_t *recoverable)
{
	const json_t *plan = json_object_get(json_object_get(recoverable, "record"), "plan");
	struct retry_source *s = retry_source_of(
		json_copy(json_object_get(recoverable, "manifest")));

	/* A queued retry begins anew: its hosts are asked what they hold. */
	if (!json_object_get(plan, "queued_until_ns"))
		retry_source_add_left(s, recoverable);
	return s;
}

struct capture_left *capture_left_read(const json_t *recoverable)
{
	const json_t *record = json_object_get(recoverable, "record");
	struct capture_left *l = xcalloc(1, sizeof(*l));

	l->record = without_hosts(record);
	l->n = (unsigned int)json_get_int(recoverable, "ledger");
	if (json_object_get(recoverable, "manifest")) {
		l->retry = read_retry(recoverable);
		return l;
	}
	l->capture = capture_new(NULL);
	load_hosts(l->capture, json_object_get(record, "hosts"),
		   json_object_get(recoverable, "stored"));
	return l;
}

void capture_left_free(struct capture_left *l)
{
	if (!l)
		return;
	json_decref(l->record);
	retry_source_free(l->retry);
	if (l->capture)
		capture_free(l->capture);
	free(l);
}

/* ---- carrying on ---- */

static void await_agents(struct capture *c)
{
	c->next_reconnect_by_ns = capture_extend_for_agents(c);
	for (size_t i = 0; i < c->n_hosts; i++)
		c->hosts[i].reconnect_by_ns = c->next_reconnect_by_ns;
}

static struct capture *take_capture(struct captures *cs, struct capture_left *left)
{
	const json_t *plan = json_object_get(left->record, "plan");
	struct capture *c = left->capture;
	struct err e;

	left->capture = NULL;
	c->captures = cs;
	capture_load(c, left->record, plan);
	c->state = CAP_ARMING;
	c->lead_ns = json_get_int(plan, "lead_ns");
	c->grace_given_ns = json_get_int(plan, "grace_given_ns");
	c->clock_shift_ns = json_get_int(plan, "clock_shift_ns");
	capture_set_deadline(c, c->t0_ns + c->duration_ns);
	c->deadline_ns = json_get_int(plan, "deadline_ns");
	c->open_ended = json_get_bool(plan, "open_ended");
	await_agents(c);
	if (capture_load_options(c, plan, &e))
		log_warn("AGG-RESUMED", "session=%s reason=\"%s\"", c->session, e.msg);
	json_array_append_new(c->warnings,
			      json_string("the aggregator was restarted during this capture"));
	return c;
}

static void recover(struct captures *cs, struct capture_left *left)
{
	const json_t *plan = json_object_get(left->record, "plan");
	struct capture *c = take_capture(cs, left);

	if (json_object_get(plan, "queued_until_ns"))
		capture_queue_recover(c, plan);
	capture_insert(c);
	log_warn("AGG-RESUMED", "session=%s run=\"%s\" hosts=%zu clock_kept=%d", c->session, c->run,
		 c->n_hosts, cs->env.clock->kept);
	capture_take_over(c, left->n,
			  json_get_int(json_object_get(left->record, "owner"), "epoch"));
	if (!capture_finish_if_ended(c))
		capture_wake(c);
}

void captures_recover(struct captures *cs, struct capture_left *left)
{
	if (left->retry)
		capture_retry_recover(cs, left->retry, left->record, left->n);
	else
		recover(cs, left);
}
