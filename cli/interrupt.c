/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

#include "base/now.h"

#define LOOK_NS (100 * NS_PER_MS)

static volatile sig_atomic_t is_interrupted;
static struct sigaction before;
static int n_catching;

static void on_interrupt(int signo)
{
	(void)signo;
	is_interrupted = 1;
}

void interrupt_catch(void)
{
	const struct sigaction on = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };

	if (!n_catching++)
		sigaction(SIGINT, &on, &before);
}

void interrupt_release(void)
{
	if (!--n_catching)
		sigaction(SIGINT, &before, NULL);
}

bool interrupt_seen(void)
{
	return is_interrupted;
}

void interrupt_sleep_until_mono(int64_t mono_ns)
{
	int64_t now_ns;

	while (!is_interrupted && (now_ns = now_mono_ns()) < mono_ns)
		now_sleep_until_mono(mono_ns - now_ns < LOOK_NS ? mono_ns : now_ns + LOOK_NS);
}
