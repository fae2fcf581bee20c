/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/logs/runtime.h"

#include <stdbool.h>
#include <string.h>

#include "logs/log_json.h"

/* A line without what is around it. */
struct content {
	const char *text;
	size_t len;
	bool goes_on;
	struct log_time time;
};

static bool read_cri(const char *line, size_t len, struct content *out)
{
	static const char stdout_[] = " stdout ", stderr_[] = " stderr ";
	const size_t n = sizeof(stdout_) - 1;
	size_t at = log_time_parse(line, len, &out->time);
	const char *tag = line + at + n, *end;

	if (!at || out->time.clock != LOG_CLOCK_UNIX || len - at < n + 2 ||
	    (memcmp(line + at, stdout_, n) && memcmp(line + at, stderr_, n)) ||
	    (*tag != 'P' && *tag != 'F') || (tag[1] != ' ' && tag[1] != ':'))
		return false;
	end = memchr(tag, ' ', len - at - n);
	if (!end)
		return false;
	out->goes_on = *tag == 'P';
	out->text = end + 1;
	out->len = len - (size_t)(out->text - line);
	return true;
}

/* The text is borrowed from the document. */
static bool read_docker(const json_t *object, struct content *out)
{
	const json_t *text = json_object_get(object, "log");
	const char *time = log_json_text(object, "time");

	if (!json_is_string(text) || !time || !log_json_text(object, "stream") ||
	    !log_time_parse(time, strlen(time), &out->time))
		return false;
	out->text = json_string_value(text);
	out->len = json_string_length(text);
	out->goes_on = !out->len || out->text[out->len - 1] != '\n';
	return true;
}

static void join(struct runtime *r, const struct content *c)
{
	size_t room = LOG_LINE_BYTES - r->joined.len;

	if (!r->joined.len)
		r->time = c->time;
	buf_add(&r->joined, c->text, c->len < room ? c->len : room);
}

static void take(struct runtime *r, const struct content *c, runtime_fn fn, void *arg)
{
	struct log_line line;

	if (c->goes_on) {
		join(r, c);
	} else if (r->joined.len) {
		join(r, c);
		log_line_read((const char *)r->joined.data, r->joined.len, &line);
		buf_reset(&r->joined);
		fn(arg, &line, &r->time);
	} else {
		log_line_read(c->text, c->len, &line);
		fn(arg, &line, &c->time);
	}
}

void runtime_add(struct runtime *r, const char *line, size_t len, runtime_fn fn, void *arg)
{
	static const char docker[] = "{\"log\":\"";
	struct content c = { 0 };
	json_t *object = NULL;

	if (!read_cri(line, len, &c)) {
		if (len > sizeof(docker) && !memcmp(line, docker, sizeof(docker) - 1))
			object = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
		if (!read_docker(object, &c))
			c = (struct content){ .text = line, .len = len };
	}
	take(r, &c, fn, arg);
	json_decref(object);
}

void runtime_release(struct runtime *r)
{
	buf_release(&r->joined);
}
