/* SPDX-License-Identifier: Apache-2.0 */
/* web/index.html, embedded by the build. */
#ifndef AGGREGATOR_API_PAGE_H
#define AGGREGATOR_API_PAGE_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t page_index[];
extern const size_t page_index_len;

#endif
