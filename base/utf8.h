/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, as strict as its standard: no overlong forms, no surrogates, nothing above U+10FFFF. Pure. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of the character at p, of which `left` > 0 may be read: 1 to 4; 0 if there is none. */
size_t utf8_len(const uint8_t *p, size_t left);

/* Whether the character of `len` bytes at p is a control character: ASCII's, or one of U+0080 to U+009F, which begin
 * escape sequences in terminals like ESC. */
bool utf8_is_control(const uint8_t *p, size_t len);

/* Whether it turns the direction of the text behind it (U+202A to U+202E, U+2066 to U+2069): what a reader sees would not be what
 * is there. */
bool utf8_is_bidi_control(const uint8_t *p, size_t len);

#endif
