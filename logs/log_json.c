/* SPDX-License-Identifier: Apache-2.0 */
#include "logs/log_json.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

static const char *const severities[] = { "severity", "level", "levelname", "lvl", "log.level" };
static const char *const messages[] = { "message", "msg", "text", "textPayload", "event" };
static const char *const times[] = { "timestamp", "time", "ts", "@timestamp", "asctime" };

const char *log_json_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static const char *first_text(const json_t *object, const char *const *names, size_t n)
{
	const char *text = NULL;

	for (size_t i = 0; i < n && !text; i++)
		text = log_json_text(object, names[i]);
	return text;
}

enum severity log_json_severity(const json_t *object)
{
	const char *word = first_text(object, severities, ARRAY_SIZE(severities));

	return word ? severity_of_word(word, strlen(word)) : SEVERITY_DEFAULT;
}

const char *log_json_message(const json_t *object)
{
	return first_text(object, messages, ARRAY_SIZE(messages));
}

/* A double has no more than microseconds of Unix time. */
static struct log_time time_of_number(double v)
{
	static const double units_us[] = { 1e6, 1e3, 1, 1e-3 };
	struct log_time out = { LOG_CLOCK_NONE, 0, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(units_us); i++) {
		double us = v * units_us[i];

		if (us >= 1e14 && us < 4e15) { /* 1973 to 2096 */
			out = (struct log_time){ LOG_CLOCK_UNIX, (int64_t)round(us) * 1000,
						 v == floor(v) ? 3 * (int)i : 6 };
			break;
		}
	}
	return out;
}

struct log_time log_json_time(const json_t *object)
{
	struct log_time out = { LOG_CLOCK_NONE, 0, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(times) && !out.clock; i++) {
		const json_t *v = json_object_get(object, times[i]);

		if (json_is_string(v))
			(void)log_time_parse(json_string_value(v), json_string_length(v), &out);
		else if (json_is_number(v))
			out = time_of_number(json_number_value(v));
	}
	return out;
}

bool log_json_read_line(const char *line, size_t len, struct log_line *out)
{
	json_t *object = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
	const char *message = json_is_object(object) ? log_json_message(object) : NULL;

	if (message) {
		out->severity = log_json_severity(object);
		out->time = log_json_time(object);
		if (out->time.digits < LOG_DIGITS_MIN)
			out->time.clock = LOG_CLOCK_NONE;
		log_text_clean(message, strlen(message), out->text);
	}
	json_decref(object);
	return message != NULL;
}
