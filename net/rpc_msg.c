/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: received ones, which can be kept, and those to be sent. */
#include <stdlib.h>

#include "base/mem.h"
#include "net/rpc_impl.h"

/* ---- received ---- */

struct rpc_msg *rpc_msg_take(grpc_byte_buffer *bytes)
{
	struct rpc_msg *m = xcalloc(1, sizeof(*m));

	atomic_init(&m->refs, 1);
	m->bytes = bytes;
	m->len = grpc_byte_buffer_length(bytes);
	return m;
}

struct rpc_msg *rpc_msg_keep(const struct rpc_msg *m)
{
	struct rpc_msg *own = (struct rpc_msg *)m;

	atomic_fetch_add(&own->refs, 1);
	return own;
}

void rpc_msg_free(struct rpc_msg *m)
{
	if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
		return;
	if (m->is_flat)
		grpc_slice_unref(m->flat);
	grpc_byte_buffer_destroy(m->bytes);
	free(m);
}

size_t rpc_msg_len(const struct rpc_msg *m)
{
	return m->len;
}

static grpc_slice flatten(grpc_byte_buffer *bytes)
{
	grpc_byte_buffer_reader r;
	grpc_slice *first, all;

	/* This fails only for compressed buffers, and compression is switched off. */
	if (!grpc_byte_buffer_reader_init(&r, bytes))
		return grpc_empty_slice();
	if (grpc_byte_buffer_reader_peek(&r, &first) &&
	    GRPC_SLICE_LENGTH(*first) == grpc_byte_buffer_length(bytes)) {
		all = grpc_slice_ref(*first);
	} else {
		grpc_byte_buffer_reader_destroy(&r);
		grpc_byte_buffer_reader_init(&r, bytes);
		all = grpc_byte_buffer_reader_readall(&r);
	}
	grpc_byte_buffer_reader_destroy(&r);
	return all;
}

const uint8_t *rpc_msg_data(const struct rpc_msg *m, size_t *len)
{
	struct rpc_msg *own = (struct rpc_msg *)m;

	if (!own->is_flat) {
		own->flat = flatten(own->bytes);
		own->is_flat = true;
	}
	*len = GRPC_SLICE_LENGTH(own->flat);
	return GRPC_SLICE_START_PTR(own->flat);
}

void rpc_msg_pieces(const struct rpc_msg *m, rpc_piece_fn fn, void *arg)
{
	grpc_byte_buffer_reader r;
	grpc_slice *s;

	if (!grpc_byte_buffer_reader_init(&r, m->bytes))
		return;
	while (grpc_byte_buffer_reader_peek(&r, &s))
		fn(arg, GRPC_SLICE_START_PTR(*s), GRPC_SLICE_LENGTH(*s));
	grpc_byte_buffer_reader_destroy(&r);
}

/* ---- to be sent ---- */

/* Bytes that core borrows until it calls back, on any thread. */
struct borrowed {
	void (*release)(void *arg);
	void *arg;
	atomic_bool lent; /* orders the lender's writes before the releaser's reads */
};

static void release_part(void *arg)
{
	struct borrowed *b = arg;

	if (atomic_load_explicit(&b->lent, memory_order_acquire))
		b->release(b->arg);
	free(b);
}

static grpc_slice part_slice(const struct rpc_part *p)
{
	struct borrowed *b;

	if (!p->release)
		return grpc_slice_from_static_buffer(p->data, p->len);
	b = xmalloc(sizeof(*b));
	b->release = p->release;
	b->arg = p->arg;
	atomic_init(&b->lent, false);
	atomic_store_explicit(&b->lent, true, memory_order_release);
	return grpc_slice_new_with_user_data((void *)p->data, p->len, release_part, b);
}

struct rpc_out *rpc_out_new(const struct rpc_part *parts, size_t n_parts, size_t len)
{
	struct rpc_out *out = xcalloc(1, sizeof(*out));
	grpc_slice *slices = xcalloc(n_parts ? n_parts : 1, sizeof(*slices));

	for (size_t i = 0; i < n_parts; i++)
		slices[i] = part_slice(&parts[i]);
	out->bytes = grpc_raw_byte_buffer_create(slices, n_parts);
	out->len = len;
	for (size_t i = 0; i < n_parts; i++)
		grpc_slice_unref(slices[i]);
	free(slices);
	return out;
}

void rpc_out_free(struct rpc_out *out)
{
	grpc_byte_buffer_destroy(out->bytes);
	free(out);
}

void rpc_parts_release(const struct rpc_part *parts, size_t n_parts)
{
	for (size_t i = 0; i < n_parts; i++)
		if (parts[i].release)
			parts[i].release(parts[i].arg);
}
