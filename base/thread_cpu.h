/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU time of another thread of this process. */
#ifndef BASE_THREAD_CPU_H
#define BASE_THREAD_CPU_H

#include <pthread.h>
#include <stdint.h>

int64_t thread_cpu_ns(pthread_t thread); /* 0: not known. The thread was not joined yet. */

#endif
