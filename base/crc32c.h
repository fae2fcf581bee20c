/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), the checksum that object stores know. zlib's is another polynomial. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of the bytes behind those whose checksum is `crc`; 0 = of the first ones. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

#endif
