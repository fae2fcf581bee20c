/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/fiber.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <ucontext.h>

#include "base/mem.h"

/* AddressSanitizer has to know on which stack the code runs. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(save, bottom, size)  ((void)(save))
#define __sanitizer_finish_switch_fiber(save, bottom, size) ((void)(save))
#endif

#define STACK_BYTES ((size_t)1 << 20)

struct fiber {
	void (*fn)(void *arg);
	void *arg;
	void *stack;
	ucontext_t own, caller;
	bool ended;
	struct fiber *outer; /* it was run by code of this one, or NULL */
	void *own_fake, *caller_fake; /* AddressSanitizer's */
	const void *caller_bottom;
	size_t caller_bytes;
	SLIST_ENTRY(fiber) unused;
};

static struct fiber *current;
static SLIST_HEAD(, fiber) unused = SLIST_HEAD_INITIALIZER(unused); /* their stacks serve again */

static void leave(struct fiber *f)
{
	__sanitizer_start_switch_fiber(f->ended ? NULL : &f->own_fake, f->caller_bottom,
				       f->caller_bytes);
	swapcontext(&f->own, &f->caller);
	__sanitizer_finish_switch_fiber(f->own_fake, &f->caller_bottom, &f->caller_bytes);
}

/* makecontext() passes only int arguments. */
static void begin(void)
{
	struct fiber *f = current;

	__sanitizer_finish_switch_fiber(NULL, &f->caller_bottom, &f->caller_bytes);
	f->fn(f->arg);
	f->ended = true;
	leave(f);
}

static struct fiber *new_with_stack(void)
{
	struct fiber *f = xcalloc(1, sizeof(*f));

	f->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (f->stack == MAP_FAILED) {
		perror("a stack");
		exit(1);
	}
	mprotect(f->stack, 4096, PROT_NONE); /* a stack that is too small ends the program */
	return f;
}

static void make_context(ucontext_t *own, void *stack)
{
	getcontext(own);
	own->uc_stack.ss_sp = stack;
	own->uc_stack.ss_size = STACK_BYTES;
	own->uc_link = NULL;
	makecontext(own, begin, 0);
}

struct fiber *fiber_new(void (*fn)(void *arg), void *arg)
{
	struct fiber *f = SLIST_FIRST(&unused);

	if (f)
		SLIST_REMOVE_HEAD(&unused, unused);
	else
		f = new_with_stack();
	f->fn = fn;
	f->arg = arg;
	f->ended = false;
	f->own_fake = NULL;
	make_context(&f->own, f->stack);
	return f;
}

bool fiber_run(struct fiber *f)
{
	assert(f != current && !f->ended);
	f->outer = current;
	current = f;
	__sanitizer_start_switch_fiber(&f->caller_fake, f->stack, STACK_BYTES);
	swapcontext(&f->caller, &f->own);
	__sanitizer_finish_switch_fiber(f->caller_fake, NULL, NULL);
	current = f->outer;
	if (f->ended)
		SLIST_INSERT_HEAD(&unused, f, unused);
	return f->ended;
}

void fiber_stop(void)
{
	assert(current);
	leave(current);
}
