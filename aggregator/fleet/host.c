/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry has of one host, as its agent reports it. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/registry.h"
#include "aggregator/fleet/texts.h"
#include "base/mem.h"
#include "proto/limits.h"

static struct texts *texts_of(struct host *h)
{
	return registry_texts(h->registry);
}

void host_clear_labels(struct host *h)
{
	for (size_t i = 0; i < h->n_labels; i++) {
		text_unref(texts_of(h), h->label_keys[i]);
		text_unref(texts_of(h), h->label_values[i]);
	}
	free(h->label_keys);
	free(h->label_values);
	h->label_keys = h->label_values = NULL;
	h->n_labels = 0;
	h->node = h->name;
}

void host_clear_tracers(struct host *h)
{
	for (size_t i = 0; i < h->n_tracers; i++) {
		text_unref(texts_of(h), h->tracers[i].name);
		text_unref(texts_of(h), h->tracers[i].state);
		text_unref(texts_of(h), h->tracers[i].reason);
	}
	free(h->tracers);
	h->tracers = NULL;
	h->n_tracers = 0;
}

void host_add_job(struct host *h, const struct host_job *job)
{
	h->jobs = xrealloc(h->jobs, (h->n_jobs + 1) * sizeof(*h->jobs));
	h->jobs[h->n_jobs++] = (struct host_job){
		.command = text_share(texts_of(h), job->command),
		.framework = text_share(texts_of(h), job->framework),
		.address = text_share(texts_of(h), job->address),
		.state = text_share(texts_of(h), job->state),
		.pid = job->pid,
		.port = job->port,
	};
}

void host_clear_jobs(struct host *h)
{
	for (size_t i = 0; i < h->n_jobs; i++) {
		text_unref(texts_of(h), h->jobs[i].command);
		text_unref(texts_of(h), h->jobs[i].framework);
		text_unref(texts_of(h), h->jobs[i].address);
		text_unref(texts_of(h), h->jobs[i].state);
	}
	free(h->jobs);
	h->jobs = NULL;
	h->n_jobs = 0;
}

void host_clear_held(struct host *h)
{
	for (size_t i = 0; i < h->n_held; i++)
		text_unref(texts_of(h), h->held[i].session);
	free(h->held);
	h->held = NULL;
	h->n_held = 0;
}

void host_add_held(struct host *h, const char *session, const char *state, uint64_t instance)
{
	bool undelivered = strcmp(state, "stored") && strcmp(state, "failed");

	h->held = xrealloc(h->held, (h->n_held + 1) * sizeof(*h->held));
	h->held[h->n_held++] = (struct host_held){
		.session = text_share(texts_of(h), session),
		.undelivered = undelivered,
		.is_recording = undelivered && strcmp(state, "uploading"),
		.instance = instance,
	};
}

const struct host_held *host_find_held(const struct host *h, const char *session)
{
	for (size_t i = 0; i < h->n_held; i++) {
		if (!strcmp(h->held[i].session, session))
			return &h->held[i];
	}
	return NULL;
}

void host_set_text(struct host *h, const char **member, const char *text)
{
	const char *before = *member;

	*member = text_share(texts_of(h), text);
	text_unref(texts_of(h), before);
}

void host_set_clock(struct host *h, const Tutti__V1__ClockModel *c)
{
	struct host_clock_break breaks[LIMIT_CLOCK_STEPS];
	size_t bytes;

	free(h->clock.breaks);
	h->clock = host_clock_from(c, breaks);
	bytes = h->clock.n_breaks * sizeof(*breaks);
	h->clock.breaks = bytes ? xmalloc(bytes) : NULL;
	if (bytes)
		memcpy(h->clock.breaks, breaks, bytes);
}

void host_add_label(struct host *h, const char *key, const char *value)
{
	size_t n = h->n_labels++;

	h->label_keys = xrealloc(h->label_keys, (n + 1) * sizeof(char *));
	h->label_values = xrealloc(h->label_values, (n + 1) * sizeof(char *));
	h->label_keys[n] = text_share(texts_of(h), key);
	h->label_values[n] = text_share(texts_of(h), value);
	if (h->node == h->name && !strcmp(key, "node"))
		h->node = h->label_values[n];
}

void host_add_tracer(struct host *h, const struct host_tracer *t)
{
	struct host_tracer *copy;

	h->tracers = xrealloc(h->tracers, (h->n_tracers + 1) * sizeof(*h->tracers));
	copy = &h->tracers[h->n_tracers++];
	*copy = *t;
	copy->name = text_share(texts_of(h), t->name);
	copy->state = text_share(texts_of(h), t->state);
	copy->reason = text_share(texts_of(h), t->reason);
}

const char *host_get_value(const struct host *h, enum selector_key key, const char *label)
{
	if (key == SELECTOR_NODE)
		return h->node;
	for (size_t i = 0; i < h->n_labels; i++)
		if (h->label_keys[i][0] == label[0] && !strcmp(h->label_keys[i], label))
			return h->label_values[i]; /* most calls of strcmp() are saved */
	return NULL;
}
