/* SPDX-License-Identifier: Apache-2.0 */
#include "logs/log_line.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/clean_text.h"
#include "logs/log_json.h"

/* ---- text ---- */

/* The end of the terminal's escape sequence at p: "ESC [ 3 1 m". */
static const char *skip_escape(const char *p, const char *end)
{
	p++;
	if (p == end || *p != '[')
		return p;
	for (p++; p < end && *p >= 0x20 && *p <= 0x3f; p++)
		;
	return p < end ? p + 1 : p;
}

/* Copies without escape sequences; returns the length. */
static size_t strip(const char *text, size_t len, char *out, size_t size)
{
	const char *p = text, *end = text + len;
	size_t n = 0;

	while (p < end && n < size) {
		if (*p == '\x1b')
			p = skip_escape(p, end);
		else
			out[n++] = *p++;
	}
	while (n && isspace((unsigned char)out[n - 1]))
		n--;
	return n;
}

void log_text_clean(const char *text, size_t len, char out[LOG_TEXT_BYTES])
{
	char plain[2 * LOG_TEXT_BYTES];
	size_t n = strip(text, len, plain, sizeof(plain));

	for (size_t i = 0; i < n; i++) /* clean_text() would end there */
		if (!plain[i])
			plain[i] = ' ';
	clean_text(out, LOG_TEXT_BYTES, plain, n);
}

/* ---- a severity's word ---- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool is_capital(const char *word, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!isupper((unsigned char)word[i]))
			return false;
	}
	return true;
}

/* Whether `text` ends with `end`, in any case. */
static bool ends_with(const char *text, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !strncasecmp(text + len - n, end, n);
}

/* Whether the word that begins at `at` stands where only a severity does. */
static bool is_marked(const char *text, size_t len, size_t at, size_t n)
{
	char after = at + n < len ? text[at + n] : '\0';

	if (is_capital(text + at, n))
		return true;
	if (at && text[at - 1] == '[' && after == ']')
		return true;
	if (!at && after == ':')
		return true;
	if (at && (text[at - 1] == '"' || text[at - 1] == '\''))
		at--;
	return ends_with(text, at, "level=") || ends_with(text, at, "severity=") ||
	       ends_with(text, at, "lvl=");
}

static enum severity find_severity(const char *text, size_t len)
{
	if (len > LOG_HEAD_BYTES)
		len = LOG_HEAD_BYTES;
	for (size_t i = 0; i < len;) {
		size_t n = 0;
		enum severity found;

		while (i + n < len && is_word(text[i + n]))
			n++;
		found = n ? severity_of_word(text + i, n) : SEVERITY_DEFAULT;
		if (found && is_marked(text, len, i, n))
			return found;
		i += n ? n : 1;
	}
	return SEVERITY_DEFAULT;
}

/* ---- lines ---- */

/* Digits at the start. */
static size_t count_digits(const char *p, size_t len)
{
	size_t n = 0;

	while (n < len && isdigit((unsigned char)p[n]))
		n++;
	return n;
}

/* Abseil, before it knows the zone: "00:00:1732278336.123456", seconds of Unix time. */
static bool read_seconds(const char *p, size_t len, struct log_time *out)
{
	static const char zero[] = "00:00:";
	size_t head = sizeof(zero) - 1, n = len > head ? count_digits(p + head, len - head) : 0;
	int64_t seconds = 0, ns = 0, unit = 100 * 1000 * 1000;
	int digits = 0;

	if (n != 10 || memcmp(p, zero, head))
		return false;
	for (size_t i = head; i < head + n; i++)
		seconds = 10 * seconds + p[i] - '0';
	if (head + n < len && p[head + n] == '.') {
		for (size_t i = head + n + 1; i < len && isdigit((unsigned char)p[i]) && unit;
		     i++) {
			ns += (p[i] - '0') * unit;
			unit /= 10;
			digits++;
		}
	}
	*out = (struct log_time){ LOG_CLOCK_UNIX, seconds * 1000000000 + ns, digits };
	return true;
}

/* "I1122 12:25:36.123456 ", since glog 0.5 "I20261122 ...". */
static bool read_glog(const char *p, size_t len, struct log_line *out)
{
	static const char letters[] = "DIWEF";
	static const enum severity of[] = { SEVERITY_DEBUG, SEVERITY_INFO, SEVERITY_WARNING,
					    SEVERITY_ERROR, SEVERITY_CRITICAL };
	const char *letter = len && *p ? strchr(letters, *p) : NULL;
	size_t n = letter ? count_digits(p + 1, len - 1) : 0, at = n + 2;

	if ((n != 4 && n != 8) || at >= len || p[at - 1] != ' ')
		return false;
	if (!read_seconds(p + at, len - at, &out->time) &&
	    !log_time_parse_of_day(p + at, len - at, &out->time))
		return false;
	out->severity = of[letter - letters];
	return true;
}

static void read_text(const char *p, size_t len, struct log_line *out)
{
	static const char traceback[] = "Traceback (most recent call last)";
	size_t open = len && (*p == '[' || *p == '('), n;

	if (!read_glog(p, len, out)) {
		n = log_time_parse(p + open, len - open, &out->time);
		n += n ? open : 0;
		out->severity = find_severity(p + n, len - n);
		if (len >= sizeof(traceback) - 1 && !memcmp(p, traceback, sizeof(traceback) - 1))
			out->severity = SEVERITY_ERROR;
	}
	if (out->time.digits < LOG_DIGITS_MIN)
		out->time.clock = LOG_CLOCK_NONE;
	log_text_clean(p, len, out->text);
}

void log_line_read(const char *line, size_t len, struct log_line *out)
{
	char head[2 * LOG_TEXT_BYTES];

	if (len > LOG_LINE_BYTES)
		len = LOG_LINE_BYTES;
	out->severity = SEVERITY_DEFAULT;
	out->time = (struct log_time){ LOG_CLOCK_NONE, 0, 0 };
	if (len && *line == '{' && log_json_read_line(line, len, out))
		return;
	read_text(head, strip(line, len, head, sizeof(head)), out);
}
