/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/maps.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define MAPS_BYTES_MAX (16 << 20)

enum map_kind map_kind_of(const char *path)
{
	/* Paths under which the kernel lists memory without a file. */
	static const char *const memory[] = { "/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage",
					      "/dev/shm/" };

	if (!strcmp(path, "[vdso]"))
		return MAP_KIND_VDSO;
	if (path[0] != '/' || path[1] == '/')
		return MAP_KIND_MEMORY;
	for (size_t i = 0; i < ARRAY_SIZE(memory); i++)
		if (!strncmp(path, memory[i], strlen(memory[i])))
			return MAP_KIND_MEMORY;
	return MAP_KIND_FILE;
}

static void add(struct proc_maps *maps, const struct proc_map *map)
{
	if (!(maps->n & (maps->n - 1)))
		maps->v = xrealloc(maps->v, (maps->n ? 2 * maps->n : 1) * sizeof(*maps->v));
	maps->v[maps->n++] = *map;
}

static void parse_line(struct proc_maps *out, const char *line, size_t len)
{
	struct proc_map m = { 0 };
	char mode[5], head[128];
	int path = -1;

	snprintf(head, sizeof(head), "%.*s", len < 127 ? (int)len : 127, line);
	if (sscanf(head, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &m.start,
		   &m.end, mode, &m.offset, &m.major, &m.minor, &m.inode, &path) != 7)
		return;
	if (mode[2] != 'x' || m.start >= m.end || path < 0)
		return;
	if (out->n && m.start < out->v[out->n - 1].end)
		return; /* out of order: the kernel does not write that */
	m.path = (size_t)path < len ? xstrndup(line + path, len - (size_t)path) : xstrdup("");
	add(out, &m);
}

void proc_maps_parse(struct proc_maps *out, const char *text)
{
	*out = (struct proc_maps){ 0 };
	while (*text) {
		size_t len = strcspn(text, "\n");

		parse_line(out, text, len);
		text += len + (text[len] == '\n');
	}
}

int proc_maps_read(struct proc_maps *out, uint32_t pid, struct err *e)
{
	struct buf text = BUF_INIT;
	char path[32];
	int rc;

	*out = (struct proc_maps){ 0 };
	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	rc = file_load(path, MAPS_BYTES_MAX, &text, e);
	if (!rc)
		proc_maps_parse(out, buf_str(&text));
	buf_release(&text);
	return rc;
}

void proc_maps_release(struct proc_maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		free(maps->v[i].path);
	free(maps->v);
	*maps = (struct proc_maps){ 0 };
}

const struct proc_map *proc_maps_find(const struct proc_maps *maps, uint64_t address)
{
	size_t low = 0, high = maps->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (maps->v[mid].end <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low < maps->n && maps->v[low].start <= address ? &maps->v[low] : NULL;
}
