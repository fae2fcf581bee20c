/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches the FileDescriptorSet of the project's .proto files, by the field numbers of
 * google/protobuf/descriptor.proto. Nothing is indexed: the set is a few KiB and rarely requested.
 */
#include <string.h>

#include "base/reader.h"
#include "net/rpc_impl.h"
#include "proto/descriptors.h"

enum { SET_FILE = 1 };
enum {
	FILE_NAME = 1,
	FILE_PACKAGE = 2,
	FILE_IMPORT = 3,
	FILE_MESSAGE = 4,
	FILE_ENUM = 5,
	FILE_SERVICE = 6
};
enum { ANY_NAME = 1, MESSAGE_FIELD = 2, MESSAGE_NESTED = 3, MESSAGE_ENUM = 4, SERVICE_METHOD = 2 };

/* Finds the next length-delimited field, skipping others. False at the end. */
static bool next_field(struct reader *r, uint64_t *field, struct reader *body)
{
	const uint8_t *p;
	uint64_t tag, n;

	while (reader_varint(r, &tag)) {
		switch (tag & 7) {
		case 0:
			if (!reader_varint(r, &n))
				return false;
			break;
		case 1:
			if (!reader_take(r, 8, &p))
				return false;
			break;
		case 2:
			if (!reader_varint(r, &n) || !reader_take(r, n, &p))
				return false;
			*field = tag >> 3;
			*body = reader_of(p, n);
			return true;
		case 5:
			if (!reader_take(r, 4, &p))
				return false;
			break;
		default:
			return false;
		}
	}
	return false;
}

static struct reader field_of(struct reader r, uint64_t want)
{
	struct reader body;
	uint64_t field;

	while (next_field(&r, &field, &body))
		if (field == want)
			return body;
	return reader_of(NULL, 0);
}

static bool is_text(struct reader r, const char *text, size_t len)
{
	return reader_left(&r) == len && (!len || !memcmp(r.p, text, len));
}

bool rpc_file_by_name(const char *name, size_t len, struct rpc_file *out)
{
	struct reader set = reader_of(proto_descriptors, proto_descriptors_len);
	struct reader file;
	uint64_t field;

	while (next_field(&set, &field, &file)) {
		if (field != SET_FILE || !is_text(field_of(file, FILE_NAME), name, len))
			continue;
		*out = (struct rpc_file){ file.p, reader_left(&file) };
		return true;
	}
	return false;
}

/* Removes `name` and the dot after it from the begin of a dotted path; false if it begins otherwise. */
static bool skip_name(const char **path, struct reader name)
{
	size_t n = reader_left(&name);
	const char *rest;

	if (!n || strncmp(*path, (const char *)name.p, n))
		return false;
	rest = *path + n;
	if (*rest && (*rest != '.' || !*++rest))
		return false;
	*path = rest;
	return true;
}

/* Whether `path`, relative to the enclosing scope, names this definition or one inside it. */
static bool defines(struct reader thing, const uint64_t *inner, size_t n_inner, const char *path)
{
	struct reader all = thing, body;
	uint64_t field;

	if (!skip_name(&path, field_of(thing, ANY_NAME)))
		return false;
	if (!*path)
		return true;
	while (next_field(&all, &field, &body)) {
		for (size_t i = 0; i < n_inner; i++) {
			/* Only messages contain definitions that contain others. */
			bool deep = field == MESSAGE_NESTED && n_inner > 1;

			if (field == inner[i] && defines(body, inner, deep ? n_inner : 0, path))
				return true;
		}
	}
	return false;
}

static bool file_defines(struct reader file, const char *symbol)
{
	static const uint64_t of_message[] = { MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ENUM };
	static const uint64_t of_service[] = { SERVICE_METHOD };
	struct reader package = field_of(file, FILE_PACKAGE), body;
	uint64_t field;

	if (reader_left(&package) && (!skip_name(&symbol, package) || !*symbol))
		return false;
	while (next_field(&file, &field, &body)) {
		if ((field == FILE_MESSAGE && defines(body, of_message, 3, symbol)) ||
		    (field == FILE_ENUM && defines(body, NULL, 0, symbol)) ||
		    (field == FILE_SERVICE && defines(body, of_service, 1, symbol)))
			return true;
	}
	return false;
}

bool rpc_file_by_symbol(const char *symbol, struct rpc_file *out)
{
	struct reader set = reader_of(proto_descriptors, proto_descriptors_len);
	struct reader file;
	uint64_t field;

	while (next_field(&set, &field, &file)) {
		if (field != SET_FILE || !file_defines(file, symbol))
			continue;
		*out = (struct rpc_file){ file.p, reader_left(&file) };
		return true;
	}
	return false;
}

size_t rpc_file_closure(struct rpc_file first, struct rpc_file *out, size_t max)
{
	struct reader body;
	uint64_t field;
	size_t n = 0;

	if (n < max)
		out[n++] = first;
	for (size_t i = 0; i < n; i++) {
		struct reader file = reader_of(out[i].data, out[i].len);

		while (next_field(&file, &field, &body)) {
			struct rpc_file f;
			size_t k = 0;

			if (field != FILE_IMPORT ||
			    !rpc_file_by_name((const char *)body.p, reader_left(&body), &f))
				continue;
			while (k < n && out[k].data != f.data)
				k++;
			if (k == n && n < max)
				out[n++] = f;
		}
	}
	return n;
}
