/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/maps.h"

#include <stdio.h>
#include <string.h>

#include "agent/proc/living.h"
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
	if (!path[1] || !strchr("mdSa", path[1]))
		return MAP_KIND_FILE;
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

/* A number and the character behind it; false if there are no digits, too many, or another
 * character. */
static bool parse_number(const char **p, const char *end, unsigned int base, char behind,
			 uint64_t *out)
{
	const char *from = *p;

	for (*out = 0; *p < end && *p - from < 20; ++*p) {
		unsigned int c = (unsigned char)**p, digit = c - '0';

		if (digit > 9)
			digit = c - 'a' < 6 ? c - 'a' + 10 : 99;
		if (digit >= base)
			break;
		*out = *out * base + digit;
	}
	return *p > from && *p < end && *(*p)++ == behind;
}

/* "start-end mode offset major:minor inode    path". By hand: with scanf() these lines were a tenth
 * of what a new process cost. */
static bool parse_fields(const char **p, const char *end, struct proc_map *m, const char **mode)
{
	uint64_t major, minor;

	if (!parse_number(p, end, 16, '-', &m->start) || !parse_number(p, end, 16, ' ', &m->end))
		return false;
	*mode = *p;
	if (end - *p < 5 || (*p)[4] != ' ')
		return false;
	*p += 5;
	if (!parse_number(p, end, 16, ' ', &m->offset) || !parse_number(p, end, 16, ':', &major) ||
	    !parse_number(p, end, 16, ' ', &minor) || !parse_number(p, end, 10, ' ', &m->inode))
		return false;
	m->major = (uint32_t)major;
	m->minor = (uint32_t)minor;
	while (*p < end && **p == ' ')
		++*p;
	return true;
}

static void parse_line(struct proc_maps *out, const char *line, size_t len)
{
	const char *p = line, *mode, *end = line + len;
	struct proc_map m = { 0 };

	if (!parse_fields(&p, end, &m, &mode) || mode[2] != 'x' || m.start >= m.end)
		return;
	if (out->n && m.start < out->v[out->n - 1].end)
		return; /* out of order: the kernel does not write that */
	m.path = xstrndup(p, (size_t)(end - p));
	out->bytes += (size_t)(end - p) + 1;
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
	snprintf(path, sizeof(path), "/proc/%u/maps", proc_living(pid));
	rc = file_load(path, MAPS_BYTES_MAX, &text, e);
	if (!rc)
		proc_maps_parse(out, buf_str(&text));
	else if (rc == ERR_DENIED)
		err_set(e, rc, "opening %s: Permission denied: grant CAP_SYS_PTRACE", path);
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

size_t proc_maps_bytes(const struct proc_maps *maps)
{
	return maps->bytes + maps->n * sizeof(*maps->v);
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
