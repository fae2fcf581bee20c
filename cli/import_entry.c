/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/import_entry.h"

#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "logs/log_json.h"
#include "proto/limits.h"

/* Names of labels, the best first: of the entry, of its resource, of the object itself. */
static const char *const jobs[] = {
	"k8s-pod/jobset_sigs_k8s_io/jobset-name",
	"k8s-pod/jobset-name",
	"k8s-pod/batch_kubernetes_io/job-name",
	"k8s-pod/job-name",
	"k8s-pod/ray_io/cluster",
	"jobset",
	"job_name",
	"job_id",
	"job",
	"container_name",
};
static const char *const pods[] = { "pod_name", "pod", "compute.googleapis.com/resource_name",
				    "instance_id", "host" };
static const char *const namespaces[] = { "namespace_name", "namespace" };
static const char *const containers[] = { "container_name", "container" };
static const char *const nodes[] = { "compute.googleapis.com/resource_name", "node_name", "node" };

static const char *find_label(const json_t *object, const char *name)
{
	const json_t *resource = json_object_get(object, "resource");
	const json_t *const places[] = { json_object_get(object, "labels"),
					 json_object_get(resource, "labels"), object };
	const char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(places) && !(text && *text); i++)
		text = log_json_text(places[i], name);
	return text && *text ? text : NULL;
}

static void get_label(const json_t *object, const char *const *names, size_t n,
		      const char *otherwise, char out[IMPORT_NAME_BYTES])
{
	const char *text = NULL;

	for (size_t i = 0; i < n && !text; i++)
		text = find_label(object, names[i]);
	if (!text)
		text = otherwise;
	clean_text(out, IMPORT_NAME_BYTES, text, strlen(text));
}

/* Reads a text payload, or the message of an object payload, as a log line. If an object has no message, its
 * JSON is the text. */
static bool read_text(const json_t *payload, struct log_line *out)
{
	const char *message = json_is_object(payload) ? log_json_message(payload) : NULL;
	char *all;

	if (json_is_string(payload)) {
		log_line_read(json_string_value(payload), json_string_length(payload), out);
	} else if (message) {
		log_line_read(message, strlen(message), out);
		if (log_json_severity(payload))
			out->severity = log_json_severity(payload);
	} else if (json_is_object(payload)) {
		all = json_dumps(payload, JSON_COMPACT);
		out->severity = log_json_severity(payload);
		log_text_clean(all ? all : "", all ? strlen(all) : 0, out->text);
		free(all);
	} else {
		return false;
	}
	return *out->text != '\0';
}

static const char *read_time(const json_t *object, int64_t *unix_ns)
{
	const char *received = log_json_text(object, "receiveTimestamp");
	struct log_time time = log_json_time(object);

	if (!time.clock && received)
		(void)log_time_parse(received, strlen(received), &time);
	if (!time.clock)
		return "no timestamp";
	if (time.clock != LOG_CLOCK_UNIX)
		return "a timestamp without a time zone";
	if (time.ns < 0 || time.ns >= LIMIT_TIME_NS)
		return "a timestamp outside of 1970 to 2096";
	*unix_ns = time.ns;
	return NULL;
}

const char *import_entry_read(const json_t *object, struct import_entry *out)
{
	static const char *const payloads[] = { "textPayload", "jsonPayload", "protoPayload",
						"message",     "msg",	      "text" };
	const char *why = read_time(object, &out->unix_ns);
	struct log_line line = { .severity = SEVERITY_DEFAULT };
	bool has_text = false;

	if (why)
		return why;
	for (size_t i = 0; i < ARRAY_SIZE(payloads) && !has_text; i++)
		has_text = read_text(json_object_get(object, payloads[i]), &line);
	if (!has_text)
		return "no text";
	out->severity = log_json_severity(object);
	if (!out->severity)
		out->severity = line.severity;
	memcpy(out->text, line.text, sizeof(out->text));
	get_label(object, jobs, ARRAY_SIZE(jobs), "other", out->job);
	get_label(object, pods, ARRAY_SIZE(pods), "unknown", out->pod);
	get_label(object, namespaces, ARRAY_SIZE(namespaces), "", out->namespace);
	get_label(object, containers, ARRAY_SIZE(containers), "", out->container);
	get_label(object, nodes, ARRAY_SIZE(nodes), "", out->node);
	return NULL;
}
