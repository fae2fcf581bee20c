/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only place that reads a clock. Nanoseconds, signed 64 bit.
 *
 * raw:  CLOCK_MONOTONIC_RAW of the machine, what every event and probe is stamped with (no steps, no slewing). In a
 *       time namespace, which shifts what a program reads, it is the same as outside, where perf events are stamped.
 * mono: CLOCK_MONOTONIC, what timers and deadlines run on.
 * real: CLOCK_REALTIME, a label for people and for programs that stamp with it.
 */
#ifndef BASE_NOW_H
#define BASE_NOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

int64_t now_raw_ns(void);
int64_t now_mono_ns(void);
int64_t now_real_ns(void);

/* What the calling thread, or the whole process, has used of the CPU. */
int64_t now_thread_cpu_ns(void);
int64_t now_process_cpu_ns(void);

/*
 * How far the CLOCK_MONOTONIC_RAW that a process reads is ahead of the machine's, by its time namespace. `process` is
 * its folder in /proc. False if that is not known: the process has left its namespace for its children only.
 */
bool now_raw_ahead(const char *process, int64_t *ahead_ns);

/*
 * Reads raw and real at the same instant: the narrowest of a few readings. `width_ns` (may be NULL)
 * gets the time between the two raw readings around the real one.
 */
void now_pair_ns(int64_t *raw, int64_t *real, int64_t *width_ns);

/* One such reading. */
struct clock_pair {
	int64_t raw_ns, real_ns;
	int64_t width_ns;
};
struct clock_pair now_pair(void);

/*
 * clock_pair_moved_ns(): how far the wall clock moved against raw from reading a to the later reading b.
 * clock_pair_has_step(): whether the wall clock was set, or the machine slept, in between. That is so if
 * the wall clock moved by more than slewing can do in that time (500 ppm) plus the widths of both readings.
 */
int64_t clock_pair_moved_ns(const struct clock_pair *a, const struct clock_pair *b);
bool clock_pair_has_step(const struct clock_pair *a, const struct clock_pair *b);

/*
 * The mono time of a raw time, for timers. Mono is slewed, so this is right only near now: check the raw time
 * again when the timer fires. Takes any input; a time that is more than a year away is taken as a year away.
 */
int64_t now_mono_of_raw(int64_t raw_ns);

/* Blocks; for programs without a loop. */
void now_sleep_until_mono(int64_t mono_ns);

/* The time that this machine was suspended since boot (CLOCK_BOOTTIME - CLOCK_MONOTONIC). */
int64_t now_suspended_ns(void);

/* The kernel's clocksource: a number for its name; 0 = unknown. */
uint64_t now_source(void);

/* The tick of the raw clock: it reads up to this much early. 0 = shorter than a reading takes, as on most machines.
 * now_tick_of(): the same, from n readings that were taken one right after the other. */
int64_t now_raw_tick_ns(void);
int64_t now_tick_of(const int64_t *readings, size_t n);

/* A number that this machine's hypervisor changes when it disrupts the clock, for example by a live
 * migration; 0 = unknown: there is no /dev/vmclock0. now_disruption_in() reads another file, for tests. */
uint64_t now_disruption(void);
uint64_t now_disruption_in(const char *path);

/* The largest error of the wall clock against UTC, as the program that steers it reports to the
 * kernel; -1 = not steered, or the kernel does not answer. */
int64_t now_wall_error_ns(void);

/* The same, from what adjtimex(2) returned. */
struct timex;
int64_t now_wall_error_of(int state, const struct timex *t);

/* "2026_11_21_10_03_59" in UTC; `out` needs 20 bytes. */
void time_session_name(int64_t unix_ns, char out[20]);

/* The time of such a name, to the second; what follows its 19 characters is not read. 0 if it is no such name, INT64_MAX if it
 * is of before 1678 or after 2262. */
int64_t time_of_session_name(const char *name);

/* "2026-11-21T10:03:59.123Z"; `out` needs 25 bytes. */
void time_iso(int64_t unix_ns, char out[25]);

#endif
