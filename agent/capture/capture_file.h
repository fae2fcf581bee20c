/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_CAPTURE_CAPTURE_FILE_H
#define AGENT_CAPTURE_CAPTURE_FILE_H

#include <stdint.h>

/* A file of a session. */
struct capture_file {
	uint64_t bytes;
	uint32_t crc32c; /* of them (base/crc32c.h) */
};

#endif
