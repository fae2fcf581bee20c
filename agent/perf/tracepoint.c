/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/tracepoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"

#define FORMAT_BYTES_MAX 65536
#define OFFSET_MAX	 4096

/* The number after `key` in a line; -1 if there is none up to `max`. */
static long number_after(const char *line, const char *key, long max)
{
	const char *at = strstr(line, key), *end = strchr(line, '\n');
	char *rest;
	long n;

	if (!at || (end && at > end))
		return -1;
	at += strlen(key);
	n = strtol(at, &rest, 10);
	return rest == at || n < 0 || n > max ? -1 : n;
}

static bool is_of_field(const char *line, const char *name)
{
	const char *end = strchr(line, ';'), *last = end;
	size_t len = strlen(name);

	while (last && last > line && last[-1] != ' ')
		last--;
	return last && (size_t)(end - last) == len && !memcmp(last, name, len);
}

bool tracepoint_parse(struct tracepoint *out, const char *format, const char *field)
{
	long id = -1, at = -1;

	for (const char *line = format; line; line = strchr(line, '\n')) {
		line += strspn(line, "\n\t");
		if (!strncmp(line, "ID: ", 4))
			id = number_after(line, "ID: ", INT32_MAX);
		else if (!strncmp(line, "field:", 6) && is_of_field(line, field) &&
			 number_after(line, "size:", OFFSET_MAX) == 4)
			at = number_after(line, "offset:", OFFSET_MAX);
	}
	*out = (struct tracepoint){ (uint32_t)id, (size_t)at };
	return id > 0 && at >= 0;
}

/* Where tracefs is mounted: since Linux 4.1, and before. */
static int load_format(const char *event, struct buf *text, struct err *e)
{
	static const char *const roots[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	int rc = ERR_NOT_FOUND, found = ENOENT;
	char path[160];

	for (size_t i = 0; i < 2 && rc; i++) {
		snprintf(path, sizeof(path), "%s/events/%s/format", roots[i], event);
		errno = 0;
		rc = file_load(path, FORMAT_BYTES_MAX, text, e);
		if (rc && errno && errno != ENOENT)
			found = errno;
	}
	errno = rc ? found : 0;
	return rc;
}

int tracepoint_load(struct tracepoint *out, const char *event, const char *field, struct err *e)
{
	struct buf text = BUF_INIT;
	int rc = load_format(event, &text, e), err = errno;

	if (rc && (err == EACCES || err == EPERM))
		rc = err_set(e, ERR_DENIED,
			     "tracefs (/sys/kernel/tracing) is not readable: grant "
			     "CAP_DAC_READ_SEARCH");
	else if (rc)
		rc = err_set(e, ERR_UNSUPPORTED,
			     "/sys/kernel/tracing has no %s: mount tracefs there (in a container: "
			     "the host's)",
			     event);
	else if (!tracepoint_parse(out, buf_str(&text), field))
		rc = err_set(e, ERR_UNSUPPORTED, "the tracepoint %s has no field %s", event, field);
	buf_release(&text);
	errno = err;
	return rc;
}
