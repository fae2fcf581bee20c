/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perf/ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Two seconds of a busy CPU at 99 Hz, or 4,000 switches; a ring is read five times a second, and when it is half
 * full. Unprivileged users may lock 516 KiB a CPU (kernel.perf_event_mlock_kb). */
#define SAMPLES_BYTES  ((size_t)64 << 10)
#define SWITCHES_BYTES ((size_t)256 << 10)

/* What all events of a ring have in common: the layout of records, the clock, when a reader is woken. */
static struct perf_event_attr common_attr(size_t ring_bytes)
{
	return (struct perf_event_attr){
		.size = sizeof(struct perf_event_attr),
		.sample_type = PERF_SAMPLE_LAYOUT,
		.sample_id_all = 1,
		.disabled = 1,
		.exclude_hv = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC_RAW,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(ring_bytes / 2),
	};
}

static struct perf_event_attr attr_of(const struct perf_source *source, size_t ring_bytes)
{
	struct perf_event_attr attr = common_attr(ring_bytes);

	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_DUMMY;
	if (source->layout == PERF_LAYOUT_SHORT)
		attr.sample_type = PERF_SHORT_LAYOUT;
	attr.comm = attr.comm_exec = attr.task = 1;
	if (source->hz) {
		attr.config = PERF_COUNT_SW_CPU_CLOCK;
		attr.freq = 1;
		attr.sample_freq = (uint64_t)source->hz;
		attr.exclude_idle = 1;
		attr.mmap = attr.mmap2 = 1;
	} else {
		attr.context_switch = 1;
	}
	return attr;
}

/* Maps errno to the codes that callers branch on, and names the call in the sentence. */
static int open_error(struct err *e, int cpu)
{
	int err = errno, rc;

	if (err == ENODEV)
		rc = err_set(e, ERR_NOT_FOUND, "CPU %d is not online", cpu);
	else if (err == EACCES || err == EPERM)
		rc = err_set(
			e, ERR_DENIED,
			"perf_event_open: Permission denied: grant CAP_PERFMON (before Linux 5.8: "
			"CAP_SYS_ADMIN) or set kernel.perf_event_paranoid to -1, and let seccomp "
			"pass perf_event_open");
	else if (err == ENOSYS || err == ENOENT || err == EOPNOTSUPP || err == EINVAL)
		rc = err_set(e, ERR_UNSUPPORTED, "perf_event_open: this kernel has no such event");
	else
		rc = err_errno(e, "perf_event_open on CPU %d", cpu);
	errno = err;
	return rc;
}

/* The kernel limits the memory that all rings of one user lock together. EPERM: other programs of this user, perhaps
 * another agent, use most of it. */
static int map_error(struct err *e, int cpu)
{
	if (errno == EPERM)
		return err_set(e, ERR_DENIED,
			       "mapping the perf ring of CPU %d: the agent's user has reached its "
			       "limit of locked memory: grant CAP_IPC_LOCK or raise "
			       "kernel.perf_event_mlock_kb",
			       cpu);
	return err_errno(e, "mapping the perf ring of CPU %d", cpu);
}

int perf_ring_open(struct perf_ring *ring, int cpu, const struct perf_source *source, struct err *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = source->hz ? SAMPLES_BYTES : SWITCHES_BYTES;
	struct perf_event_attr attr = attr_of(source, bytes);
	bool in_cgroup = source->cgroup_fd >= 0;
	int fd = (int)syscall(SYS_perf_event_open, &attr, in_cgroup ? source->cgroup_fd : -1, cpu,
			      -1, PERF_FLAG_FD_CLOEXEC | (in_cgroup ? PERF_FLAG_PID_CGROUP : 0));
	void *map;
	int rc, err;

	if (fd < 0)
		return open_error(e, cpu);
	map = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		err = errno;
		rc = map_error(e, cpu);
		close(fd);
		errno = err;
		return rc;
	}
	*ring = (struct perf_ring){
		.fd = fd, .tracepoint_fd = -1, .cpu = cpu, .page = map, .ring_bytes = bytes
	};
	return 0;
}

int perf_ring_add_tracepoint(struct perf_ring *ring, uint32_t id, struct err *e)
{
	struct perf_event_attr attr = common_attr(ring->ring_bytes);
	int fd, rc, err;

	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = id;
	attr.sample_period = 1;
	attr.sample_type |= PERF_SAMPLE_RAW;
	attr.exclude_callchain_kernel = attr.exclude_callchain_user = 1;
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, ring->cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return open_error(e, ring->cpu);
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd)) {
		err = errno;
		rc = err_errno(e, "perf: one ring for two events on CPU %d", ring->cpu);
		close(fd);
		errno = err;
		return rc;
	}
	ring->tracepoint_fd = fd;
	return 0;
}

void perf_ring_drop_tracepoint(struct perf_ring *ring)
{
	if (ring->tracepoint_fd >= 0)
		close(ring->tracepoint_fd);
	ring->tracepoint_fd = -1;
}

void perf_ring_close(struct perf_ring *ring)
{
	perf_ring_drop_tracepoint(ring);
	munmap(ring->page, (size_t)sysconf(_SC_PAGESIZE) + ring->ring_bytes);
	close(ring->fd);
}

void perf_ring_enable(struct perf_ring *ring, bool on)
{
	unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;

	ioctl(ring->fd, request, 0);
	if (ring->tracepoint_fd >= 0)
		ioctl(ring->tracepoint_fd, request, 0);
}

void perf_ring_take(struct perf_ring *ring, struct buf *out)
{
	struct perf_event_mmap_page *page = ring->page;
	const uint8_t *bytes = (const uint8_t *)page + sysconf(_SC_PAGESIZE);
	/* Only the kernel moves head, only this function moves tail. */
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = page->data_tail;
	size_t len = (size_t)(head - tail), at = (size_t)(tail & (ring->ring_bytes - 1));
	size_t first = ring->ring_bytes - at < len ? ring->ring_bytes - at : len;

	if (len > ring->ring_bytes)
		len = first = 0; /* impossible; skip to where the kernel writes */
	buf_add(out, bytes + at, first);
	buf_add(out, bytes, len - first);
	__atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}
