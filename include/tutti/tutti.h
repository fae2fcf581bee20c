/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations: scopes, instants, counters and training steps that a program puts on its host's timeline,
 * beside what Tutti's agent records. This header is all that a program needs; there is nothing to link but
 * pthreads.
 *
 * 	#include <tutti/tutti.h>
 *
 * 	for (int64_t n = 0; n < steps; n++) {
 * 		TUTTI_STEP("train", n);			// until the end of the block
 * 		{
 * 			TUTTI_SCOPE("load batch");
 * 			load();
 * 		}
 * 		tutti_counter("loss", train());
 * 	}
 *
 * C11 and C++11 of gcc and clang on Linux, with their GNU extensions. Every function may be called by any
 * thread at any time, except in a signal handler. No function fails. Without memory nothing is recorded.
 * TUTTI_ANNOTATIONS=off in the environment turns recording off, and TUTTI_DISABLE at compile time removes it
 * from the program.
 *
 * The records go to a ring in shared memory, one a process and one lane a thread. Writing makes no system call; the
 * agent finds the ring below /proc and reads it, also after the process was killed. Where TUTTI_ANNOTATIONS_SOCKET names
 * an agent's socket, the ring is sent there at once. docs/annotations.md has the format.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stdint.h>

/* ---- the format, version 1 ---- */

#define TUTTI_RING_NAME	   "tutti-annotations" /* of the memfd */
#define TUTTI_RING_MAGIC   UINT64_C(0x474e495249545455) /* "UTTIRING" in memory */
#define TUTTI_RING_VERSION 1

/* The file: a page with the header, the lanes, and from the next page on the slots of each lane. */
#define TUTTI_RING_LANES_AT UINT64_C(4096)

/* The header. What has no comment is set once, before `magic`. */
struct tutti_ring {
	uint64_t magic;
	uint32_t version;
	uint32_t lanes;
	uint32_t slots; /* of each lane; a power of two */
	uint32_t clock; /* enum tutti_clock: of all records */
	uint32_t pid; /* in the process's own PID namespace */
	uint32_t reserved;
	uint64_t refused; /* threads that found no free lane; grows */
};

enum tutti_clock {
	TUTTI_CLOCK_RAW = 1, /* ns of CLOCK_MONOTONIC_RAW */
	TUTTI_CLOCK_TSC =
		2, /* ticks of x86's time stamp counter, where the kernel's clocks run on it */
	TUTTI_CLOCK_CNTVCT = 3, /* ticks of arm64's virtual counter */
};

/* A lane belongs to one thread at a time, which alone writes to it. */
struct tutti_lane {
	uint64_t head; /* slots written since the beginning; set after their bytes */
	uint32_t tid; /* in the process's own PID namespace */
	uint32_t used; /* 1: it has a thread */
	char name[16]; /* of the thread */
	uint8_t reserved[32];
};

/*
 * A record is one slot, and further ones for a text that is longer. The slots of a record are published at once:
 * `head` never stands inside a record. Slot number n is at n modulo `slots`; the oldest are overwritten.
 */
#define TUTTI_TEXT_HERE 12 /* bytes of text in the first slot */
#define TUTTI_TEXT_NEXT 31 /* and in each further one */
#define TUTTI_TEXT_MAX	127 /* bytes; the rest of a longer one is left out */
#define TUTTI_DEPTH_MAX 64 /* scopes that are nested deeper are not recorded */

struct tutti_slot {
	uint8_t kind; /* enum tutti_kind */
	uint8_t type; /* enum tutti_type: of `value` */
	uint8_t depth; /* of a scope: how many open scopes of its thread are around it */
	uint8_t text_len;
	char text[TUTTI_TEXT_HERE];
	uint64_t ticks;
	uint64_t value;
};

/* The further slots of a record. */
struct tutti_slot_text {
	uint8_t kind; /* TUTTI_KIND_TEXT */
	char text[TUTTI_TEXT_NEXT];
};

enum tutti_kind {
	TUTTI_KIND_THREAD = 1, /* the lane has a new thread: value = its tid, text = its name */
	TUTTI_KIND_BEGIN = 2, /* of a scope */
	TUTTI_KIND_END = 3, /* of a scope: value = the ticks of its begin */
	TUTTI_KIND_STEP = 4, /* begins a scope that is a training step: value = its number */
	TUTTI_KIND_INSTANT = 5,
	TUTTI_KIND_COUNTER = 6,
	TUTTI_KIND_RANGE_BEGIN = 7, /* of a range: value = its number in this process */
	TUTTI_KIND_RANGE_END = 8, /* by any thread: value = the same */
	TUTTI_KIND_TEXT = 0x80,
};

enum tutti_type {
	TUTTI_TYPE_NONE = 0,
	TUTTI_TYPE_INT = 1, /* int64_t */
	TUTTI_TYPE_UINT = 2, /* uint64_t */
	TUTTI_TYPE_DOUBLE = 3, /* its bytes */
};

#ifndef TUTTI_FORMAT_ONLY

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Sizes of a ring that this header makes: 256 KiB for each thread that annotates; pages take memory when they
 * are used. */
#define TUTTI_LANES 128
#define TUTTI_SLOTS 8192

/* ---- what a program calls ---- */

/* A scope from here to the end of the block; a step is a scope with a number. `name` is copied. */
#define TUTTI_SCOPE(name)	       TUTTI_SCOPE_AS_(tutti_begin(name))
#define TUTTI_SCOPE_VALUE(name, value) TUTTI_SCOPE_AS_(tutti_begin_value(name, value))
#define TUTTI_STEP(name, number)       TUTTI_SCOPE_AS_(tutti_step_begin(name, number))

/* The same in two calls by one thread: tutti_end() ends the scope that was begun last. True: the caller must call
 * tutti_end(). That does not mean that the scope is recorded: it may be nested too deep. False: annotations are off, or
 * there is no lane for the thread. */
static inline bool tutti_begin(const char *name);
static inline bool tutti_begin_value(const char *name, int64_t value);
static inline bool tutti_step_begin(const char *name, int64_t number);
static inline void tutti_end(void);

static inline void tutti_instant(const char *name);
static inline void tutti_counter(const char *name, double value);

/* A range; another thread may end it. The number returned is for tutti_range_end(); 0 = nothing was recorded. */
static inline uint64_t tutti_range_begin(const char *name);
static inline void tutti_range_end(uint64_t range);

/* Turns annotations of this process on or off from now on. At first they are on, unless TUTTI_ANNOTATIONS
 * says off. */
static inline void tutti_set_enabled(bool enabled);

/* ---- the rest is not for programs: names that end with '_' ---- */

#if !defined(TUTTI_DISABLE)

#define TUTTI_LIKELY_(x)   __builtin_expect(!!(x), 1)
#define TUTTI_UNLIKELY_(x) __builtin_expect(!!(x), 0)
#define TUTTI_COLD_	   __attribute__((noinline, cold, unused)) static
/* One instance for all files of a program or library. */
#define TUTTI_SHARED_ __attribute__((weak))

enum { TUTTI_OFF_ = 0, TUTTI_ON_ = 1 };

struct tutti_thread_ {
	struct tutti_slot *slots; /* NULL: no lane */
	struct tutti_lane *lane;
	uint64_t head;
	uint32_t depth;
	bool refused; /* no lane was free for it */
	uint64_t begins[TUTTI_DEPTH_MAX]; /* ticks of its open scopes */
};

struct tutti_process_ {
	pthread_mutex_t mutex;
	struct tutti_ring *ring; /* NULL: not made yet */
	int fd;
	uint32_t clock;
	bool ring_tried; /* the ring was made, or making it failed */
	bool has_key, has_fork;
	pthread_key_t key; /* its destructor gives a thread's lane back */
	uint64_t ranges;
};

TUTTI_SHARED_ int tutti_state_ = TUTTI_ON_;
TUTTI_SHARED_ uint32_t tutti_clock_;
TUTTI_SHARED_ struct tutti_process_ tutti_process_ = {
	PTHREAD_MUTEX_INITIALIZER, NULL, -1, 0, false, false, false, 0, 0
};
TUTTI_SHARED_ __thread struct tutti_thread_ tutti_thread_;

/* ---- clocks ---- */

static inline uint64_t tutti_raw_ns_(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t tutti_ticks_(void)
{
#if defined(__x86_64__)
	if (TUTTI_LIKELY_(tutti_clock_ == TUTTI_CLOCK_TSC))
		return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	if (TUTTI_LIKELY_(tutti_clock_ == TUTTI_CLOCK_CNTVCT)) {
		uint64_t ticks;

		__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
		return ticks;
	}
#endif
	return tutti_raw_ns_();
}

/* Uses the CPU's counter only if the kernel's own clocks run on it. */
TUTTI_COLD_ uint32_t tutti_choose_clock_(void)
{
	char name[32] = "";
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		      O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);

	if (fd >= 0)
		close(fd);
	(void)n;
#if defined(__x86_64__)
	if (!strcmp(name, "tsc\n"))
		return TUTTI_CLOCK_TSC;
#elif defined(__aarch64__)
	if (!strcmp(name, "arch_sys_counter\n"))
		return TUTTI_CLOCK_CNTVCT;
#endif
	return TUTTI_CLOCK_RAW;
}

/* ---- the ring and its lanes ---- */

static inline size_t tutti_slots_at_(void)
{
	return (TUTTI_RING_LANES_AT + TUTTI_LANES * sizeof(struct tutti_lane) + 4095) / 4096 * 4096;
}

static inline size_t tutti_ring_bytes_(void)
{
	return tutti_slots_at_() + (size_t)TUTTI_LANES * TUTTI_SLOTS * sizeof(struct tutti_slot);
}

static inline struct tutti_lane *tutti_lanes_(struct tutti_ring *ring)
{
	return (struct tutti_lane *)((char *)ring + TUTTI_RING_LANES_AT);
}

static inline void tutti_put_(uint8_t kind, uint8_t type, uint8_t depth, uint64_t ticks,
			      uint64_t value, const char *text, size_t len);

TUTTI_COLD_ void tutti_thread_ends_(void *lane)
{
	__atomic_store_n(&((struct tutti_lane *)lane)->used, 0, __ATOMIC_RELEASE);
	memset(&tutti_thread_, 0, sizeof(tutti_thread_));
	tutti_thread_.refused = true; /* other destructors of this thread may come later */
}

/* A forked child makes a ring of its own when it annotates; this one stays its parent's. */
TUTTI_COLD_ void tutti_forked_(void)
{
	struct tutti_process_ *p = &tutti_process_;

	pthread_mutex_init(&p->mutex, NULL);
	if (p->ring) {
		munmap(p->ring, tutti_ring_bytes_());
		close(p->fd);
	}
	p->ring = NULL;
	p->ring_tried = false;
	if (p->has_key)
		pthread_setspecific(p->key, NULL);
	memset(&tutti_thread_, 0, sizeof(tutti_thread_));
}

TUTTI_COLD_ bool tutti_is_off_(void)
{
	const char *text = getenv("TUTTI_ANNOTATIONS");

	return text && (!strcmp(text, "off") || !strcmp(text, "0") || !strcmp(text, "false"));
}

/* Makes the memfd and seals its size. -1 if it cannot be made. */
TUTTI_COLD_ int tutti_make_file_(void)
{
	int fd = (int)syscall(SYS_memfd_create, TUTTI_RING_NAME, 3u); /* close on exec, sealing */

	if (fd >= 0 && ftruncate(fd, (off_t)tutti_ring_bytes_())) {
		close(fd);
		fd = -1;
	}
	if (fd >= 0)
		(void)fcntl(fd, 1024 + 9, 1 | 2 | 4); /* F_ADD_SEALS: SEAL, SHRINK, GROW */
	return fd;
}

/* Sends the descriptor to the agent, which then can read the ring even if this process ends at once. If this fails, the
 * agent finds the ring below /proc. */
TUTTI_COLD_ void tutti_send_file_(int file)
{
	const char *path = getauxval(AT_SECURE) ? NULL : getenv("TUTTI_ANNOTATIONS_SOCKET");
	const struct timeval patience = { 0, 100000 };
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct sockaddr_un to;
	struct cmsghdr *files;
	struct msghdr msg;
	struct iovec text;
	int fd;

	if (!path || !*path || strlen(path) >= sizeof(to.sun_path))
		return;
	memset(&to, 0, sizeof(to));
	memset(&msg, 0, sizeof(msg));
	memset(&control, 0, sizeof(control));
	to.sun_family = AF_UNIX;
	memcpy(to.sun_path, path, strlen(path));
	text.iov_base = &to.sun_family; /* any byte: the descriptor is the message */
	text.iov_len = 1;
	msg.msg_name = &to;
	msg.msg_namelen = sizeof(to);
	msg.msg_iov = &text;
	msg.msg_iovlen = 1;
	msg.msg_control = &control;
	msg.msg_controllen = sizeof(control);
	files = CMSG_FIRSTHDR(&msg);
	files->cmsg_level = SOL_SOCKET;
	files->cmsg_type = SCM_RIGHTS;
	files->cmsg_len = CMSG_LEN(sizeof(file));
	memcpy(CMSG_DATA(files), &file, sizeof(file));
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	(void)!sendmsg(fd, &msg, MSG_NOSIGNAL);
	close(fd);
}

/* With the mutex. */
TUTTI_COLD_ void tutti_make_ring_(struct tutti_process_ *p)
{
	void *at = MAP_FAILED;

	p->ring_tried = true;
	p->fd = tutti_is_off_() ? -1 : tutti_make_file_();
	if (p->fd >= 0)
		at = mmap(NULL, tutti_ring_bytes_(), PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	if (p->fd >= 0 && at == MAP_FAILED)
		close(p->fd);
	if (at == MAP_FAILED) {
		__atomic_store_n(&tutti_state_, TUTTI_OFF_, __ATOMIC_RELAXED);
		return;
	}
	p->ring = (struct tutti_ring *)at;
	p->ring->version = TUTTI_RING_VERSION;
	p->ring->lanes = TUTTI_LANES;
	p->ring->slots = TUTTI_SLOTS;
	p->ring->clock = tutti_clock_ = tutti_choose_clock_();
	p->ring->pid = (uint32_t)getpid();
	__atomic_store_n(&p->ring->magic, TUTTI_RING_MAGIC, __ATOMIC_RELEASE);
	tutti_send_file_(p->fd);
	if (!p->has_key)
		p->has_key = !pthread_key_create(&p->key, tutti_thread_ends_);
	if (!p->has_fork)
		p->has_fork = !pthread_atfork(NULL, NULL, tutti_forked_);
}

TUTTI_COLD_ struct tutti_lane *tutti_take_lane_(struct tutti_ring *ring)
{
	struct tutti_lane *lanes = tutti_lanes_(ring);

	for (uint32_t i = 0; i < TUTTI_LANES; i++) {
		if (!__atomic_load_n(&lanes[i].used, __ATOMIC_ACQUIRE)) {
			lanes[i].used = 1;
			return &lanes[i];
		}
	}
	ring->refused++;
	return NULL;
}

/* False: this thread has no lane, and gets none. */
TUTTI_COLD_ bool tutti_attach_(void)
{
	struct tutti_process_ *p = &tutti_process_;
	struct tutti_thread_ *t = &tutti_thread_;
	struct tutti_lane *lane = NULL;

	if (t->refused)
		return false;
	pthread_mutex_lock(&p->mutex);
	if (!p->ring_tried)
		tutti_make_ring_(p);
	if (p->ring)
		lane = tutti_take_lane_(p->ring);
	pthread_mutex_unlock(&p->mutex);
	t->refused = !lane;
	if (!lane)
		return false;
	t->slots = (struct tutti_slot *)((char *)p->ring + tutti_slots_at_()) +
		   (size_t)(lane - tutti_lanes_(p->ring)) * TUTTI_SLOTS;
	t->lane = lane;
	t->head = lane->head;
	lane->tid = (uint32_t)syscall(SYS_gettid);
	prctl(PR_GET_NAME, lane->name);
	if (p->has_key)
		pthread_setspecific(p->key, lane);
	tutti_put_(TUTTI_KIND_THREAD, TUTTI_TYPE_UINT, 0, tutti_ticks_(), lane->tid, lane->name,
		   strnlen(lane->name, sizeof(lane->name)));
	return true;
}

/* ---- writing ---- */

static inline bool tutti_is_on_(void)
{
	return __atomic_load_n(&tutti_state_, __ATOMIC_RELAXED) != TUTTI_OFF_;
}

static inline bool tutti_has_lane_(void)
{
	return TUTTI_LIKELY_(tutti_thread_.slots != NULL) || tutti_attach_();
}

/* Instead of atomic_thread_fence(), which ThreadSanitizer does not support. */
static inline void tutti_keep_stores_in_order_(void)
{
#if defined(__x86_64__)
	__asm__ volatile("" : : : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dmb ishst" : : : "memory");
#else
	__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* Returns the number of slots. */
static inline uint32_t tutti_put_text_(struct tutti_thread_ *t, struct tutti_slot *s,
				       const char *text, size_t len)
{
	uint32_t n = 1;

	if (TUTTI_LIKELY_(len <= TUTTI_TEXT_HERE)) {
		memcpy(s->text, text, len);
		return n;
	}
	memcpy(s->text, text, TUTTI_TEXT_HERE);
	for (size_t at = TUTTI_TEXT_HERE; at < len; at += TUTTI_TEXT_NEXT) {
		struct tutti_slot_text *next =
			(struct tutti_slot_text *)&t->slots[(t->head + n++) & (TUTTI_SLOTS - 1)];

		next->kind = TUTTI_KIND_TEXT;
		memcpy(next->text, text + at,
		       len - at < TUTTI_TEXT_NEXT ? len - at : TUTTI_TEXT_NEXT);
	}
	return n;
}

/* The thread has a lane. */
static inline void tutti_put_(uint8_t kind, uint8_t type, uint8_t depth, uint64_t ticks,
			      uint64_t value, const char *text, size_t len)
{
	struct tutti_thread_ *t = &tutti_thread_;
	struct tutti_slot *s = &t->slots[t->head & (TUTTI_SLOTS - 1)];

	if (len > TUTTI_TEXT_MAX)
		len = TUTTI_TEXT_MAX;
	/* Orders the last store of `head` before the stores below: a reader that sees any byte of this record also sees
	 * the `head` that the previous record set. */
	tutti_keep_stores_in_order_();
	s->kind = kind;
	s->type = type;
	s->depth = depth;
	s->text_len = (uint8_t)len;
	s->ticks = ticks;
	s->value = value;
	t->head += tutti_put_text_(t, s, text, len);
	__atomic_store_n(&t->lane->head, t->head, __ATOMIC_RELEASE);
}

static inline bool tutti_begin_(uint8_t kind, uint8_t type, uint64_t value, const char *name,
				size_t len)
{
	uint64_t ticks;
	uint32_t depth;

	if (!tutti_is_on_() || !tutti_has_lane_())
		return false;
	depth = tutti_thread_.depth++;
	if (TUTTI_UNLIKELY_(depth >= TUTTI_DEPTH_MAX))
		return true;
	ticks = tutti_ticks_();
	tutti_thread_.begins[depth] = ticks;
	tutti_put_(kind, type, (uint8_t)depth, ticks, value, name, len);
	return true;
}

static inline void tutti_end(void)
{
	struct tutti_thread_ *t = &tutti_thread_;

	if (!t->depth || --t->depth >= TUTTI_DEPTH_MAX || !t->slots)
		return;
	tutti_put_(TUTTI_KIND_END, TUTTI_TYPE_UINT, (uint8_t)t->depth, tutti_ticks_(),
		   t->begins[t->depth], "", 0);
}

static inline bool tutti_begin(const char *name)
{
	return tutti_begin_(TUTTI_KIND_BEGIN, TUTTI_TYPE_NONE, 0, name, strlen(name));
}

static inline bool tutti_begin_value(const char *name, int64_t value)
{
	return tutti_begin_(TUTTI_KIND_BEGIN, TUTTI_TYPE_INT, (uint64_t)value, name, strlen(name));
}

static inline bool tutti_step_begin(const char *name, int64_t number)
{
	return tutti_begin_(TUTTI_KIND_STEP, TUTTI_TYPE_INT, (uint64_t)number, name, strlen(name));
}

static inline void tutti_put_now_(uint8_t kind, uint8_t type, uint64_t value, const char *text,
				  size_t len)
{
	if (tutti_is_on_() && tutti_has_lane_())
		tutti_put_(kind, type, 0, tutti_ticks_(), value, text, len);
}

static inline void tutti_instant(const char *name)
{
	tutti_put_now_(TUTTI_KIND_INSTANT, TUTTI_TYPE_NONE, 0, name, strlen(name));
}

static inline void tutti_counter(const char *name, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	tutti_put_now_(TUTTI_KIND_COUNTER, TUTTI_TYPE_DOUBLE, bits, name, strlen(name));
}

static inline uint64_t tutti_range_begin(const char *name)
{
	uint64_t range;

	if (!tutti_is_on_() || !tutti_has_lane_())
		return 0;
	range = __atomic_add_fetch(&tutti_process_.ranges, 1, __ATOMIC_RELAXED);
	tutti_put_now_(TUTTI_KIND_RANGE_BEGIN, TUTTI_TYPE_UINT, range, name, strlen(name));
	return range;
}

static inline void tutti_range_end(uint64_t range)
{
	if (range)
		tutti_put_now_(TUTTI_KIND_RANGE_END, TUTTI_TYPE_UINT, range, "", 0);
}

static inline void tutti_set_enabled(bool enabled)
{
	__atomic_store_n(&tutti_state_, enabled ? TUTTI_ON_ : TUTTI_OFF_, __ATOMIC_RELAXED);
}

static inline void tutti_scope_ends_(const bool *begun)
{
	if (*begun)
		tutti_end();
}

#define TUTTI_JOIN__(a, b) a##b
#define TUTTI_JOIN_(a, b)  TUTTI_JOIN__(a, b)
#define TUTTI_SCOPE_AS_(begin) \
	const bool TUTTI_JOIN_(tutti_scope_, __COUNTER__) \
		__attribute__((cleanup(tutti_scope_ends_), unused)) = (begin)

#else /* TUTTI_DISABLE */

#define TUTTI_SCOPE_AS_(begin) \
	do { \
	} while (0)

static inline bool tutti_begin(const char *name)
{
	(void)name;
	return false;
}

static inline bool tutti_begin_value(const char *name, int64_t value)
{
	(void)name;
	(void)value;
	return false;
}

static inline bool tutti_step_begin(const char *name, int64_t number)
{
	(void)name;
	(void)number;
	return false;
}

static inline void tutti_end(void)
{
}

static inline void tutti_instant(const char *name)
{
	(void)name;
}

static inline void tutti_counter(const char *name, double value)
{
	(void)name;
	(void)value;
}

static inline uint64_t tutti_range_begin(const char *name)
{
	(void)name;
	return 0;
}

static inline void tutti_range_end(uint64_t range)
{
	(void)range;
}

static inline void tutti_set_enabled(bool enabled)
{
	(void)enabled;
}

#endif /* TUTTI_DISABLE */
#endif /* TUTTI_FORMAT_ONLY */
#endif
