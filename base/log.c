/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clean_text.h"
#include "base/log_json.h"
#include "base/mem.h"
#include "base/now.h"

static _Atomic int max_level = LOG_INFO;
static _Atomic bool is_json;

static const char *const level_names[] = { "error", "warn", "info", "debug" };

void log_set_level(enum log_level level)
{
	atomic_store(&max_level, (int)level);
}

void log_set_json(bool json)
{
	atomic_store(&is_json, json);
}

int log_format_parse(const char *text, bool *json, struct err *e)
{
	*json = !strcmp(text, "json");
	if (*json || !strcmp(text, "text"))
		return 0;
	return err_set(e, ERR_INVALID, "log format '%s': expected text or json", text);
}

int log_level_parse(const char *text, enum log_level *out, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++) {
		if (!strcmp(text, level_names[i])) {
			*out = (enum log_level)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "log level '%s': expected error, warn, info or debug", text);
}

void log_line(enum log_level level, const char *id, const char *fmt, ...)
{
	char raw[1024], line[sizeof(raw)], json[3 * sizeof(raw)];
	char stamp[25];
	const char *out = line;
	size_t head, len;
	va_list ap;

	if ((int)level > atomic_load(&max_level))
		return;
	time_iso(now_real_ns(), stamp);
	head = (size_t)snprintf(raw, sizeof(raw), "%s %c %s ", stamp, "EWID"[level], id);
	va_start(ap, fmt);
	vsnprintf(raw + head, sizeof(raw) - head, fmt, ap);
	va_end(ap);
	len = clean_text(line, sizeof(line) - 1, raw, strlen(raw));
	if (atomic_load(&is_json)) {
		len = log_json(json, sizeof(json) - 1, stamp, level_names[level], id, line + head);
		json[len++] = '\n';
		out = json;
	} else {
		line[len++] = '\n';
	}
	/* One write per line: lines of several threads and processes do not mix. */
	if (write(STDERR_FILENO, out, len) < 0)
		return;
}
