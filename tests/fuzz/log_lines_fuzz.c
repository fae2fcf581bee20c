/* SPDX-License-Identifier: Apache-2.0 */
/* What programs, runtimes and the journal log: lines of any bytes, paths of any name. */
#include <stdlib.h>
#include <string.h>

#include "agent/tracer/logs/journal_entry.h"
#include "agent/tracer/logs/origin.h"
#include "agent/tracer/logs/runtime.h"
#include "agent/tracer/logs/split.h"
#include "base/mem.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
	for (size_t left = strlen(text), n; left; left -= n, text += n) {
		n = utf8_len((const uint8_t *)text, left);
		if (!n || utf8_is_control((const uint8_t *)text, n))
			abort();
	}
}

static void on_line(void *arg, const struct log_line *line, const struct log_time *time)
{
	(void)arg;
	check_text(line->text);
	if (line->severity >= SEVERITIES)
		abort();
	(void)log_time_unix(&line->time, INT64_C(1795350336000000000));
	(void)log_time_unix(time, INT64_C(1795350336000000000));
}

static void on_split(void *arg, const char *line, size_t len)
{
	struct journal_entry entry;

	runtime_add(arg, line, len, on_line, NULL);
	if (journal_entry_read(line, len, &entry)) {
		check_text(entry.line.text);
		check_text(entry.origin.name);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *path = xstrndup(size ? (const char *)data : "", size);
	struct runtime runtime = { 0 };
	struct split split = { 0 };
	struct log_origin origin;
	size_t half = size / 2;

	if (!size)
		goto out;
	origin_of_path(path, &origin);
	check_text(origin.name);
	check_text(origin.pod);
	split_add(&split, data, half, on_split, &runtime);
	split_add(&split, data + half, size - half, on_split, &runtime);
	split_flush(&split, on_split, &runtime);
	split_release(&split);
	runtime_release(&runtime);
out:
	free(path);
	return 0;
}
