/* SPDX-License-Identifier: Apache-2.0 */
#include "logs/log_event.h"

#include <string.h>

#include "base/clean_text.h"

static void add_stat(struct xs_builder *b, const char *name, const char *value)
{
	if (*value)
		xs_stat_str(b, name, value);
}

void log_event_add(struct xs_builder *b, const struct log_event *event, int64_t offset_ps)
{
	char name[LOG_EVENT_NAME_BYTES];
	size_t len = clean_text(name, sizeof(name), event->text, strlen(event->text));

	xs_event(b, name, offset_ps, 0);
	xs_stat_str(b, "severity", severity_name(event->severity));
	add_stat(b, "source", event->source);
	add_stat(b, "namespace", event->namespace);
	add_stat(b, "pod", event->pod);
	add_stat(b, "container", event->container);
	add_stat(b, "node", event->node);
	add_stat(b, "time", event->time);
	if (event->text[len])
		xs_stat_str(b, "text", event->text);
}
