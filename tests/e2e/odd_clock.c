/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks that tests can set and stop, for an agent that is linked with --wrap of these functions. The file that
 * TUTTI_ODD_CLOCK names holds three int64, which may change at any time: by how much the wall clock was set, how
 * long the machine slept (its monotonic clocks stood still; a test stops the process that long), both in ns,
 * and whether it is deaf to answers by the control stream.
 */
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

struct odd {
	int64_t set_ns, slept_ns, deaf;
};

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __real_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		    struct timespec *timeout);
int __wrap_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		    struct timespec *timeout);

struct clock;
void __real_clock_take_stream_reply(struct clock *c, const uint8_t *packet);
void __wrap_clock_take_stream_reply(struct clock *c, const uint8_t *packet);

static const volatile struct odd *odd;

static __attribute__((constructor)) void open_odd(void)
{
	static const struct odd nothing;
	const char *path = getenv("TUTTI_ODD_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*odd), PROT_READ, MAP_SHARED, fd, 0);

	odd = map == MAP_FAILED ? &nothing : map;
	if (fd >= 0)
		close(fd);
}

static void move(struct timespec *t, int64_t by_ns)
{
	int64_t ns = t->tv_sec * (int64_t)NS_PER_S + t->tv_nsec + by_ns;

	t->tv_sec = ns / NS_PER_S;
	t->tv_nsec = ns % NS_PER_S;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	int rc = __real_clock_gettime(id, t);

	if (!odd)
		return rc;
	if (id == CLOCK_REALTIME)
		move(t, odd->set_ns);
	else if (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW)
		move(t, -odd->slept_ns);
	return rc;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	struct itimerspec moved = *new;
	bool is_set = moved.it_value.tv_sec || moved.it_value.tv_nsec;

	if (flags == TFD_TIMER_ABSTIME && is_set)
		move(&moved.it_value, odd->slept_ns);
	return __real_timerfd_settime(fd, flags, &moved, old);
}

/* The kernel stamps with the wall clock. */
int __wrap_recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags,
		    struct timespec *timeout)
{
	int got = __real_recvmmsg(fd, msgs, n, flags, timeout);

	for (int i = 0; i < got; i++) {
		struct msghdr *msg = &msgs[i].msg_hdr;

		for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
			struct scm_timestamping stamps;

			if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPING)
				continue;
			memcpy(&stamps, CMSG_DATA(c), sizeof(stamps));
			move((struct timespec *)&stamps.ts[0], odd->set_ns);
			memcpy(CMSG_DATA(c), &stamps, sizeof(stamps));
		}
	}
	return got;
}

void __wrap_clock_take_stream_reply(struct clock *c, const uint8_t *packet)
{
	if (!odd->deaf)
		__real_clock_take_stream_reply(c, packet);
}
