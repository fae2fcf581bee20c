/* SPDX-License-Identifier: Apache-2.0 */
/* A log line as an event of an XSpace: an instant, whose name is the text's beginning. */
#ifndef LOGS_LOG_EVENT_H
#define LOGS_LOG_EVENT_H

#include <stdint.h>

#include "logs/severity.h"
#include "xspace/xspace.h"

#define LOG_EVENT_NAME_BYTES 160 /* with its NUL */

/* The texts are clean (base/clean_text.h); "" = it has none. */
struct log_event {
	enum severity severity;
	const char *source; /* "container", "file", "journal", "cloud" */
	const char *namespace, *pod, *container, *node;
	const char *time; /* what stamped it: "text", "runtime", "journal", "read" */
	const char *text;
};

/* The next event of the builder's line; its stats are the members above, `text` only if the name does not hold the
 * whole text. */
void log_event_add(struct xs_builder *b, const struct log_event *event, int64_t offset_ps);

#endif
