/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* text[0 .. len) is the begin of a longer text: returns the length of its whole words, or of its whole
 * characters if it has no whole word. */
static size_t len_of_whole(const char *text, size_t len)
{
	size_t at = len;

	while (at > len / 2 && text[at] != ' ')
		at--;
	if (at > len / 2) {
		while (at && strchr(" ,;:(", text[at - 1]))
			at--;
		return at;
	}
	for (at = len; at && ((uint8_t)text[at] & 0xc0) == 0x80;)
		at--;
	return at;
}

void end_cut_sentence(char *text, size_t size)
{
	size_t len = len_of_whole(text, size - 4);

	memcpy(text + len, "...", 4);
}

int err_vset(struct err *e, int code, const char *fmt, va_list ap)
{
	if (e) {
		e->code = code;
		if ((size_t)vsnprintf(e->msg, sizeof(e->msg), fmt, ap) >= sizeof(e->msg))
			end_cut_sentence(e->msg, sizeof(e->msg));
	}
	return code;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_vset(e, code, fmt, ap);
	va_end(ap);
	return code;
}

static int code_of_errno(int number)
{
	switch (number) {
	case ENOENT:
	case ESRCH:
		return ERR_NOT_FOUND;
	case EEXIST:
		return ERR_EXISTS;
	case EACCES:
	case EPERM:
		return ERR_DENIED;
	case EBUSY:
	case EADDRINUSE:
		return ERR_BUSY;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case ENOSPC:
	case EDQUOT:
		return ERR_FULL;
	case ENOSYS:
	case EOPNOTSUPP:
		return ERR_UNSUPPORTED;
	default:
		return ERR_IO;
	}
}

int err_errno(struct err *e, const char *fmt, ...)
{
	int number = errno;
	int code = code_of_errno(number);
	char reason[80];
	size_t len;
	va_list ap;

	va_start(ap, fmt);
	err_vset(e, code, fmt, ap);
	va_end(ap);
	if (e) {
		len = strlen(e->msg);
		snprintf(e->msg + len, sizeof(e->msg) - len, ": %s",
			 strerror_r(number, reason, sizeof(reason)));
	}
	return code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
	char words[sizeof(e->msg)];
	char tail[sizeof(e->msg)];
	va_list ap;

	if (!e)
		return ERR_IO;
	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	memcpy(tail, e->msg, sizeof(tail));
	if ((size_t)snprintf(e->msg, sizeof(e->msg), "%s: %s", words, tail) >= sizeof(e->msg))
		end_cut_sentence(e->msg, sizeof(e->msg));
	return e->code;
}

const char *err_name(int code)
{
	static const char *const names[] = {
		[-ERR_NOT_FOUND] = "not-found",
		[-ERR_EXISTS] = "exists",
		[-ERR_INVALID] = "invalid",
		[-ERR_LIMIT] = "limit",
		[-ERR_IO] = "io",
		[-ERR_PEER] = "peer",
		[-ERR_TIMEOUT] = "timeout",
		[-ERR_CLOSED] = "closed",
		[-ERR_UNSUPPORTED] = "unsupported",
		[-ERR_BUSY] = "busy",
		[-ERR_DENIED] = "denied",
		[-ERR_CANCELLED] = "cancelled",
		[-ERR_FULL] = "full",
	};

	if (code < 0 && (size_t)-code < sizeof(names) / sizeof(names[0]))
		return names[-code];
	return "error";
}
