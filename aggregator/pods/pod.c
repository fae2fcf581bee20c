/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/pods/pod.h"

#include <stdlib.h>
#include <string.h>

#include "aggregator/pods/membership.h"
#include "base/conf.h"
#include "base/mem.h"
#include "json/json_text.h"

/* Texts are kept behind the struct. With `to` NULL they are only counted. */
struct keeper {
	char *to;
	size_t bytes;
};

static const char *keep(struct keeper *k, const char *text)
{
	size_t len = strlen(text);
	char *at = k->to ? k->to + k->bytes : NULL;

	len = len < POD_TEXT_BYTES ? len : POD_TEXT_BYTES;
	k->bytes += len + 1;
	if (!at)
		return "";
	memcpy(at, text, len);
	at[len] = '\0';
	return at;
}

static const json_t *at_path(const json_t *doc, const char *first, const char *second)
{
	return json_object_get(json_object_get(doc, first), second);
}

static bool fits(const char *key, const json_t *value)
{
	return json_is_string(value) && strlen(key) < POD_TEXT_BYTES &&
	       json_string_length(value) < POD_TEXT_BYTES;
}

static void keep_labels(struct pod *p, const json_t *doc, struct keeper *k)
{
	json_t *labels = json_object_get(json_object_get(doc, "metadata"), "labels"), *value;
	const char *key;
	size_t n = 0;

	json_object_foreach(labels, key, value)
	{
		struct pod_label kept;

		if (n == POD_LABELS || !fits(key, value))
			continue;
		kept.key = keep(k, key);
		kept.value = keep(k, json_string_value(value));
		if (p->labels)
			p->labels[n] = kept;
		n++;
	}
	p->n_labels = n;
}

/* "containerd://0123..." */
static const char *container_id(const json_t *status)
{
	const char *id = json_get_text(status, "containerID"), *scheme = strstr(id, "://");

	id = scheme ? scheme + 3 : id;
	return strspn(id, "0123456789abcdef") == 64 && !id[64] ? id : "";
}

static void keep_containers(struct pod *p, const json_t *doc, struct keeper *k)
{
	const json_t *statuses = at_path(doc, "status", "containerStatuses"), *status;
	size_t i, n = json_array_size(statuses);

	n = n < POD_CONTAINERS ? n : POD_CONTAINERS;
	for (i = 0; i < n; i++) {
		struct pod_container kept;
		int64_t restarts;

		status = json_array_get(statuses, i);
		restarts = json_get_int(status, "restartCount");
		kept.name = keep(k, json_get_text(status, "name"));
		kept.id = keep(k, container_id(status));
		kept.restarts = restarts < 0 || restarts > POD_RESTARTS_MOST ? 0 : restarts;
		if (p->containers)
			p->containers[i] = kept;
	}
	p->n_containers = n;
}

static int read_port(const char *text)
{
	long port = strtol(text, NULL, 10);

	return port > 0 && port < 65536 && strspn(text, "0123456789") == strlen(text) ? (int)port
										      : 0;
}

static int64_t read_snapshot(const char *text)
{
	int64_t ns;

	return !*text || conf_parse_time(text, &ns, NULL) || ns <= 0 || ns > POD_SNAPSHOT_MOST_NS
		       ? 0
		       : ns;
}

static void fill(struct pod *p, const json_t *doc, struct keeper *k)
{
	const json_t *metadata = json_object_get(doc, "metadata");
	const json_t *spec = json_object_get(doc, "spec"), *status = json_object_get(doc, "status");
	const json_t *annotations = json_object_get(metadata, "annotations");
	struct membership m;

	membership_read(&m, metadata);
	p->uid = keep(k, json_get_text(metadata, "uid"));
	p->name = keep(k, json_get_text(metadata, "name"));
	p->space = keep(k, json_get_text(metadata, "namespace"));
	p->node = keep(k, json_get_text(spec, "nodeName"));
	p->ip = keep(k, json_get_text(status, "podIP"));
	p->phase = keep(k, json_get_text(status, "phase"));
	p->job = keep(k, m.job);
	p->kind = keep(k, m.kind);
	p->rank = keep(k, m.rank);
	p->is_over = !strcmp(p->phase, "Succeeded") || !strcmp(p->phase, "Failed");
	p->is_ending = *json_get_text(metadata, "deletionTimestamp");
	p->opted_out = !strcmp(json_get_text(annotations, POD_PROFILE_ANNOTATION), "false");
	p->snapshot_ns = read_snapshot(json_get_text(annotations, POD_SNAPSHOT_ANNOTATION));
	p->profiler_port = read_port(json_get_text(annotations, POD_PORT_ANNOTATION));
	keep_labels(p, doc, k);
	keep_containers(p, doc, k);
}

static bool is_uid(const char *uid)
{
	size_t len = strlen(uid);

	return len > 0 && len <= 64 && strspn(uid, "0123456789abcdefABCDEF-") == len;
}

int pod_read(struct pod **out, const json_t *doc, struct err *e)
{
	const json_t *metadata = json_object_get(doc, "metadata");
	struct keeper k = { 0 };
	struct pod sizes = { 0 }, *p;
	size_t fixed;

	if (!is_uid(json_get_text(metadata, "uid")) || !*json_get_text(metadata, "name") ||
	    !*json_get_text(metadata, "namespace"))
		return err_set(e, ERR_PEER, "a pod without uid, name or namespace");
	fill(&sizes, doc, &k);
	fixed = sizeof(*p) + sizes.n_labels * sizeof(*p->labels) +
		sizes.n_containers * sizeof(*p->containers);
	p = xcalloc(1, fixed + k.bytes);
	p->refs = 1;
	p->bytes = fixed + k.bytes;
	p->containers = (struct pod_container *)(p + 1);
	p->labels = (struct pod_label *)(p->containers + sizes.n_containers);
	k = (struct keeper){ .to = (char *)p + fixed };
	fill(p, doc, &k);
	*out = p;
	return 0;
}

struct pod *pod_ref(struct pod *p)
{
	p->refs++;
	return p;
}

void pod_unref(struct pod *p)
{
	if (p && !--p->refs)
		free(p);
}

const char *pod_label(const struct pod *p, const char *key)
{
	for (size_t i = 0; i < p->n_labels; i++)
		if (!strcmp(p->labels[i].key, key))
			return p->labels[i].value;
	return NULL;
}

int64_t pod_restarts(const struct pod *p)
{
	int64_t all = 0;

	for (size_t i = 0; i < p->n_containers; i++)
		all += p->containers[i].restarts;
	return all;
}
