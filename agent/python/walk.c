/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/walk.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define TRIES 8
/* most bytes of the stack of frames that are copied together with the state */
#define CHUNK_BYTES (16U << 10)
#define SLACK_BYTES 1024U /* copied beyond what the last sample used, since stacks grow meanwhile */
#define GRAIN_BYTES 512U
/* bytes copied below a frame that was not copied: its callers are likely to be there */
#define BLOCK_BYTES 2048U
#define BLOCKS_MAX  128 /* most such blocks for one stack */
#define CODE_MAX    (1 << 26) /* bytes of instructions of one code object */
/* the low bits of a pointer: since 3.14 references to objects have tags there */
#define TAG_BITS UINT64_C(7)

struct piece {
	uint64_t from;
	size_t len;
};

struct python_walk {
	const struct python_memory *memory;
	const struct python_layout *layout;
	uint8_t state[PYTHON_STATE_BYTES];
	uint8_t cframe[16];
	struct piece chunk_piece, block_piece;
	size_t n_blocks;
	uint8_t chunk[CHUNK_BYTES];
	uint8_t block[BLOCK_BYTES + PYTHON_FRAME_BYTES];
};

struct python_walk *python_walk_new(void)
{
	return xcalloc(1, sizeof(struct python_walk));
}

void python_walk_free(struct python_walk *w)
{
	free(w);
}

void python_walk_set(struct python_walk *w, const struct python_memory *memory,
		     const struct python_layout *layout)
{
	w->memory = memory;
	w->layout = layout;
}

uint64_t python_walk_id(const struct python_walk *w)
{
	return python_u64(w->state, w->layout->thread_id);
}

uint64_t python_walk_next(const struct python_walk *w)
{
	return python_u64(w->state, w->layout->thread_next);
}

/* ---- copying ---- */

static bool has_cframe(const struct python_walk *w)
{
	return w->layout->thread_cframe != PYTHON_NO_OFFSET;
}

/* Copies the state with one call and, as far as they can be read, the C frame and the stack where the hint
 * says. */
static bool copy_state(struct python_walk *w, uint64_t thread, const struct python_hint *hint)
{
	struct python_range ranges[3] = { { thread, w->state, w->layout->thread_bytes } };
	size_t n = 1, before = w->layout->thread_bytes;
	int64_t got;

	if (hint->cframe) {
		ranges[n++] = (struct python_range){ hint->cframe, w->cframe, sizeof(w->cframe) };
		before += sizeof(w->cframe);
	}
	if (hint->len)
		ranges[n++] = (struct python_range){ hint->from, w->chunk, hint->len };
	got = w->memory->read(w->memory->arg, ranges, n);
	if (got >= 0 && got < (int64_t)w->layout->thread_bytes)
		errno = EFAULT;
	w->chunk_piece = (struct piece){ hint->from, 0 };
	w->block_piece = (struct piece){ 0, 0 };
	w->n_blocks = 0;
	if (got > (int64_t)before)
		w->chunk_piece.len = (size_t)got - before;
	return got >= (int64_t)w->layout->thread_bytes;
}

/* Checks the hint against the copied state. False, with a better hint, if other bytes must be copied. */
static bool update_hint(const struct python_walk *w, struct python_hint *hint)
{
	struct python_hint now = { 0 };
	uint64_t top, used;
	bool fits;

	if (has_cframe(w))
		now.cframe = python_u64(w->state, w->layout->thread_cframe);
	now.chunk = python_u64(w->state, w->layout->thread_chunk);
	top = python_u64(w->state, w->layout->thread_chunk + 8);
	used = top - now.chunk;
	if (now.chunk && top > now.chunk && used < UINT64_C(1) << 30) {
		uint64_t want = (used + SLACK_BYTES + GRAIN_BYTES - 1) &
				~(uint64_t)(GRAIN_BYTES - 1);

		now.len = want < CHUNK_BYTES ? (uint32_t)want : CHUNK_BYTES;
		now.from = now.chunk + want - now.len;
	}
	fits = now.cframe == hint->cframe && now.chunk == hint->chunk &&
	       (!now.len || top <= hint->from + hint->len);
	/* A stack that became a little shorter is copied as before, because it is likely to grow again. */
	if (!fits || now.from < hint->from || now.len + 4096 < hint->len)
		*hint = now;
	return fits;
}

static const uint8_t *find(const struct piece *piece, const uint8_t *bytes, uint64_t address,
			   size_t len)
{
	if (address < piece->from || address - piece->from > piece->len ||
	    len > piece->len - (address - piece->from))
		return NULL;
	return bytes + (address - piece->from);
}

/* Copies a block with the frame at its end, or only the frame if the rest cannot be read. */
static const uint8_t *copy_block(struct python_walk *w, uint64_t address)
{
	size_t len = w->layout->frame_bytes;
	const struct python_range ranges[2] = {
		{ address, w->block + BLOCK_BYTES, len },
		{ address - BLOCK_BYTES, w->block, BLOCK_BYTES },
	};
	int64_t got;

	if (w->n_blocks == BLOCKS_MAX || address < BLOCK_BYTES)
		return NULL;
	w->n_blocks++;
	got = w->memory->read(w->memory->arg, ranges, 2);
	w->block_piece = (struct piece){ address, got >= (int64_t)len ? len : 0 };
	if (got == (int64_t)(len + BLOCK_BYTES))
		w->block_piece = (struct piece){ address - BLOCK_BYTES, len + BLOCK_BYTES };
	return got >= (int64_t)len ? w->block + BLOCK_BYTES : NULL;
}

/* ---- frames ---- */

static const uint8_t *frame_bytes(struct python_walk *w, uint64_t address, bool *in_chunk)
{
	size_t len = w->layout->frame_bytes;
	const uint8_t *bytes = find(&w->chunk_piece, w->chunk, address, len);

	*in_chunk = bytes;
	if (!bytes && w->block_piece.len) {
		size_t skip = w->block_piece.len > len ? 0 : BLOCK_BYTES;

		bytes = find(&w->block_piece, w->block + skip, address, len);
	}
	return bytes ? bytes : copy_block(w, address);
}

static uint64_t innermost_frame(const struct python_walk *w)
{
	if (has_cframe(w))
		return python_u64(w->cframe, w->layout->thread_frame);
	return python_u64(w->state, w->layout->thread_frame);
}

/* Decodes a frame; false if the bytes are not one. */
static bool add_frame(const struct python_layout *l, const uint8_t *bytes, uint64_t address,
		      bool in_chunk, struct python_stack *out)
{
	uint64_t code = python_u64(bytes, l->frame_code) & ~TAG_BITS;
	uint64_t at = python_u64(bytes, l->frame_instruction);
	int64_t instruction = (int64_t)(at - (code + l->code_instructions));

	if (!code || instruction < -2 || instruction >= CODE_MAX || instruction % 2)
		return false;
	out->v[out->n++] = (struct python_frame){
		.code = code,
		.at = address,
		.instruction = (int32_t)instruction,
		.is_entry = l->frame_entry != PYTHON_NO_OFFSET && bytes[l->frame_entry],
		.in_chunk = in_chunk,
	};
	return true;
}

/* Marks the frame that was added last: C called it. */
static void mark_entry(struct python_stack *out)
{
	if (out->n)
		out->v[out->n - 1].is_entry = true;
}

static bool walk_frames(struct python_walk *w, struct python_stack *out)
{
	const struct python_layout *l = w->layout;
	uint64_t address = innermost_frame(w);

	out->n = 0;
	out->is_cut = false;
	for (size_t n = 0; address; n++) {
		const uint8_t *bytes;
		bool in_chunk;

		if (n == 2 * PYTHON_FRAMES_MAX || out->n == PYTHON_FRAMES_MAX ||
		    w->n_blocks == BLOCKS_MAX) {
			out->is_cut = true;
			return true;
		}
		bytes = address % 8 ? NULL : frame_bytes(w, address, &in_chunk);
		if (!bytes || bytes[l->frame_owner] > PYTHON_OWNER_SHIM + 1)
			return false;
		if (bytes[l->frame_owner] >= PYTHON_OWNER_SHIM)
			mark_entry(out);
		else if (!add_frame(l, bytes, address, in_chunk, out))
			return false;
		address = python_u64(bytes, l->frame_previous);
	}
	mark_entry(out);
	return true;
}

enum python_walk_result python_walk_thread(struct python_walk *w, uint64_t thread,
					   struct python_hint *hint, struct python_stack *out)
{
	for (int i = 0; i < TRIES; i++) {
		if (!copy_state(w, thread, hint)) {
			*hint = (struct python_hint){ 0 };
			return PYTHON_WALK_GONE;
		}
		if (update_hint(w, hint) && walk_frames(w, out))
			return PYTHON_WALK_WHOLE;
	}
	out->n = 0;
	return PYTHON_WALK_TORN;
}
