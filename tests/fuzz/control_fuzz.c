/* SPDX-License-Identifier: Apache-2.0 */
/* What agents, the aggregator and local processes may send each other: unpacking and checking. A
 * message that passes must survive being packed; read again it is the same, unless protobuf-c finds
 * fault with the unknown fields that it let through the first time. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "proto/control_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *repack(const ProtobufCMessage *m, size_t *len)
{
	uint8_t *bytes;

	*len = protobuf_c_message_get_packed_size(m);
	bytes = xmalloc(*len + 1);
	assert(protobuf_c_message_pack(m, bytes) == *len);
	return bytes;
}

static void try_agent(const uint8_t *data, size_t size)
{
	Tutti__V1__AgentMessage *m, *again;
	struct err e;
	uint8_t *bytes;
	size_t len;
	int rc;

	if (control_unpack_from_agent(&m, data, size, &e)) {
		assert(e.code && *e.msg);
		return;
	}
	bytes = repack(&m->base, &len);
	rc = control_unpack_from_agent(&again, bytes, len, &e);
	if (!rc) {
		assert(again->kind_case == m->kind_case);
		tutti__v1__agent_message__free_unpacked(again, NULL);
	}
	tutti__v1__agent_message__free_unpacked(m, NULL);
	free(bytes);
}

static void try_aggregator(const uint8_t *data, size_t size)
{
	Tutti__V1__AggregatorMessage *m, *again;
	struct err e;
	uint8_t *bytes;
	size_t len;
	int rc;

	if (control_unpack_from_aggregator(&m, data, size, &e)) {
		assert(e.code && *e.msg);
		return;
	}
	bytes = repack(&m->base, &len);
	rc = control_unpack_from_aggregator(&again, bytes, len, &e);
	if (!rc) {
		assert(again->kind_case == m->kind_case);
		tutti__v1__aggregator_message__free_unpacked(again, NULL);
	}
	tutti__v1__aggregator_message__free_unpacked(m, NULL);
	free(bytes);
}

static void try_socket(const uint8_t *data, size_t size)
{
	Tutti__V1__LocalRequest *m;
	struct err e;

	if (!control_unpack_local(&m, data, size, &e))
		tutti__v1__local_request__free_unpacked(m, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_agent(data, size);
	try_aggregator(data, size);
	try_socket(data, size);
	return 0;
}
