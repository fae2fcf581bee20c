/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/fake_python.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/check.h"

#define VERSION_3_12 0x030c01f0
#define WORDS	     10 /* that frames of each code object need */
#define CHUNK_BYTES  16384
#define INSTRUCTIONS 64

static bool is_inside(uint64_t address, size_t len)
{
	return address >= FAKE_PYTHON_BASE && address - FAKE_PYTHON_BASE <= FAKE_PYTHON_BYTES &&
	       len <= FAKE_PYTHON_BYTES - (address - FAKE_PYTHON_BASE);
}

static int64_t read_fake(void *arg, const struct python_range *ranges, size_t n)
{
	struct fake_python *f = arg;
	int64_t got = 0;

	CHECK(n <= PYTHON_RANGES_MAX);
	f->reads++;
	if (f->before_read)
		f->before_read(f, f->arg);
	for (size_t i = 0; i < n; i++) {
		if (!is_inside(ranges[i].address, ranges[i].len))
			break;
		memcpy(ranges[i].out, f->bytes + (ranges[i].address - FAKE_PYTHON_BASE),
		       ranges[i].len);
		got += (int64_t)ranges[i].len;
	}
	errno = got ? 0 : EFAULT;
	return got ? got : -1;
}

static uint64_t allocate(struct fake_python *f, size_t len)
{
	uint64_t address = FAKE_PYTHON_BASE + f->used;

	f->used += (len + 15) & ~(size_t)15;
	CHECK(f->used <= FAKE_PYTHON_BYTES);
	return address;
}

struct fake_python *fake_python_new(void)
{
	struct fake_python *f = xcalloc(1, sizeof(*f));
	struct err e;

	f->memory = (struct python_memory){ read_fake, f };
	CHECK_OK(python_layout_load(&f->interpreter.layout, VERSION_3_12, "", 0, &e), e);
	f->used = 64;
	f->interpreter.runtime = allocate(f, 4096);
	f->first = allocate(f, 4096);
	fake_python_set(f, f->interpreter.runtime + f->interpreter.layout.interpreters, f->first);
	return f;
}

void fake_python_free(struct fake_python *f)
{
	free(f);
}

uint64_t fake_python_get(const struct fake_python *f, uint64_t address)
{
	CHECK(is_inside(address, 8));
	return python_u64(f->bytes, (uint32_t)(address - FAKE_PYTHON_BASE));
}

void fake_python_set(struct fake_python *f, uint64_t address, uint64_t v)
{
	CHECK(is_inside(address, 8));
	memcpy(f->bytes + (address - FAKE_PYTHON_BASE), &v, sizeof(v));
}

void fake_python_set32(struct fake_python *f, uint64_t address, uint32_t v)
{
	CHECK(is_inside(address, 4));
	memcpy(f->bytes + (address - FAKE_PYTHON_BASE), &v, sizeof(v));
}

uint64_t fake_python_text(struct fake_python *f, const char *s)
{
	const struct python_layout *l = &f->interpreter.layout;
	uint64_t address = allocate(f, l->text_ascii + strlen(s) + 1);

	fake_python_set(f, address + 8, FAKE_PYTHON_BASE); /* its type */
	fake_python_set(f, address + l->text_length, strlen(s));
	fake_python_set32(f, address + l->text_state, 1U << 2 | 1U << 5 | 1U << 6);
	memcpy(f->bytes + (address - FAKE_PYTHON_BASE) + l->text_ascii, s, strlen(s));
	return address;
}

/* Each entry is for one instruction, in the line after that of the entry before. */
static uint64_t table(struct fake_python *f)
{
	const struct python_layout *l = &f->interpreter.layout;
	uint64_t address = allocate(f, l->bytes_start + (size_t)INSTRUCTIONS * 3);
	uint8_t *at = f->bytes + (address - FAKE_PYTHON_BASE) + l->bytes_start;

	fake_python_set(f, address + l->bytes_length, INSTRUCTIONS * 3);
	for (int i = 0; i < INSTRUCTIONS; i++) {
		*at++ = 0x80 | 11 << 3;
		*at++ = 0;
		*at++ = 0;
	}
	return address;
}

uint64_t fake_python_code(struct fake_python *f, const char *name, const char *file,
			  uint32_t first_line)
{
	const struct python_layout *l = &f->interpreter.layout;
	uint64_t address = allocate(f, l->code_instructions + (size_t)INSTRUCTIONS * 2);

	fake_python_set(f, address + 8, FAKE_PYTHON_BASE + 16);
	fake_python_set(f, address + 16, INSTRUCTIONS);
	fake_python_set(f, address + l->code_name, fake_python_text(f, name));
	fake_python_set(f, address + l->code_file, fake_python_text(f, file));
	fake_python_set(f, address + l->code_table, table(f));
	fake_python_set32(f, address + l->code_first_line, first_line);
	fake_python_set32(f, address + l->code_stack, 4);
	fake_python_set32(f, address + l->code_locals, WORDS - 4);
	return address;
}

uint64_t fake_python_thread(struct fake_python *f, uint32_t id)
{
	const struct python_layout *l = &f->interpreter.layout;
	uint64_t state = allocate(f, 512), cframe = allocate(f, 64);
	uint64_t chunk = allocate(f, CHUNK_BYTES), list = f->first + l->interpreter_threads;

	fake_python_set(f, state + l->thread_next, fake_python_get(f, list));
	fake_python_set(f, state + l->thread_id, id);
	fake_python_set(f, state + l->thread_cframe, cframe);
	fake_python_set(f, state + l->thread_chunk, chunk);
	fake_python_set(f, state + l->thread_chunk + 8, chunk + 32);
	fake_python_set(f, list, state);
	return state;
}

uint64_t fake_python_push(struct fake_python *f, uint64_t thread, uint64_t code, uint32_t at)
{
	const struct python_layout *l = &f->interpreter.layout;
	uint64_t top = thread + l->thread_chunk + 8, frame = fake_python_get(f, top);
	uint64_t current = fake_python_get(f, thread + l->thread_cframe) + l->thread_frame;

	fake_python_set(f, frame + l->frame_code, code);
	fake_python_set(f, frame + l->frame_previous, fake_python_get(f, current));
	fake_python_set(f, frame + l->frame_instruction,
			code + l->code_instructions + (uint64_t)at * 2);
	fake_python_set(f, current, frame);
	fake_python_set(f, top, frame + 8 * (WORDS + l->frame_locals / 8));
	return frame;
}
