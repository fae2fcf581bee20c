/* SPDX-License-Identifier: Apache-2.0 */
#include "base/now.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* How far this process's clock is ahead; set before main(). */
static int64_t own_ahead_ns;

int64_t now_raw_ns(void)
{
	return read_clock(CLOCK_MONOTONIC_RAW) - own_ahead_ns;
}

int64_t now_mono_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t now_real_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

int64_t now_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t now_process_cpu_ns(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* ---- time namespaces ---- */

#define AHEAD_MAX_S \
	INT64_C(4000000000) /* the kernel takes no more than half of what its clocks can count */

/* The process's namespaces, and its children's, as numbers; false if they cannot be read. */
static bool read_namespaces(const char *process, char own[64], char of_children[64])
{
	char path[128];
	ssize_t n, m;

	snprintf(path, sizeof(path), "%s/ns/time", process);
	n = readlink(path, own, 63);
	snprintf(path, sizeof(path), "%s/ns/time_for_children", process);
	m = readlink(path, of_children, 63);
	own[n < 0 ? 0 : n] = of_children[m < 0 ? 0 : m] = '\0';
	return n > 0 && m > 0;
}

/* "monotonic  SECONDS  NANOSECONDS": of the namespace of the process's children. */
static int64_t read_ahead_of_children(const char *process)
{
	int64_t s = 0, ns = 0;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/timens_offsets", process);
	f = fopen(path, "re");
	if (!f)
		return 0; /* the kernel has no such namespaces, or the process has ended */
	if (fscanf(f, "monotonic %" SCNd64 " %" SCNd64, &s, &ns) != 2 || s < -AHEAD_MAX_S ||
	    s > AHEAD_MAX_S || ns < 0 || ns >= NS_PER_S)
		s = ns = 0;
	fclose(f);
	return s * NS_PER_S + ns;
}

bool now_raw_ahead(const char *process, int64_t *ahead_ns)
{
	char own[64], of_children[64], here[64], ignored[64];

	*ahead_ns = read_ahead_of_children(process);
	if (!read_namespaces(process, own, of_children) || !strcmp(own, of_children))
		return true;
	*ahead_ns = own_ahead_ns;
	return read_namespaces("/proc/self", here, ignored) && !strcmp(own, here);
}

/* Before main(), since clocks are read by all threads from then on. A process that is in a namespace but cannot know
 * which reads what the kernel gives it. */
__attribute__((constructor)) static void find_own_ahead(void)
{
	int64_t ahead_ns;

	if (now_raw_ahead("/proc/self", &ahead_ns))
		own_ahead_ns = ahead_ns;
}

/* ---- pairs and other clocks ---- */

void now_pair_ns(int64_t *raw, int64_t *real, int64_t *width_ns)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		int64_t before = now_raw_ns();
		int64_t middle = now_real_ns();
		int64_t after = now_raw_ns();

		if (after - before < best) {
			best = after - before;
			*raw = before + best / 2;
			*real = middle;
		}
	}
	if (width_ns)
		*width_ns = best;
}

int64_t now_suspended_ns(void)
{
	int64_t best = INT64_MAX, out = 0;

	for (int i = 0; i < 5; i++) {
		int64_t before = now_mono_ns();
		int64_t middle = read_clock(CLOCK_BOOTTIME);
		int64_t after = now_mono_ns();

		if (after - before < best) {
			best = after - before;
			out = middle - before - best / 2;
		}
	}
	return out;
}

/* Stays open: sysfs makes the text anew for each reading from the begin, and opening costs five times as much. */
static int source_fd = -1;

static void open_source(void)
{
	source_fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
			 O_RDONLY | O_CLOEXEC);
}

uint64_t now_source(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
	char name[64];
	ssize_t n;

	pthread_once(&once, open_source);
	n = source_fd < 0 ? 0 : pread(source_fd, name, sizeof(name), 0);
	for (ssize_t i = 0; i < n; i++)
		hash = (hash ^ (uint8_t)name[i]) * UINT64_C(1099511628211);
	return n > 0 ? hash : 0;
}

#define TICK_READINGS 256

int64_t now_tick_of(const int64_t *readings, size_t n)
{
	int64_t shortest = INT64_MAX;
	bool repeated = false;

	for (size_t i = 1; i < n; i++) {
		int64_t moved = readings[i] - readings[i - 1];

		if (!moved)
			repeated = true;
		else if (moved < shortest)
			shortest = moved;
	}
	/* Whole nanoseconds: a tick may be a part of one longer. */
	return repeated && shortest < INT64_MAX ? shortest + 1 : 0;
}

int64_t now_raw_tick_ns(void)
{
	int64_t readings[TICK_READINGS], tick;
	struct timespec resolution = { 0 };

	for (size_t i = 0; i < TICK_READINGS; i++)
		readings[i] = now_raw_ns();
	tick = now_tick_of(readings, TICK_READINGS);
	/* A machine whose clock is the timer interrupt says so. */
	if (!clock_getres(CLOCK_MONOTONIC_RAW, &resolution) && resolution.tv_nsec > tick &&
	    resolution.tv_nsec > 1)
		tick = resolution.tv_nsec;
	return tick;
}

/* The first bytes of the kernel's struct vmclock_abi, little-endian. */
enum {
	VMCLOCK_MAGIC = 0x4b4c4356,
	VMCLOCK_SEQUENCE = 12, /* a sequence count; odd while the hypervisor writes */
	VMCLOCK_DISRUPTION = 16,
	VMCLOCK_BYTES = 24,
};

static uint64_t little_endian(const uint8_t *bytes, int n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | bytes[n];
	return v;
}

uint64_t now_disruption_in(const char *path)
{
	uint8_t bytes[VMCLOCK_BYTES];
	uint64_t mark = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (pread(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) &&
	    little_endian(bytes, 4) == VMCLOCK_MAGIC && !(bytes[VMCLOCK_SEQUENCE] & 1))
		mark = little_endian(bytes + VMCLOCK_DISRUPTION, 8) + 1;
	close(fd);
	return mark;
}

uint64_t now_disruption(void)
{
	return now_disruption_in("/dev/vmclock0");
}

int64_t now_wall_error_of(int state, const struct timex *t)
{
	if (state < 0 || state == TIME_ERROR || t->status & STA_UNSYNC)
		return -1;
	return t->maxerror * NS_PER_US;
}

int64_t now_wall_error_ns(void)
{
	struct timex t = { .modes = 0 };

	return now_wall_error_of(adjtimex(&t), &t);
}
