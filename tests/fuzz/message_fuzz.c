/* SPDX-License-Identifier: Apache-2.0 */
/* The count of a message's fields: what passes with a limit also passes with a higher one, and never makes
 * protobuf-c allocate more than the limit allows. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/limits.h"
#include "proto/message.h"
#include "proto/tensorflow/profiler_service.pb-c.h"
#include "proto/tutti/v1/control.pb-c.h"
#include "proto/tutti/v1/ingest.pb-c.h"

#define FIELD_COST 512 /* bytes: the largest submessage, its pointer and its place in a scan */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t allocated;

static void *count_alloc(void *arg, size_t size)
{
	(void)arg;
	allocated += size;
	return malloc(size);
}

static void count_free(void *arg, void *pointer)
{
	(void)arg;
	free(pointer);
}

static void try_type(const ProtobufCMessageDescriptor *type, size_t fields, const uint8_t *data,
		     size_t size)
{
	ProtobufCAllocator counter = { .alloc = count_alloc, .free = count_free };
	ProtobufCMessage *m;
	struct err e;

	if (message_check_size(type, SIZE_MAX, fields, data, size, &e)) {
		assert(e.code && *e.msg);
		return;
	}
	assert(!message_check_size(type, SIZE_MAX, fields + 1, data, size, NULL));
	allocated = 0;
	m = protobuf_c_message_unpack(type, &counter, size, data);
	assert(allocated <= (fields + 4) * FIELD_COST + 4 * size);
	if (m)
		protobuf_c_message_free_unpacked(m, &counter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const ProtobufCMessageDescriptor *const types[] = {
		&tensorflow__profile_request__descriptor,
		&tutti__v1__agent_message__descriptor,
		&tutti__v1__aggregator_message__descriptor,
		&tutti__v1__upload_message__descriptor,
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		try_type(types[i], 4, data, size);
		try_type(types[i], LIMIT_SMALL_FIELDS, data, size);
		try_type(types[i], LIMIT_CONTROL_FIELDS, data, size);
	}
	return 0;
}
