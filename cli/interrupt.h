/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT while a verb waits: the first one is noticed, the second one ends the process as ever. One thread. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

void interrupt_catch(void); /* from now on; may be called again */
void interrupt_release(void);

/* Whether it came since interrupt_catch(). */
bool interrupt_seen(void);

/* Sleeps until then (CLOCK_MONOTONIC), or until it comes. */
void interrupt_sleep_until_mono(int64_t mono_ns);

#endif
