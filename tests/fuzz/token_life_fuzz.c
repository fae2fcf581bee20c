/* SPDX-License-Identifier: Apache-2.0 */
/* A provider's token, as the command line reads it: its life is unknown, or one that can be. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/token_life.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = data ? xstrndup((const char *)data, size) : xstrdup("");
	int64_t life_s = token_life_s(text);

	assert(life_s >= 0 && life_s <= TOKEN_MOST_LIFE_S);
	assert(!token_is_word(text) || strlen(text) <= TOKEN_MOST_BYTES);
	free(text);
	return 0;
}
