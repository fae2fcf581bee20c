/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: a code for the program, a sentence for people.
 *
 * A function that can fail returns int: 0, or a negative enum err_code, and takes a
 * `struct err *` last. The lowest level writes the sentence with err_set(); each level above may add a
 * prefix with err_prefix(); only main, a request handler or a callback of the loop logs it, once. `e`
 * may be NULL where the caller needs only the code.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

#define MUST_CHECK	       __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

enum err_code {
	ERR_NOT_FOUND = -1, /* the named object does not exist */
	ERR_EXISTS = -2, /* create-only, and the object exists already */
	ERR_INVALID = -3, /* the input is wrong: malformed, out of range, unknown */
	ERR_LIMIT = -4, /* well-formed, but above a limit */
	ERR_IO = -5, /* the operating system refused or failed */
	ERR_PEER = -6, /* the other side broke the protocol or reported failure */
	ERR_TIMEOUT = -7, /* no answer in time */
	ERR_CLOSED = -8, /* the other side or the object has ended */
	ERR_UNSUPPORTED = -9, /* this build, kernel or peer does not support it */
	ERR_BUSY = -10, /* another process or call has it; try later */
	ERR_DENIED = -11, /* permission is missing */
	ERR_CANCELLED = -12, /* stopped on request */
	ERR_FULL = -13, /* a disk or a quota is full */
};

struct err {
	int code; /* an enum err_code, or 0 */
	char msg[256]; /* one line, no newline; cut, never overrun */
};

/* Sets code and sentence. Returns `code`, for `return err_set(...)`. */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
int err_vset(struct err *e, int code, const char *fmt, va_list ap);

/* As err_set() with ": <strerror(errno)>" added and the code chosen from errno. */
int err_errno(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Puts "<prefix>: " before the sentence that was set. Returns e's code, or ERR_IO if e is NULL. Where `e`
 * may be NULL, return the code of the failed call instead. */
int err_prefix(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* A stable lower-case word for a code ("not-found"); "error" for any other number. */
const char *err_name(int code);

/* For a sentence that snprintf() has cut at size - 1 bytes: ends it after a whole word, with "...". size > 4. */
void end_cut_sentence(char *text, size_t size);

#endif
