/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject/nvtx.c as NVTX calls it, with any attributes: a row of {function, attributes, text}. What the attributes point to
 * is there, as NVTX promises; their sizes, types and the texts are anything, and calls come in any order.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

typedef void (*any_fn)(void);
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id));
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CORE = 1, CORE2 = 5, ENTRIES = 16, ATTRIBUTES = 48, MESSAGE_TYPE_AT = 32, MESSAGE_AT = 40 };

static any_fn functions[2][ENTRIES];
static any_fn *slots[2][ENTRIES];
static void *handles[4];
static uint64_t ranges[4];

static int function_table(int module, any_fn ***table, unsigned int *size)
{
	int i = module == CORE ? 0 : 1;

	if (module != CORE && module != CORE2)
		return 0;
	*table = slots[i];
	*size = i ? ENTRIES : 12; /* one table is older */
	return 1;
}

static const void *export_table(uint32_t id)
{
	static const struct {
		size_t size;
		int (*table)(int module, any_fn ***table, unsigned int *size);
	} callbacks = { sizeof(callbacks), function_table };

	return id == 1 ? &callbacks : NULL;
}

static void inject(void)
{
	for (int m = 0; m < 2; m++)
		for (int i = 0; i < ENTRIES; i++)
			slots[m][i] = i == 14 ? NULL : &functions[m][i];
	if (InitializeInjectionNvtx2(export_table) != 1)
		abort();
}

struct call {
	uint8_t attributes[ATTRIBUTES];
	char text[256];
	wchar_t wide[256];
};

/* The message is what its type says; a type that NVTX does not have gets no message. */
static void prepare(struct call *c, const uint8_t *data, size_t size)
{
	size_t n = size < ATTRIBUTES ? size : ATTRIBUTES, len;
	const void *message = NULL;
	int32_t type;

	memset(c, 0, sizeof(*c));
	memcpy(c->attributes, data, n);
	len = size - n < 255 ? size - n : 255;
	memcpy(c->text, data + n, len);
	for (size_t i = 0; i < len; i++)
		c->wide[i] = data[n + i] > 250 ? (wchar_t)(data[n + i] * 7919) : data[n + i];
	memcpy(&type, c->attributes + MESSAGE_TYPE_AT, sizeof(type));
	if (type == 1)
		message = c->text;
	if (type == 2)
		message = c->wide;
	if (type == 3)
		message = handles[c->text[0] & 3];
	memcpy(c->attributes + MESSAGE_AT, &message, sizeof(message));
}

static void call_core(unsigned int id, const struct call *c, int pick)
{
	any_fn fn = functions[0][id];

	if (!fn)
		return;
	switch (id) {
	case 1:
	case 8:
		((void (*)(const void *))fn)(c->attributes);
		break;
	case 4:
		ranges[pick] = ((uint64_t(*)(const void *))fn)(c->attributes);
		break;
	case 5:
		ranges[pick] = ((uint64_t(*)(const void *))fn)(c->text);
		break;
	case 6:
		ranges[pick] = ((uint64_t(*)(const void *))fn)(c->wide);
		break;
	case 7:
		((void (*)(uint64_t))fn)(ranges[pick]);
		break;
	case 11:
		((int (*)(void))fn)();
		break;
	default:
		((void (*)(const void *))fn)(id == 3 || id == 10 ? (const void *)c->wide : c->text);
	}
}

static void call_core2(unsigned int id, const struct call *c, int pick)
{
	any_fn fn = functions[1][id];

	if (!fn)
		return;
	switch (id) {
	case 2:
		ranges[pick] = ((uint64_t(*)(void *, const void *))fn)(handles[pick],
								       c->attributes);
		break;
	case 3:
		((void (*)(void *, uint64_t))fn)(handles[pick], ranges[pick]);
		break;
	case 5:
		((int (*)(void *))fn)(handles[pick]);
		break;
	case 10:
	case 11:
		handles[pick] = ((void *(*)(void *, const void *))fn)(
			handles[pick], id == 10 ? (const void *)c->text : c->wide);
		break;
	case 12:
	case 13:
		handles[pick] = ((void *(*)(const void *))fn)(id == 12 ? (const void *)c->text
								       : c->wide);
		break;
	default:
		((void (*)(void *, const void *))fn)(handles[pick], c->attributes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct call c;

	if (!slots[0][0])
		inject();
	while (size >= 2) {
		size_t len = data[1] < size - 2 ? data[1] : size - 2;

		prepare(&c, data + 2, len);
		if (data[0] & 0x80)
			call_core2(data[0] & 15, &c, data[0] >> 4 & 3);
		else
			call_core(data[0] & 15, &c, data[0] >> 4 & 3);
		data += 2 + len;
		size -= 2 + len;
	}
	return 0;
}
