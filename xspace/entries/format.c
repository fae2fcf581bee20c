/* SPDX-License-Identifier: Apache-2.0 */
#include "xspace/entries/entries.h"
#include "xspace/scan.h"
#include "xspace/text.h"

static const struct {
	const char *member;
	enum entry_format format;
} members[] = {
	{ "schemaVersion", ENTRY_PYTORCH },
	{ "deviceProperties", ENTRY_PYTORCH },
	{ "baseTimeNanoseconds", ENTRY_PYTORCH },
	{ "trace_events", ENTRY_NEURON },
	{ "mem_usage", ENTRY_NEURON },
	{ "cpu_util", ENTRY_NEURON },
};

enum entry_format entry_format_of(const void *data, size_t len)
{
	struct scan_text key;
	struct scan s;

	scan_init(&s, data, len);
	if (scan_enter(&s, '{', NULL))
		return ENTRY_CHROME;
	while (scan_member(&s, &key, NULL) > 0) {
		for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
			if (text_equals(key.s, key.len, members[i].member))
				return members[i].format;
		}
		if (scan_skip(&s, NULL, NULL))
			break;
	}
	return ENTRY_CHROME;
}
