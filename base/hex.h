/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as hexadecimal digits, and back. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include <stddef.h>

/* Writes 2 * len lower-case digits and a NUL. */
void hex_text(char *out, const void *data, size_t len);

/* The value of one digit in either case; -1 for any other character. */
int hex_digit(char c);

#endif
