/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the cluster about pods that a capture could not record: what `kubectl describe pod` shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/pods/pods_impl.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/percent.h"

#define SEND_TIMEOUT_NS (10 * NS_PER_S)
#define ANSWER_BYTES	((size_t)64 << 10)
#define SECOND_BYTES	19 /* "2026-11-23T04:07:33" of an instant */

struct pod_event {
	struct pods *pods;
	struct pod *pod;
	json_t *doc;
	int rc; /* the worker's */
	struct err e;
	STAILQ_ENTRY(pod_event) next;
};

static void send_next(struct pods *p);

static void free_event(struct pod_event *v)
{
	pod_unref(v->pod);
	json_decref(v->doc);
	free(v);
}

/* ---- sending ---- */

static void run_send(void *arg)
{
	struct pod_event *v = arg;
	struct buf path = BUF_INIT, answer = BUF_INIT;
	struct kube_call call = { .body = v->doc,
				  .answer_max = ANSWER_BYTES,
				  .patience_ns = SEND_TIMEOUT_NS,
				  .cancelled = &v->pods->cancelled };
	int status = 0;

	buf_add_str(&path, "/api/v1/namespaces/");
	percent_encode(&path, v->pod->space, "");
	buf_add_str(&path, "/events");
	call.path = buf_str(&path);
	v->rc = kube_api_call(&v->pods->api, &call, &status, &answer, &v->e);
	if (!v->rc && status != 201)
		v->rc = err_set(&v->e, ERR_PEER, "the Kubernetes API answers %d%s", status,
				status == 403 ? ": the account may not create events" : "");
	buf_release(&path);
	buf_release(&answer);
}

/* After a failure those that wait are left out, too: a server that is away must not hold them for minutes. */
static void drop_all(struct pods *p)
{
	struct pod_event *v;

	while ((v = STAILQ_FIRST(&p->events.waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&p->events.waiting, next);
		p->events.n_waiting--;
		p->events.n_left_out++;
		free_event(v);
	}
}

static void done_send(void *arg)
{
	struct pod_event *v = arg;
	struct pods *p = v->pods;

	p->events.is_sending = false;
	if (v->rc) {
		p->events.n_left_out++;
		drop_all(p);
		log_warn("POD-EVENT", "pod=%s/%s state=not-sent left_out=%llu reason=\"%s\"",
			 v->pod->space, v->pod->name, (unsigned long long)p->events.n_left_out,
			 v->e.msg);
	}
	free_event(v);
	if (p->cancelled)
		drop_all(p);
	send_next(p);
}

static void send_next(struct pods *p)
{
	struct pod_event *v = STAILQ_FIRST(&p->events.waiting);

	if (!v || p->events.is_sending)
		return;
	STAILQ_REMOVE_HEAD(&p->events.waiting, next);
	p->events.n_waiting--;
	p->events.is_sending = true;
	jobs_work(p->env.jobs, run_send, done_send, v);
}

/* ---- what is sent ---- */

static json_t *make_event(const struct pod *pod, const char *reason, const char *session,
			  const char *detail)
{
	json_t *doc = json_object(), *o = json_object(), *metadata = json_object(),
	       *source = json_object();
	char *message = xasprintf("session %.100s: %.60s: %.600s", session, reason, detail);
	char at[25], second[32];

	time_iso(now_real_ns(), at);
	snprintf(second, sizeof(second), "%.*sZ", SECOND_BYTES, at);
	json_put_text(metadata, "generateName", "tutti-");
	json_put_text(metadata, "namespace", pod->space);
	json_put_text(o, "apiVersion", "v1");
	json_put_text(o, "kind", "Pod");
	json_put_text(o, "namespace", pod->space);
	json_put_text(o, "name", pod->name);
	json_put_text(o, "uid", pod->uid);
	json_put_text(source, "component", "tutti-aggregator");
	json_put_text(doc, "apiVersion", "v1");
	json_put_text(doc, "kind", "Event");
	json_put(doc, "metadata", metadata);
	json_put(doc, "involvedObject", o);
	json_put(doc, "source", source);
	json_put_text(doc, "reason", "CaptureFailed");
	json_put_text(doc, "message", message);
	json_put_text(doc, "type", "Warning");
	json_put_text(doc, "firstTimestamp", second);
	json_put_text(doc, "lastTimestamp", second);
	json_put_int(doc, "count", 1);
	free(message);
	return doc;
}

/* Whether the pod had one for this reason lately; if not, it has now. */
static bool had_lately(struct pods *p, const struct pod *pod, const char *reason)
{
	uint64_t hash = hash_text(pod->uid) * 31 + hash_text(reason);
	struct event_place *place = &p->events.sent[hash % EVENTS_REMEMBERED];
	int64_t now = loop_now_ns(p->env.jobs->loop);

	if (place->at_ns && place->hash == hash && now - place->at_ns < EVENT_PAUSE_NS)
		return true;
	*place = (struct event_place){ .hash = hash, .at_ns = now };
	return false;
}

void pods_note_failure(struct pods *p, struct pod *pod, const char *reason, const char *session,
		       const char *detail)
{
	struct pod_event *v;

	if (!p->api.url || p->cancelled || had_lately(p, pod, reason))
		return;
	if (p->events.n_waiting == EVENTS_WAITING) {
		p->events.n_left_out++;
		return;
	}
	v = xcalloc(1, sizeof(*v));
	*v = (struct pod_event){ .pods = p,
				 .pod = pod_ref(pod),
				 .doc = make_event(pod, reason, session, detail) };
	STAILQ_INSERT_TAIL(&p->events.waiting, v, next);
	p->events.n_waiting++;
	send_next(p);
}
