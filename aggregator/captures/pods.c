/* SPDX-License-Identifier: Apache-2.0 */
/* The pods that a capture is of, where its selector asks for pods: who was expected, and what became of them. */
#include "aggregator/captures/capture_impl.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/pods/pods.h"
#include "base/mem.h"
#include "json/json_text.h"

/* Reasons of pods; those of hosts and tracers are in proto/reasons.h. */
#define POD_GONE "pod-gone"
#define NO_AGENT "no-agent"

#define NAMED_MOST 8 /* pods that a warning names */

void capture_set_pods(struct capture *c, struct pods_selection *s)
{
	if (!s->is_about_pods || !s->n_pods)
		return;
	c->pods = xcalloc(s->n_pods, sizeof(*c->pods));
	for (size_t i = 0; i < s->n_pods; i++) {
		struct capture_pod *p = &c->pods[c->n_pods++];

		p->pod = pod_ref(s->pods[i].pod);
		p->host = s->pods[i].host ? pool_text(&c->kept, s->pods[i].host->name) : "";
		p->reason = *p->host ? "" : NO_AGENT;
		p->detail = *p->host ? "" : "no agent is on its node";
	}
}

void capture_release_pods(struct capture *c)
{
	for (size_t i = 0; i < c->n_pods; i++)
		pod_unref(c->pods[i].pod);
	free(c->pods);
	c->pods = NULL;
	c->n_pods = 0;
}

/* ---- what became of them ---- */

/* Why a pod is not what it was when the capture was requested; NULL if it is. */
static const char *describe_change(const struct pod *was, const struct pod *is)
{
	if (!is)
		return "it was deleted";
	if (is == was)
		return NULL;
	if (is->is_over)
		return "it has ended";
	if (is->is_ending && !was->is_ending)
		return "its deletion was requested";
	return pod_restarts(is) > pod_restarts(was) ? "a container of it began again" : NULL;
}

/* "2 of 3 pods are not what they were: train-1 (it was deleted), ..." */
static void warn(struct capture *c, const char *reason, const char *what)
{
	struct buf text = BUF_INIT;
	size_t n = 0;

	for (size_t i = 0; i < c->n_pods; i++) {
		const struct capture_pod *p = &c->pods[i];

		if (strcmp(p->reason, reason))
			continue;
		if (n++ < NAMED_MOST)
			buf_addf(&text, "%s%s (%s)", n > 1 ? ", " : "", p->pod->name, p->detail);
	}
	if (n)
		json_array_append_new(c->warnings,
				      json_sprintf("%zu of %zu pods %s: %s%s", n, c->n_pods, what,
						   buf_str(&text), n > NAMED_MOST ? ", ..." : ""));
	buf_release(&text);
}

/* Tells the cluster of each pod that is not in the session, or whose host is not. */
static void note_failures(struct capture *c)
{
	for (size_t i = 0; i < c->n_pods && !c->cancelled; i++) {
		const struct capture_pod *p = &c->pods[i];
		const struct capture_host *h = capture_find_host_by_name(c, p->host);

		if (*p->reason)
			pods_note_failure(c->captures->env.pods, p->pod, p->reason, c->session,
					  p->detail);
		else if (h && *h->reason)
			pods_note_failure(c->captures->env.pods, p->pod, h->reason, c->session,
					  h->detail);
	}
}

void capture_check_pods(struct capture *c)
{
	const struct pods *known = c->captures->env.pods;

	for (size_t i = 0; i < c->n_pods; i++) {
		struct capture_pod *p = &c->pods[i];
		const char *change = describe_change(p->pod, pods_find(known, p->pod->uid));

		if (!change || *p->reason)
			continue;
		p->reason = POD_GONE;
		p->detail = change;
	}
	warn(c, POD_GONE, "are gone");
	warn(c, NO_AGENT, "are not in it");
	note_failures(c);
}

/* ---- documents ---- */

void capture_put_pods(json_t *o, const struct capture *c)
{
	json_t *pods;

	if (c->earlier_pods) {
		json_put(o, "pods", json_deep_copy(c->earlier_pods));
		return;
	}
	if (!c->n_pods)
		return;
	pods = json_array();
	for (size_t i = 0; i < c->n_pods; i++) {
		json_t *pod = pod_json(c->pods[i].pod);

		json_put_text(pod, "host", c->pods[i].host);
		json_put_text(pod, "reason", c->pods[i].reason);
		json_put_text(pod, "detail", c->pods[i].detail);
		json_array_append_new(pods, pod);
	}
	json_put(o, "pods", pods);
}

void capture_load_pods(struct capture *c, const json_t *doc)
{
	json_t *pods = json_object_get(doc, "pods");

	if (json_is_array(pods))
		c->earlier_pods = json_deep_copy(pods);
}
