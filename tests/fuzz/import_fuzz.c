/* SPDX-License-Identifier: Apache-2.0 */
/* Exported cloud logs: cut into objects, whatever the pieces, and read. */
#include <stdlib.h>
#include <string.h>

#include "cli/import_entry.h"
#include "cli/import_split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_object(void *arg, const struct import_object *object, struct err *e)
{
	uint64_t *sum = arg;
	json_t *doc = json_loadb(object->text, object->len, JSON_ALLOW_NUL, NULL);
	struct import_entry entry;

	(void)e;
	if (object->text[0] != '{' || object->text[object->len - 1] != '}')
		abort();
	*sum = *sum * 31 + object->offset + object->len + object->line;
	if (doc && !import_entry_read(doc, &entry) && (!*entry.job || !*entry.pod || !*entry.text))
		abort();
	json_decref(doc);
	return 0;
}

/* Returns a sum over all objects. */
static uint64_t split(const uint8_t *data, size_t size, size_t piece)
{
	struct import_split s = { 0 };
	uint64_t sum = 0;
	int rc = 0;

	for (size_t at = 0; at < size && !rc; at += piece)
		rc = import_split_add(&s, data + at, size - at < piece ? size - at : piece,
				      on_object, &sum, NULL);
	if (!rc)
		rc = import_split_end(&s, NULL);
	import_split_release(&s);
	return sum + (uint64_t)-rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (split(data, size, 1 + size) != split(data, size, 7))
		abort();
	return 0;
}
