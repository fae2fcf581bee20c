/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of a store: what packed_read() takes is what jansson takes, apart from packed arrays whose elements are
 * no objects. */
#include <assert.h>

#include "base/buf.h"
#include "json/json_text.h"
#include "json/packed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *packed = packed_read(data ? (const void *)data : "", size);
	json_t *plain, *again;
	struct buf text = BUF_INIT;

	if (!packed)
		return 0;
	plain = json_loadb((const char *)data, size, 0, NULL);
	packed_write(&text, packed);
	again = json_loadb((const char *)text.data, text.len, 0, NULL);
	/* jansson counts the depth of nested values from the begin of the document, packed_read() of each value. */
	assert(!plain || (again && json_equal(plain, again)));
	json_decref(again);
	json_decref(plain);
	json_decref(packed);
	buf_release(&text);
	return 0;
}
