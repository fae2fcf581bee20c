/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/cgroup_path.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#define FILE_BYTES_MAX	 (16 << 10)
#define ID_CHARS	 (CGROUP_CONTAINER_BYTES - 1)
#define UID_CHARS	 (CGROUP_UID_BYTES - 1)
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
static const char *find_container(struct folder f)
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
static bool find_pod(struct folder f, char uid[CGROUP_UID_BYTES])
{
	static const size_t lengths[] = { UID_CHARS, STATIC_UID_CHARS };

	cut_end(&f, ".slice");
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
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

/* containerd without systemd's driver writes "...podUID.slice:cri-containerd:ID" as one folder. */
static const char *next_folder(const char *at, struct folder *out)
{
	at += strspn(at, "/:");
	*out = (struct folder){ at, strcspn(at, "/:") };
	return out->len ? at + out->len : NULL;
}

void cgroup_path_read(struct cgroup_owner *out, const char *path)
{
	struct folder f;

	*out = (struct cgroup_owner){ .leaf = NULL };
	for (const char *at = path; (at = next_folder(at, &f));) {
		out->is_pod = find_pod(f, out->pod);
		out->leaf = find_container(f);
		if (out->leaf && !*out->container)
			memcpy(out->container, out->leaf, ID_CHARS);
	}
}

/* "0::/PATH", "11:memory:/PATH". */
static bool read_line(struct cgroup_owner *out, const char *line, size_t len)
{
	char path[4096];
	const char *colon = memchr(line, ':', len);

	if (colon)
		colon = memchr(colon + 1, ':', len - (size_t)(colon + 1 - line));
	if (!colon)
		return false;
	snprintf(path, sizeof(path), "%.*s", (int)(line + len - (colon + 1)), colon + 1);
	cgroup_path_read(out, path);
	out->leaf = NULL;
	return *out->pod || *out->container;
}

bool cgroup_text_read(struct cgroup_owner *out, const char *text)
{
	bool found = false;

	*out = (struct cgroup_owner){ .leaf = NULL };
	for (const char *line = text; *line && !*out->pod;) {
		size_t len = strcspn(line, "\n");
		struct cgroup_owner of_line;

		if (read_line(&of_line, line, len) && (!found || *of_line.pod)) {
			*out = of_line;
			found = true;
		}
		line += len + (line[len] == '\n');
	}
	return found;
}

bool cgroup_of_process(struct cgroup_owner *out, const char *proc, int64_t pid)
{
	struct buf text = BUF_INIT;
	char path[256];
	bool found = false;

	*out = (struct cgroup_owner){ .leaf = NULL };
	snprintf(path, sizeof(path), "%s/%" PRId64 "/cgroup", proc, pid);
	if (!file_load(path, FILE_BYTES_MAX, &text, NULL))
		found = cgroup_text_read(out, buf_str(&text));
	out->is_there = text.len > 0;
	buf_release(&text);
	return found;
}
