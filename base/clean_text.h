/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleans foreign names (marks, thread names, symbols of foreign files) for an XSpace, a log or a terminal: a proto3
 * string must be UTF-8, and viewers and terminals should not get control characters, nor those that turn the direction
 * of text. Pure.
 */
#ifndef BASE_CLEAN_TEXT_H
#define BASE_CLEAN_TEXT_H

#include <stddef.h>

/* Copies at most size - 1 bytes of src[0 .. len), up to a NUL, and ends with NUL; size > 0. Control
 * characters become spaces, bytes that are not UTF-8 become '?'; a sequence is never cut in two.
 * Returns the length of the result. */
size_t clean_text(char *dst, size_t size, const char *src, size_t len);

/* The same for a sentence: one that does not fit ends after a whole word, with "...". size > 4. */
size_t clean_sentence(char *dst, size_t size, const char *src, size_t len);

#endif
