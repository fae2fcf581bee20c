/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/logs/journal_entry.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clean_text.h"
#include "base/now.h"
#include "logs/log_json.h"
#include "proto/limits.h"

/* What a program stamped may be older than the journal's own time by so much. */
#define DELAY_MAX_US (60 * NS_PER_S / NS_PER_US)

/* A number in a text; -1 if there is none in a sensible range. */
static int64_t get_number(const json_t *entry, const char *name)
{
	const char *text = log_json_text(entry, name);
	char *end;
	long long v = text && *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;

	return v >= 0 && v <= LIMIT_TIME_NS / NS_PER_US ? v : -1;
}

/* journalctl prints what is not UTF-8 as an array of bytes, and what is long as null. */
static void read_message(const json_t *message, struct log_line *out)
{
	char bytes[2 * LOG_TEXT_BYTES];
	size_t n = 0, i;
	const json_t *byte;

	if (json_is_string(message)) {
		log_line_read(json_string_value(message), json_string_length(message), out);
		return;
	}
	json_array_foreach(message, i, byte)
	{
		if (n < sizeof(bytes))
			bytes[n++] = (char)json_integer_value(byte);
	}
	log_line_read(bytes, n, out);
	if (json_is_null(message))
		log_text_clean("(a message of more than 4096 bytes)", 35, out->text);
}

/* The entry's time on CLOCK_MONOTONIC, which the wall clock's steps do not affect: when the journal received it, minus
 * its delay since the program sent it (the difference of its two times on the wall clock). */
static struct log_time read_time(const json_t *entry)
{
	int64_t mono_us = get_number(entry, "__MONOTONIC_TIMESTAMP");
	int64_t real_us = get_number(entry, "__REALTIME_TIMESTAMP");
	int64_t source_us = get_number(entry, "_SOURCE_REALTIME_TIMESTAMP");
	int64_t delay_us = source_us >= 0 && real_us >= 0 ? real_us - source_us : 0;

	if (mono_us < 0)
		return (struct log_time){ LOG_CLOCK_NONE, 0, 0 };
	if (delay_us < 0 || delay_us > DELAY_MAX_US)
		delay_us = 0;
	return (struct log_time){ LOG_CLOCK_MONO, (mono_us - delay_us) * NS_PER_US, 6 };
}

static void read_name(const json_t *entry, struct log_origin *out)
{
	const char *name = log_json_text(entry, "_SYSTEMD_UNIT");
	const char *transport = log_json_text(entry, "_TRANSPORT");

	*out = (struct log_origin){ .kind = "journal" };
	if (!name)
		name = log_json_text(entry, "SYSLOG_IDENTIFIER");
	if (!name)
		name = log_json_text(entry, "_COMM");
	if (!name)
		name = transport ? transport : "unknown";
	clean_text(out->name, sizeof(out->name), name, strlen(name));
}

bool journal_entry_read(const char *text, size_t len, struct journal_entry *out)
{
	json_t *entry = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
	const json_t *message = json_object_get(entry, "MESSAGE");
	enum severity severity;

	if (message) {
		read_name(entry, &out->origin);
		read_message(message, &out->line);
		out->time = read_time(entry);
		severity = severity_of_priority(get_number(entry, "PRIORITY"));
		if (severity)
			out->line.severity = severity;
	}
	json_decref(entry);
	return message != NULL;
}
