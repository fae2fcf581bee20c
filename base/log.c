/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"

static _Atomic int max_level = LOG_INFO;

static const char *const level_names[] = { "error", "warn", "info", "debug" };

void log_set_level(enum log_level level)
{
	atomic_store(&max_level, (int)level);
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
	char raw[1024], line[sizeof(raw)];
	char stamp[25];
	size_t len;
	va_list ap;

	if ((int)level > atomic_load(&max_level))
		return;
	time_iso(now_real_ns(), stamp);
	len = (size_t)snprintf(raw, sizeof(raw), "%s %c %s ", stamp, "EWID"[level], id);
	va_start(ap, fmt);
	vsnprintf(raw + len, sizeof(raw) - len, fmt, ap);
	va_end(ap);
	len = clean_text(line, sizeof(line) - 1, raw, strlen(raw));
	line[len++] = '\n';
	/* One write per line: lines of several threads and processes do not mix. */
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}
