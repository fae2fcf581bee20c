/* SPDX-License-Identifier: Apache-2.0 */
/* Keys below the index, as a store lists them: what is read of one is in range, and written again it is the same line. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/sessions/index_line.h"
#include "base/mem.h"
#include "proto/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const struct session_line *line)
{
	char text[INDEX_LINE_BYTES];
	struct session_line again;

	assert(name_is_session(line->session));
	assert(!*line->run || !name_check_run(line->run, NULL));
	assert(line->t0_ns >= 0 && line->duration_ns >= 0 && line->bytes >= 0);
	index_line_write(line, text);
	assert(strlen(strrchr(text, '/')) <= STORE_PART_MAX);
	assert(!store_check_key(text, NULL));
	assert(index_line_read(text, &again));
	assert(!strcmp(again.session, line->session) && !strcmp(again.run, line->run));
	assert(again.t0_ns == line->t0_ns && again.duration_ns == line->duration_ns);
	assert(again.hosts == line->hosts && again.complete == line->complete);
	assert(again.partial == line->partial && again.failed == line->failed);
	assert(again.bytes == line->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *key = xstrndup(data ? (const char *)data : "", size);
	char session[SESSION_NAME_BYTES];
	struct session_line line;

	if (index_line_session(key, session))
		assert(name_is_session(session));
	if (index_line_read(key, &line))
		check_line(&line);
	free(key);
	return 0;
}
