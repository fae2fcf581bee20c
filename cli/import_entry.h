/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One entry of exported cloud logs, as Google Cloud writes them: timestamp, severity, textPayload or jsonPayload, labels,
 * resource.labels. Other exports fit if they have a time, a text and labels under common names. Foreign bytes. Pure.
 */
#ifndef CLI_IMPORT_ENTRY_H
#define CLI_IMPORT_ENTRY_H

#include <stdint.h>

#include <jansson.h>

#include "logs/log_line.h"

#define IMPORT_NAME_BYTES 256

/* Texts are clean; "" = unknown. */
struct import_entry {
	int64_t unix_ns;
	enum severity severity;
	/* name of the jobset, else of the job, else of the container, else "other" */
	char job[IMPORT_NAME_BYTES];
	char pod[IMPORT_NAME_BYTES]; /* name of the pod, else of the machine, else "unknown" */
	char namespace[IMPORT_NAME_BYTES], container[IMPORT_NAME_BYTES], node[IMPORT_NAME_BYTES];
	char text[LOG_TEXT_BYTES];
};

/* NULL, or why the entry cannot be used. */
const char *import_entry_read(const json_t *object, struct import_entry *out);

#endif
