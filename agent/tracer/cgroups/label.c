/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/cgroups/label.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clean_text.h"

#define ID_CHARS	 64 /* of a container */
#define ID_SHOWN	 12
#define UID_CHARS	 36 /* of a pod: 3f2c1a2b-... */
#define STATIC_UID_CHARS 32 /* of a static pod, which a file on the node defines */

/* A folder of a path: not terminated. */
struct folder {
	const char *text;
	size_t len;
};

static bool ends_with(struct folder f, const char *end)
{
	size_t len = strlen(end);

	return f.len >= len && !memcmp(f.text + f.len - len, end, len);
}

static bool cut_end(struct folder *f, const char *end)
{
	if (!ends_with(*f, end))
		return false;
	f->len -= strlen(end);
	return true;
}

static bool is_made_of(const char *text, size_t len, const char *chars)
{
	for (size_t i = 0; i < len; i++)
		if (!text[i] || !strchr(chars, text[i]))
			return false;
	return true;
}

/* "cri-containerd-ID.scope", "docker-ID.scope", "ID". CRI-O's "crio-conmon-ID.scope" is not the container but its
 * monitor: NULL. */
static const char *container_id(struct folder f)
{
	struct folder name;

	cut_end(&f, ".scope");
	if (f.len < ID_CHARS)
		return NULL;
	name = (struct folder){ f.text, f.len - ID_CHARS };
	if (!is_made_of(f.text + name.len, ID_CHARS, "0123456789abcdef") ||
	    (name.len && !cut_end(&name, "-")) || ends_with(name, "conmon"))
		return NULL;
	return f.text + f.len - ID_CHARS;
}

/* "kubepods-burstable-podUID.slice" with '_' for '-', "podUID". */
static bool find_pod(struct folder f, char uid[UID_CHARS + 1])
{
	static const size_t lengths[] = { UID_CHARS, STATIC_UID_CHARS };

	cut_end(&f, ".slice");
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t len = lengths[i];
		struct folder name = { f.text, f.len < len ? 0 : f.len - len };

		if (!cut_end(&name, "pod") || (name.len && !ends_with(name, "-")) ||
		    !is_made_of(f.text + f.len - len, len, "0123456789abcdef-_"))
			continue;
		memcpy(uid, f.text + f.len - len, len);
		uid[len] = '\0';
		for (char *c = uid; *c; c++)
			*c = *c == '_' ? '-' : *c;
		return true;
	}
	return false;
}

static const char *next_folder(const char *at, struct folder *out)
{
	at += strspn(at, "/");
	*out = (struct folder){ at, strcspn(at, "/") };
	return out->len ? at + out->len : NULL;
}

/* The path, or its end. */
static void label_by_path(const char *path, char label[CGROUP_LABEL_BYTES])
{
	size_t len = strlen(path), max = CGROUP_LABEL_BYTES - 1;
	char text[CGROUP_LABEL_BYTES];

	if (len > max)
		snprintf(text, sizeof(text), "...%s", path + len - (max - 3));
	else
		snprintf(text, sizeof(text), "%s", path);
	clean_text(label, CGROUP_LABEL_BYTES, text, strlen(text));
}

enum cgroup_kind cgroup_label(const char *path, char label[CGROUP_LABEL_BYTES])
{
	struct folder f = { "", 0 }, last = { "", 0 };
	char uid[UID_CHARS + 1] = "";
	bool is_pod = false;
	const char *id;

	for (const char *at = path; (at = next_folder(at, &f)); last = f)
		is_pod = find_pod(f, uid);
	id = container_id(last);
	if (id && *uid)
		snprintf(label, CGROUP_LABEL_BYTES, "pod %s/%.*s", uid, ID_SHOWN, id);
	else if (id)
		snprintf(label, CGROUP_LABEL_BYTES, "container %.*s", ID_SHOWN, id);
	else if (is_pod)
		snprintf(label, CGROUP_LABEL_BYTES, "pod %s", uid);
	else
		label_by_path(path, label);
	if (id)
		return CGROUP_CONTAINER;
	if (is_pod)
		return CGROUP_POD;
	return ends_with(last, ".slice") ? CGROUP_SLICE : CGROUP_OTHER;
}
