/* SPDX-License-Identifier: Apache-2.0 */
/* inject/nvtx.c between tables like NVTX's and the agent's readers: what becomes of ranges, marks and their payloads. */
#include "agent/tracer/annotations/rings.h"

#include <unistd.h>
#include <wchar.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

typedef void (*any_fn)(void);
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id));

/* NVTX's numbers of what is called here. */
enum { CORE = 1, CORE2 = 5, ENTRIES = 16 };
enum { PUSH_A = 9, PUSH_W = 10, POP = 11, START_A = 5, END = 7, MARK_EX = 1 };
enum { DOMAIN_PUSH = 4, DOMAIN_POP = 5, DOMAIN_NEW = 12, STRING_NEW = 10 };
enum { ASCII = 1, REGISTERED = 3 };
enum { INT32 = 5, FLOAT = 6 };

/* Event attributes of NVTX 3. */
struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	union {
		uint64_t u64;
		int32_t i32;
		float f;
	} payload;
	int32_t message_type;
	const void *message;
};

static any_fn functions[2][ENTRIES];
static any_fn *slots[2][ENTRIES];

static int function_table(int module, any_fn ***table, unsigned int *size)
{
	if (module != CORE && module != CORE2)
		return 0;
	*table = slots[module == CORE2];
	*size = ENTRIES;
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

/* ---- calls ---- */

static void push(const char *name)
{
	((int (*)(const char *))functions[0][PUSH_A])(name);
}

static void push_wide(const wchar_t *name)
{
	((int (*)(const wchar_t *))functions[0][PUSH_W])(name);
}

static void pop(void)
{
	((int (*)(void))functions[0][POP])();
}

static uint64_t start(const char *name)
{
	return ((uint64_t(*)(const char *))functions[0][START_A])(name);
}

static void end(uint64_t range)
{
	((void (*)(uint64_t))functions[0][END])(range);
}

static void mark(const struct attributes *a)
{
	((void (*)(const struct attributes *))functions[0][MARK_EX])(a);
}

static void *domain_new(const char *name)
{
	return ((void *(*)(const char *))functions[1][DOMAIN_NEW])(name);
}

static void *string_new(void *domain, const char *text)
{
	return ((void *(*)(void *, const char *))functions[1][STRING_NEW])(domain, text);
}

static void domain_push(void *domain, int type, const void *message)
{
	const struct attributes a = {
		.version = 3, .size = sizeof(a), .message_type = type, .message = message
	};

	((int (*)(void *, const struct attributes *))functions[1][DOMAIN_PUSH])(domain, &a);
}

static void domain_pop(void *domain)
{
	((int (*)(void *))functions[1][DOMAIN_POP])(domain);
}

/* ---- what the agent reads ---- */

#define NOTES_MAX 16

static struct note notes[NOTES_MAX];
static size_t n_notes;
static struct rings *rings;

static void on_note(void *arg, const struct note *n)
{
	(void)arg;
	if (n->pid != getpid())
		return;
	CHECK(n_notes < NOTES_MAX);
	memcpy(&notes[n_notes++], n, NOTE_BYTES(n));
}

/* In the order of their ends: a scope is known when it is over. */
static void check_read(size_t n, const char *const *texts)
{
	static struct ticks_map map;
	struct ring_reading r = { .map = &map, .slots_left = SIZE_MAX, .fn = on_note };

	n_notes = 0;
	ticks_map_read(&map);
	rings_look(rings, now_mono_ns(), true);
	r.now_raw_ns = now_raw_ns();
	rings_read(rings, &r);
	for (size_t i = 0; i < n && i < n_notes; i++)
		CHECK_STR(notes[i].text, texts[i]);
	CHECK_EQ(n_notes, n);
	for (size_t i = 0; i < n; i++)
		CHECK(!notes[i].unfinished && notes[i].begin_raw_ns <= notes[i].end_raw_ns);
}

#define CHECK_READ(...) \
	do { \
		static const char *const texts[] = { __VA_ARGS__ }; \
		check_read(ARRAY_SIZE(texts), texts); \
	} while (0)

/* ---- the tests ---- */

static void test_nested(void)
{
	push("outer");
	push_wide(L"inner \u00e4\u20ac");
	pop();
	pop();
	pop(); /* one too many */
	CHECK_READ("inner \xc3\xa4\xe2\x82\xac", "outer");
	CHECK(notes[1].begin_raw_ns <= notes[0].begin_raw_ns &&
	      notes[0].end_raw_ns <= notes[1].end_raw_ns);
}

/* Each domain has its own stack: a range that is popped ends those of others that were pushed after it. */
static void test_domains(void)
{
	void *a = domain_new("a"), *b = domain_new("b");

	domain_push(a, ASCII, "first");
	domain_push(b, REGISTERED, string_new(b, "second"));
	push("third");
	domain_pop(a);
	CHECK_READ("third", "b:second", "a:first");
	pop();
	domain_pop(b); /* these two have ended */
	push("fourth");
	pop();
	CHECK_READ("fourth");
	domain_push(a, ASCII, "fifth");
	pop(); /* of another domain: nothing ends */
	domain_pop(a);
	CHECK_READ("a:fifth");
}

static void test_ranges_and_marks(void)
{
	struct attributes a = { .version = 3,
				.size = sizeof(a),
				.payload_type = INT32,
				.payload.i32 = -7,
				.message_type = ASCII,
				.message = "mark" };
	uint64_t one = start("one"), two = start("two");
	double value;

	end(one);
	end(two);
	mark(&a);
	a.payload_type = FLOAT;
	a.payload.f = 0.5f;
	mark(&a);
	a.size = 8; /* of a version with less: nothing of it is read */
	mark(&a);
	CHECK_READ("one", "two", "mark", "mark", "");
	CHECK_EQ((int64_t)notes[2].value, -7);
	memcpy(&value, &notes[3].value, sizeof(value));
	CHECK(value == 0.5);
}

int main(void)
{
	for (int m = 0; m < 2; m++)
		for (int i = 0; i < ENTRIES; i++)
			slots[m][i] = &functions[m][i];
	CHECK_EQ(InitializeInjectionNvtx2(export_table), 1);
	rings = rings_new();
	test_nested();
	test_domains();
	test_ranges_and_marks();
	rings_free(rings);
	return 0;
}
