/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core's locks are Abseil's. Debian builds Abseil so that it checks the order in which locks are taken: for that it
 * keeps 0.5 kB for each lock, which is 2 kB a connection, and looks into a graph of them whenever one is taken.
 */
#include <dlfcn.h>

#include "net/rpc_impl.h"

/* absl::SetMutexDeadlockDetectionMode() of Abseil 20220623 as Debian names it; its header is C++. */
#define SET_MODE "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE"
#define IGNORE	 0

bool rpc_locks_stop_checks(void)
{
	/* The detour that POSIX gives for dlsym(): a function's address stored through a pointer to data. */
	union {
		void *data;
		void (*set_mode)(int mode);
	} at = { .data = dlsym(RTLD_DEFAULT, SET_MODE) };

	if (at.data)
		at.set_mode(IGNORE);
	return at.data;
}
