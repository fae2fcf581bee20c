/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc.reflection: the services and the definitions of their messages, for grpcurl and the like. v1 has
 * v1alpha's messages under another name, so one handler serves both.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/rpc_impl.h"
#include "proto/grpc/reflection.pb-c.h"
#include "proto/limits.h"
#include "proto/message.h"

#define REQUEST_MAX_BYTES 4096
#define FILES_MAX	  64
#define SERVICES_MAX	  64

typedef Grpc__Reflection__V1alpha__ServerReflectionRequest request;
typedef Grpc__Reflection__V1alpha__ServerReflectionResponse response;

/* An answer under construction, with the memory that its pointers may refer to. */
struct answer {
	response r;
	Grpc__Reflection__V1alpha__FileDescriptorResponse files;
	Grpc__Reflection__V1alpha__ListServiceResponse list;
	Grpc__Reflection__V1alpha__ErrorResponse error;
	ProtobufCBinaryData file[FILES_MAX];
	Grpc__Reflection__V1alpha__ServiceResponse service[SERVICES_MAX];
	Grpc__Reflection__V1alpha__ServiceResponse *service_ptr[SERVICES_MAX];
};

#define IS(what)  GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##what
#define HAS(what) GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##what

static void answer_error(struct answer *a, enum rpc_code code, const char *text)
{
	grpc__reflection__v1alpha__error_response__init(&a->error);
	a->error.error_code = code;
	a->error.error_message = (char *)text;
	a->r.error_response = &a->error;
	a->r.message_response_case = HAS(ERROR_RESPONSE);
}

static void answer_files(struct answer *a, bool found, struct rpc_file first)
{
	struct rpc_file all[FILES_MAX];
	size_t n;

	if (!found) {
		answer_error(a, RPC_NOT_FOUND, "not found");
		return;
	}
	n = rpc_file_closure(first, all, FILES_MAX);
	for (size_t i = 0; i < n; i++)
		a->file[i] = (ProtobufCBinaryData){ all[i].len, (uint8_t *)all[i].data };
	grpc__reflection__v1alpha__file_descriptor_response__init(&a->files);
	a->files.n_file_descriptor_proto = n;
	a->files.file_descriptor_proto = a->file;
	a->r.file_descriptor_response = &a->files;
	a->r.message_response_case = HAS(FILE_DESCRIPTOR_RESPONSE);
}

static bool add_service(void *arg, const char *name, size_t len)
{
	struct answer *a = arg;
	size_t i = a->list.n_service;

	grpc__reflection__v1alpha__service_response__init(&a->service[i]);
	a->service[i].name = xstrndup(name, len);
	a->service_ptr[i] = &a->service[i];
	a->list.n_service++;
	return a->list.n_service < SERVICES_MAX;
}

static void answer_services(struct answer *a, const struct rpc_server *s)
{
	grpc__reflection__v1alpha__list_service_response__init(&a->list);
	a->list.service = a->service_ptr;
	rpc_server_services(s, add_service, a);
	a->r.list_services_response = &a->list;
	a->r.message_response_case = HAS(LIST_SERVICES_RESPONSE);
}

static void make_answer(struct answer *a, const request *q, const struct rpc_server *s)
{
	struct rpc_file f = { 0 };
	bool found;

	switch (q->message_request_case) {
	case IS(LIST_SERVICES):
		answer_services(a, s);
		break;
	case IS(FILE_BY_FILENAME):
		found = rpc_file_by_name(q->file_by_filename, strlen(q->file_by_filename), &f);
		answer_files(a, found, f);
		break;
	case IS(FILE_CONTAINING_SYMBOL):
		found = rpc_file_by_symbol(q->file_containing_symbol, &f);
		answer_files(a, found, f);
		break;
	case IS(FILE_CONTAINING_EXTENSION):
	case IS(ALL_EXTENSION_NUMBERS_OF_TYPE):
		answer_error(a, RPC_NOT_FOUND, "there are no extensions");
		break;
	default:
		answer_error(a, RPC_UNIMPLEMENTED, "unknown request");
	}
}

static void send_answer(struct rpc_call *call, const struct answer *a)
{
	size_t len = grpc__reflection__v1alpha__server_reflection_response__get_packed_size(&a->r);
	uint8_t *bytes = xmalloc(len);

	grpc__reflection__v1alpha__server_reflection_response__pack(&a->r, bytes);
	rpc_send(call, bytes, len);
	free(bytes);
}

static bool on_request(struct rpc_call *call, const struct rpc_msg *msg)
{
	struct answer *a;
	const uint8_t *data;
	size_t len;
	ProtobufCMessage *m;
	request *q;

	data = rpc_msg_data(msg, &len);
	if (message_unpack(&m, &grpc__reflection__v1alpha__server_reflection_request__descriptor,
			   REQUEST_MAX_BYTES, LIMIT_SMALL_FIELDS, data, len, NULL)) {
		rpc_finish(call, RPC_INVALID_ARGUMENT, "not a ServerReflectionRequest");
		return true;
	}
	q = (request *)m;
	a = xcalloc(1, sizeof(*a));
	grpc__reflection__v1alpha__server_reflection_response__init(&a->r);
	a->r.valid_host = q->host;
	a->r.original_request = q;
	make_answer(a, q, rpc_arg(call));
	send_answer(call, a);
	for (size_t i = 0; i < a->list.n_service; i++)
		free(a->service[i].name);
	free(a);
	grpc__reflection__v1alpha__server_reflection_request__free_unpacked(q, NULL);
	/* Reads the next request only when the answer is sent, so a client that does not read cannot fill the
	 * queue. */
	return false;
}

static void on_half_closed(struct rpc_call *call)
{
	rpc_finish(call, RPC_OK, NULL);
}

static const struct rpc_events events = {
	.message = on_request,
	.half_closed = on_half_closed,
	.drained = rpc_read_on,
};

const struct rpc_method rpc_reflection_methods[RPC_REFLECTION_METHODS] = {
	{ .path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	  .events = &events,
	  .max_message_bytes = REQUEST_MAX_BYTES },
	{ .path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	  .events = &events,
	  .max_message_bytes = REQUEST_MAX_BYTES },
};
