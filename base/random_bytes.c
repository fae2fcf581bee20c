/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/random.h"

void random_bytes(void *out, size_t len)
{
	uint8_t *p = out;

	while (len) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno != EINTR)
			abort();
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
}
