/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtutti_nvtx.so: the NVTX ranges and marks of a process, and of its libraries (NCCL, cuDNN, ...), as annotations.
 * NVTX loads the library that NVTX_INJECTION64_PATH names when the process uses NVTX for the first time, with a GPU
 * or without, and calls InitializeInjectionNvtx2(), which puts its functions into NVTX's tables.
 *
 * Names are "DOMAIN:MESSAGE", or the message alone in the default domain. NVTX's own declarations are not needed:
 * those below are of version 3, and its tables only grow.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "include/tutti/tutti.h"

#define STRINGS_MAX 65536 /* registered domains and strings; further ones have one text together */
#define OTHER_NAMES "(other names)" /* as the agent calls those that it has no room for */
#define NEST_MAX    256 /* ranges of a thread; deeper ones are not recorded */
#define NOT_TRACKED (-2) /* NVTX_NO_PUSH_POP_TRACKING: the caller is not told the depth */

/* ---- NVTX's declarations ---- */

typedef void (*any_fn)(void);

struct export_callbacks {
	size_t size;
	/* A table of NVTX: pointers to the function pointers that this library replaces. */
	int (*function_table)(int module, any_fn ***table, unsigned int *size);
};

enum { EXPORT_CALLBACKS = 1 };
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };

/* An extension's functions: those that the tool leaves alone do nothing. */
struct extension {
	uint16_t version, size, module, compatible;
	size_t n_segments;
	const struct {
		size_t id, n;
		any_fn *functions;
	} * segments;
};

enum { EXTENSION_PAYLOAD = 2 };

/* Ranges whose name is in a payload have none here. */
enum with_payload {
	PUSH_WITH_PAYLOAD = 3,
	POP_WITH_PAYLOAD = 4,
	START_WITH_PAYLOAD = 5,
	END_WITH_PAYLOAD = 6,
};

enum core {
	CORE_MARK_EX = 1,
	CORE_MARK_A = 2,
	CORE_MARK_W = 3,
	CORE_RANGE_START_EX = 4,
	CORE_RANGE_START_A = 5,
	CORE_RANGE_START_W = 6,
	CORE_RANGE_END = 7,
	CORE_PUSH_EX = 8,
	CORE_PUSH_A = 9,
	CORE_PUSH_W = 10,
	CORE_POP = 11,
};

enum core2 {
	CORE2_MARK_EX = 1,
	CORE2_RANGE_START_EX = 2,
	CORE2_RANGE_END = 3,
	CORE2_PUSH_EX = 4,
	CORE2_POP = 5,
	CORE2_STRING_A = 10,
	CORE2_STRING_W = 11,
	CORE2_DOMAIN_A = 12,
	CORE2_DOMAIN_W = 13,
};

enum { MESSAGE_ASCII = 1, MESSAGE_WIDE = 2, MESSAGE_REGISTERED = 3 };
enum {
	PAYLOAD_UINT64 = 1,
	PAYLOAD_INT64 = 2,
	PAYLOAD_DOUBLE = 3,
	PAYLOAD_UINT32 = 4,
	PAYLOAD_INT32 = 5,
	PAYLOAD_FLOAT = 6,
};

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	union {
		uint64_t u64;
		int64_t i64;
		double d;
		uint32_t u32;
		int32_t i32;
		float f;
	} payload;
	int32_t message_type;
	const void *message;
};

/* ---- texts ---- */

struct text {
	size_t len;
	char s[TUTTI_TEXT_MAX + 1]; /* ends with NUL */
};

/* Called for each range, so it clears no more than it must. */
static void clear(struct text *t)
{
	t->len = 0;
	t->s[0] = '\0';
}

static void add_bytes(struct text *t, const char *s, size_t len)
{
	if (len > TUTTI_TEXT_MAX - t->len)
		len = TUTTI_TEXT_MAX - t->len;
	memcpy(t->s + t->len, s, len);
	t->len += len;
	t->s[t->len] = '\0';
}

static void add_ascii(struct text *t, const char *s)
{
	if (s)
		add_bytes(t, s, strnlen(s, TUTTI_TEXT_MAX));
}

static size_t utf8_of(uint32_t c, char out[4])
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 63));
		out[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | (c >> 18 & 7));
	out[1] = (char)(0x80 | (c >> 12 & 63));
	out[2] = (char)(0x80 | (c >> 6 & 63));
	out[3] = (char)(0x80 | (c & 63));
	return 4;
}

static void add_wide(struct text *t, const wchar_t *s)
{
	char utf8[4];

	for (; s && *s && t->len < TUTTI_TEXT_MAX; s++)
		add_bytes(t, utf8, utf8_of((uint32_t)*s, utf8));
}

/* A domain's name or a registered string. NVTX's handle is its address. It lives as long as the process. */
struct handle {
	struct text text;
	/* a list, so that a program's leak checker sees that they are in use */
	struct handle *next;
};

static uint32_t n_handles;
static struct handle *handles;
static struct text other_names = { sizeof(OTHER_NAMES) - 1, OTHER_NAMES };

static struct text *handle_new(void)
{
	struct handle *h = NULL;

	if (__atomic_fetch_add(&n_handles, 1, __ATOMIC_RELAXED) < STRINGS_MAX)
		h = (struct handle *)calloc(1, sizeof(*h));
	if (!h)
		return &other_names;
	h->next = __atomic_load_n(&handles, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&handles, &h->next, h, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
	return &h->text;
}

static void *handle_of_ascii(const char *s)
{
	struct text *t = handle_new();

	if (t != &other_names)
		add_ascii(t, s);
	return t;
}

static void *handle_of_wide(const wchar_t *s)
{
	struct text *t = handle_new();

	if (t != &other_names)
		add_wide(t, s);
	return t;
}

static void add_domain(struct text *t, const struct text *domain)
{
	if (!domain || !domain->len)
		return;
	add_bytes(t, domain->s, domain->len < 64 ? domain->len : 64);
	add_bytes(t, ":", 1);
}

static void add_message(struct text *t, const struct attributes *a)
{
	const struct text *registered;

	if (!a || a->size < sizeof(*a) || !a->message)
		return;
	switch (a->message_type) {
	case MESSAGE_ASCII:
		add_ascii(t, (const char *)a->message);
		break;
	case MESSAGE_WIDE:
		add_wide(t, (const wchar_t *)a->message);
		break;
	case MESSAGE_REGISTERED:
		registered = (const struct text *)a->message;
		add_bytes(t, registered->s, registered->len);
		break;
	default:
		break;
	}
}

static struct text name_of(const struct text *domain, const struct attributes *a)
{
	struct text t;

	clear(&t);
	add_domain(&t, domain);
	add_message(&t, a);
	return t;
}

static struct text name_of_ascii(const char *s)
{
	struct text t;

	clear(&t);
	add_ascii(&t, s);
	return t;
}

static struct text name_of_wide(const wchar_t *s)
{
	struct text t;

	clear(&t);
	add_wide(&t, s);
	return t;
}

/* ---- payloads ---- */

struct value {
	uint8_t type; /* enum tutti_type */
	uint64_t bits;
};

static struct value value_of_double(double d)
{
	struct value v = { TUTTI_TYPE_DOUBLE, 0 };

	memcpy(&v.bits, &d, sizeof(d));
	return v;
}

static struct value value_of(const struct attributes *a)
{
	struct value none = { TUTTI_TYPE_NONE, 0 };

	if (!a || a->size < sizeof(*a))
		return none;
	switch (a->payload_type) {
	case PAYLOAD_UINT64:
		return (struct value){ TUTTI_TYPE_UINT, a->payload.u64 };
	case PAYLOAD_INT64:
		return (struct value){ TUTTI_TYPE_INT, (uint64_t)a->payload.i64 };
	case PAYLOAD_UINT32:
		return (struct value){ TUTTI_TYPE_UINT, a->payload.u32 };
	case PAYLOAD_INT32:
		return (struct value){ TUTTI_TYPE_INT, (uint64_t)(int64_t)a->payload.i32 };
	case PAYLOAD_DOUBLE:
		return value_of_double(a->payload.d);
	case PAYLOAD_FLOAT:
		return value_of_double((double)a->payload.f);
	/* an extension's payload: a pointer to data of a schema that this library does not know */
	default:
		return none;
	}
}

/* ---- push and pop ---- */

/*
 * NVTX has a stack of ranges per thread and domain; Tutti's scopes have one stack per thread. So the ranges that lie above one that is
 * popped end with it, which are of other domains. They are kept as closed until they are popped, too, which some libraries forget.
 */
static __thread struct {
	struct {
		const struct text *domain;
		bool is_open; /* a scope */
	} v[NEST_MAX];
	uint32_t n;
} nest;

static void forget_closed(void)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < nest.n; i++)
		if (nest.v[i].is_open)
			nest.v[left++] = nest.v[i];
	nest.n = left;
}

static int push(const struct text *domain, struct text name, struct value value)
{
	if (nest.n == NEST_MAX)
		forget_closed();
	if (nest.n >= NEST_MAX) {
		nest.n++;
		return NOT_TRACKED;
	}
	nest.v[nest.n].domain = domain;
	nest.v[nest.n++].is_open = tutti_begin_(TUTTI_KIND_BEGIN, value.type, value.bits, name.s,
						name.len);
	return NOT_TRACKED;
}

/* Ends this scope, and those above it. */
static void close_from(uint32_t at)
{
	for (uint32_t i = nest.n; nest.v[at].is_open && i > at; i--) {
		if (nest.v[i - 1].is_open)
			tutti_end();
		nest.v[i - 1].is_open = false;
	}
}

static int pop(const struct text *domain)
{
	uint32_t at = nest.n;

	if (nest.n > NEST_MAX) {
		nest.n--;
		return NOT_TRACKED;
	}
	while (at && nest.v[at - 1].domain != domain)
		at--;
	if (!at)
		return NOT_TRACKED;
	close_from(at - 1);
	memmove(&nest.v[at - 1], &nest.v[at], (nest.n - at) * sizeof(nest.v[0]));
	nest.n--;
	return NOT_TRACKED;
}

static int push_ex(const struct attributes *a)
{
	return push(NULL, name_of(NULL, a), value_of(a));
}

static int push_ascii(const char *s)
{
	return push(NULL, name_of_ascii(s), value_of(NULL));
}

static int push_wide(const wchar_t *s)
{
	return push(NULL, name_of_wide(s), value_of(NULL));
}

static int pop_default(void)
{
	return pop(NULL);
}

static int domain_push(void *domain, const struct attributes *a)
{
	return push((const struct text *)domain, name_of((const struct text *)domain, a),
		    value_of(a));
}

static int domain_pop(void *domain)
{
	return pop((const struct text *)domain);
}

/* ---- ranges and marks ---- */

static uint64_t range_start(struct text name)
{
	return tutti_range_begin(name.s);
}

static uint64_t start_ex(const struct attributes *a)
{
	return range_start(name_of(NULL, a));
}

static uint64_t start_ascii(const char *s)
{
	return range_start(name_of_ascii(s));
}

static uint64_t start_wide(const wchar_t *s)
{
	return range_start(name_of_wide(s));
}

static void range_end(uint64_t range)
{
	tutti_range_end(range);
}

static uint64_t domain_start(void *domain, const struct attributes *a)
{
	return range_start(name_of((const struct text *)domain, a));
}

static void domain_end(void *domain, uint64_t range)
{
	(void)domain;
	tutti_range_end(range);
}

static void mark(struct text name, struct value value)
{
	tutti_put_now_(TUTTI_KIND_INSTANT, value.type, value.bits, name.s, name.len);
}

static void mark_ex(const struct attributes *a)
{
	mark(name_of(NULL, a), value_of(a));
}

static void mark_ascii(const char *s)
{
	mark(name_of_ascii(s), value_of(NULL));
}

static void mark_wide(const wchar_t *s)
{
	mark(name_of_wide(s), value_of(NULL));
}

static void domain_mark(void *domain, const struct attributes *a)
{
	mark(name_of((const struct text *)domain, a), value_of(a));
}

/* ---- the extension for payloads: NCCL ends its ranges so ---- */

static int payload_push(void *domain, const void *payloads, size_t n)
{
	(void)payloads;
	(void)n;
	return domain_push(domain, NULL);
}

static int payload_pop(void *domain, const void *payloads, size_t n)
{
	(void)payloads;
	(void)n;
	return domain_pop(domain);
}

static uint64_t payload_start(void *domain, const void *payloads, size_t n)
{
	(void)payloads;
	(void)n;
	return domain_start(domain, NULL);
}

static void payload_end(void *domain, uint64_t range, const void *payloads, size_t n)
{
	(void)payloads;
	(void)n;
	domain_end(domain, range);
}

/* ---- the tables ---- */

static void *domain_string_ascii(void *domain, const char *s)
{
	(void)domain;
	return handle_of_ascii(s);
}

static void *domain_string_wide(void *domain, const wchar_t *s)
{
	(void)domain;
	return handle_of_wide(s);
}

struct entry {
	unsigned int id;
	any_fn fn;
};

static const struct entry core[] = {
	{ CORE_MARK_EX, (any_fn)mark_ex },	     { CORE_MARK_A, (any_fn)mark_ascii },
	{ CORE_MARK_W, (any_fn)mark_wide },	     { CORE_RANGE_START_EX, (any_fn)start_ex },
	{ CORE_RANGE_START_A, (any_fn)start_ascii }, { CORE_RANGE_START_W, (any_fn)start_wide },
	{ CORE_RANGE_END, (any_fn)range_end },	     { CORE_PUSH_EX, (any_fn)push_ex },
	{ CORE_PUSH_A, (any_fn)push_ascii },	     { CORE_PUSH_W, (any_fn)push_wide },
	{ CORE_POP, (any_fn)pop_default },	     { 0, NULL },
};

static const struct entry core2[] = {
	{ CORE2_MARK_EX, (any_fn)domain_mark },
	{ CORE2_RANGE_START_EX, (any_fn)domain_start },
	{ CORE2_RANGE_END, (any_fn)domain_end },
	{ CORE2_PUSH_EX, (any_fn)domain_push },
	{ CORE2_POP, (any_fn)domain_pop },
	{ CORE2_STRING_A, (any_fn)domain_string_ascii },
	{ CORE2_STRING_W, (any_fn)domain_string_wide },
	{ CORE2_DOMAIN_A, (any_fn)handle_of_ascii },
	{ CORE2_DOMAIN_W, (any_fn)handle_of_wide },
	{ 0, NULL },
};

static const struct entry with_payload[] = {
	{ PUSH_WITH_PAYLOAD, (any_fn)payload_push },
	{ POP_WITH_PAYLOAD, (any_fn)payload_pop },
	{ START_WITH_PAYLOAD, (any_fn)payload_start },
	{ END_WITH_PAYLOAD, (any_fn)payload_end },
	{ 0, NULL },
};

static void replace(const struct export_callbacks *nvtx, int module, const struct entry *entries)
{
	any_fn **table = NULL;
	unsigned int size = 0;

	if (!nvtx->function_table(module, &table, &size) || !table)
		return;
	for (; entries->fn; entries++) {
		if (entries->id < size && table[entries->id])
			*table[entries->id] = entries->fn;
	}
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
	const void *(*export_table)(uint32_t id));

/* 1: NVTX uses what the tables hold now. */
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id))
{
	const struct export_callbacks *nvtx = (const struct export_callbacks *)export_table(
		EXPORT_CALLBACKS);

	if (!nvtx || nvtx->size < sizeof(*nvtx))
		return 0;
	replace(nvtx, MODULE_CORE, core);
	replace(nvtx, MODULE_CORE2, core2);
	return 1;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
	const struct extension *extension);

/* 1: NVTX uses what the table holds now; 0: nothing of this extension. */
int InitializeInjectionNvtxExtension(const struct extension *extension)
{
	if (extension->size < sizeof(*extension) || extension->module != EXTENSION_PAYLOAD ||
	    !extension->n_segments)
		return 0;
	for (const struct entry *e = with_payload; e->fn; e++)
		if (e->id < extension->segments[0].n)
			extension->segments[0].functions[e->id] = e->fn;
	return 1;
}
