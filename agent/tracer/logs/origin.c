/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/logs/origin.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/mem.h"

#define ID_DIGITS 64 /* of a container's id */
#define ID_SHOWN  12

/* The text up to `stop`, which must be there and not first; returns what follows it, or NULL. */
static const char *take(const char *p, const char *stop, char *out, size_t size)
{
	const char *end = p ? strstr(p, stop) : NULL;

	if (!end || end == p || memchr(p, '/', (size_t)(end - p)))
		return NULL;
	clean_text(out, size, p, (size_t)(end - p));
	return end + strlen(stop);
}

static bool is_id(const char *p)
{
	return strspn(p, "0123456789abcdef") >= ID_DIGITS;
}

/* What follows the last "/NAME/". */
static const char *after_folder(const char *path, const char *name)
{
	const char *found = NULL;
	size_t len = strlen(name);

	for (const char *p = path; (p = strstr(p, name)); p += len - 1)
		found = p + len;
	return found;
}

static bool read_pod_folder(const char *path, struct log_origin *out)
{
	char uid[64];
	const char *p = after_folder(path, "/pods/");

	p = take(p, "_", out->namespace, sizeof(out->namespace));
	p = take(p, "_", out->pod, sizeof(out->pod));
	p = take(p, "/", uid, sizeof(uid));
	return take(p, "/", out->container, sizeof(out->container)) != NULL;
}

static bool read_container_file(const char *path, struct log_origin *out)
{
	const char *p = after_folder(path, "/containers/"), *dash;

	p = take(p, "_", out->pod, sizeof(out->pod));
	p = take(p, "_", out->namespace, sizeof(out->namespace));
	dash = p ? strrchr(p, '-') : NULL;
	if (!dash || dash == p || strchr(p, '/') || !is_id(dash + 1))
		return false;
	clean_text(out->container, sizeof(out->container), p, (size_t)(dash - p));
	return true;
}

static bool read_docker_folder(const char *path, struct log_origin *out)
{
	const char *p = after_folder(path, "/containers/");

	if (!p || !is_id(p) || p[ID_DIGITS] != '/')
		return false;
	clean_text(out->container, sizeof(out->container), p, ID_SHOWN);
	return true;
}

void origin_of_path(const char *path, struct log_origin *out)
{
	static bool (*const readers[])(const char *path, struct log_origin *out) = {
		read_pod_folder, read_container_file, read_docker_folder
	};

	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		*out = (struct log_origin){ .kind = "container" };
		if (readers[i](path, out)) {
			snprintf(out->name, sizeof(out->name), "%.180s%s%.63s", out->pod,
				 *out->pod ? "/" : "", out->container);
			return;
		}
	}
	*out = (struct log_origin){ .kind = "file" };
	clean_text(out->name, sizeof(out->name), path, strlen(path));
}
