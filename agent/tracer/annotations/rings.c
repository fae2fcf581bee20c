/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/annotations/rings.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/proc/foreign_file.h"
#include "agent/proc/living.h"
#include "agent/proc/status.h"
#include "agent/proc/u32_map.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"

#define LINK_TEXT     "/memfd:" TUTTI_RING_NAME " (deleted)"
#define LOOK_FIRST_NS (250 * NS_PER_MS)
#define LOOK_MOST_NS  (30 * NS_PER_S)
/* A process that is looked at more often than this has just begun: it closes what it inherited while it opens its own. */
#define YOUNG_WAIT_NS (4 * NS_PER_S)
/* a search of all processes leaves out those that were searched within this time */
#define LOOK_AGAIN_NS	(5 * NS_PER_S)
#define LOOK_SHARE	1000 /* searches of all processes take at most one LOOK_SHARE-th of a CPU */
#define DESCRIPTORS_MAX 4096 /* descriptors of a process that are examined */

/* A process of this host. */
struct process {
	int32_t pid;
	/* inode of its folder in /proc: a later process with the same pid has another one */
	uint64_t inode;
	/* when it was last searched, when it is next, time in between */
	int64_t looked_mono_ns, look_mono_ns, wait_ns;
	int64_t searched_mono_ns; /* when all its descriptors were last searched */
	uint64_t seen; /* number of the last search that found the process */
	int64_t descriptors; /* how many it had at the last look; 0 = not known */
	uint64_t program; /* inode of its executable at the last look; 0 = not known */
	bool denied;
	size_t left_out; /* its rings that the last search found no room for */
};

/* Whose rings they are. */
struct user {
	uint32_t uid;
	size_t n_rings; /* 0 = a free slot */
	size_t n_open; /* scopes */
};

struct ring_entry {
	struct shared_ring *ring;
	/* the process's folder in /proc, which can be used as long as the process exists; -1 = it has ended */
	int proc_fd;
	int number; /* of its descriptor there; -1 = not known, the process sent its ring */
	int32_t pid;
	struct user *user;
	uint64_t inode; /* of the memfd */
};

struct rings {
	struct u32_map by_pid; /* struct process */
	struct ring_entry v[RINGS_MAX];
	size_t n, first;
	struct user users[RINGS_MAX];
	uint64_t looks;
	uint64_t memfd_dev; /* where memfds are */
	int64_t now_mono_ns;
	int64_t all_mono_ns; /* earliest time of the next search of all processes */
	bool all, incomplete;
	_Atomic bool stopped;
	size_t n_refused; /* rings that there was no room for, ever */
	size_t left_out; /* those of the processes as they were last searched */
	int64_t warned_mono_ns;
};

/* The device number of memfds, asked of a memfd, since their file system is mounted nowhere. */
static uint64_t find_memfd_dev(void)
{
	int fd = memfd_create("tutti-agent", MFD_CLOEXEC);
	struct stat st = { 0 };

	if (fd >= 0 && fstat(fd, &st))
		st.st_dev = 0;
	if (fd >= 0)
		close(fd);
	return st.st_dev;
}

struct rings *rings_new(void)
{
	struct rings *rs = xcalloc(1, sizeof(*rs));

	rs->memfd_dev = find_memfd_dev();
	return rs;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void ring_entry_release(struct ring_entry *r)
{
	shared_ring_free(r->ring);
	if (r->user)
		r->user->n_rings--;
	close_if_open(r->proc_fd);
}

void rings_free(struct rings *rs)
{
	if (!rs)
		return;
	for (size_t i = 0; i < rs->n; i++)
		ring_entry_release(&rs->v[i]);
	for (size_t i = 0; i < rs->by_pid.n_slots; i++)
		free(u32_map_at(&rs->by_pid, i));
	u32_map_release(&rs->by_pid);
	free(rs);
}

size_t rings_count(const struct rings *rs)
{
	return rs->n;
}

size_t rings_left_out(const struct rings *rs)
{
	return rs->left_out;
}

size_t rings_crowded(const struct rings *rs)
{
	size_t n = 0;

	for (size_t i = 0; i < rs->n; i++)
		n += shared_ring_refused(rs->v[i].ring) > 0;
	return n;
}

bool rings_is_incomplete(const struct rings *rs)
{
	return rs->incomplete;
}

/* ---- rings ---- */

/* Any process may have a ring, so there is at most one log line a minute. */
static void warn(struct rings *rs, int32_t pid, const char *reason)
{
	if (rs->warned_mono_ns && rs->now_mono_ns - rs->warned_mono_ns < 60 * NS_PER_S)
		return;
	rs->warned_mono_ns = rs->now_mono_ns;
	log_warn("AGT-ANNOTATIONS", "pid=%" PRId32 " reason=\"%s\"", pid, reason);
}

static bool has_room(struct rings *rs, int32_t pid, const struct user *user)
{
	size_t of_process = 0;

	for (size_t i = 0; i < rs->n; i++)
		of_process += rs->v[i].pid == pid;
	if (rs->n < RINGS_MAX && user->n_rings < RINGS_PER_USER_MAX &&
	    of_process < RINGS_PER_PROCESS_MAX)
		return true;
	rs->n_refused++;
	warn(rs, pid, "too many rings of annotations: this one is not read");
	return false;
}

/* Its slot, or a free one; there is one as long as there is room for a ring. */
static struct user *user_of(struct rings *rs, uint32_t uid)
{
	struct user *free_slot = &rs->users[0];

	for (size_t i = 0; i < RINGS_MAX; i++) {
		struct user *user = &rs->users[i];

		if (user->n_rings && user->uid == uid)
			return user;
		if (!user->n_rings)
			free_slot = user;
	}
	return free_slot;
}

/* A process may send a descriptor of any file, also one of a FUSE or network file system, whose server may block or
 * lie. So statx() is told not to ask the file system's server. */
static bool is_memfd(const struct rings *rs, int fd, uint64_t *inode)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &st) ||
	    !S_ISREG(st.stx_mode) || makedev(st.stx_dev_major, st.stx_dev_minor) != rs->memfd_dev)
		return false;
	*inode = st.stx_ino;
	return true;
}

/* A descriptor to read from, or -1. Only a memfd is opened. */
static int open_memfd(const struct rings *rs, int proc_fd, int number, uint64_t *inode)
{
	char path[32];
	int fd = -1, at;

	snprintf(path, sizeof(path), "fd/%d", number);
	at = openat(proc_fd, path, O_PATH | O_CLOEXEC);
	if (at < 0)
		return -1;
	if (is_memfd(rs, at, inode)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	close(at);
	return fd;
}

static bool is_known(const struct rings *rs, uint64_t inode)
{
	for (size_t i = 0; i < rs->n; i++) {
		if (rs->v[i].inode == inode)
			return true;
	}
	return false;
}

/* Takes `fd` and the entry's proc_fd. */
static void add_entry(struct rings *rs, struct ring_entry r, uint32_t uid, int fd,
		      int32_t inner_pid)
{
	struct user *user = user_of(rs, uid);
	struct ring_process process = { .pid = r.pid, .inner_pid = inner_pid };
	char folder[32];
	struct err e;

	snprintf(folder, sizeof(folder), "/proc/%" PRId32, r.pid);
	process.is_raw_unknown = !now_raw_ahead(folder, &process.raw_ahead_ns);
	if (is_known(rs, r.inode) || !has_room(rs, r.pid, user)) {
		close(fd);
	} else if (shared_ring_open(&r.ring, fd, &process, &user->n_open, &e)) {
		log_debug("AGT-ANNOTATIONS", "pid=%" PRId32 " reason=\"%s\"", r.pid, e.msg);
	} else {
		r.user = user;
		user->uid = uid;
		user->n_rings++;
		rs->v[rs->n++] = r;
		log_info("AGT-ANNOTATIONS", "pid=%" PRId32 " uid=%" PRIu32 " state=known", r.pid,
			 uid);
		return;
	}
	ring_entry_release(&r);
}

static int open_process(uint32_t id)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%" PRIu32, id);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void add_found(struct rings *rs, int32_t pid, int proc_fd, int number)
{
	struct ring_entry r = { .number = number, .pid = pid, .proc_fd = -1 };
	struct proc_status status;
	int fd = open_memfd(rs, proc_fd, number, &r.inode);

	if (fd < 0)
		return;
	r.proc_fd = fcntl(proc_fd, F_DUPFD_CLOEXEC, 0);
	if (r.proc_fd < 0 || !proc_status_of((uint32_t)pid, &status)) {
		close(fd);
		ring_entry_release(&r);
		return;
	}
	add_entry(rs, r, status.uid, fd, status.inner_id);
}

/* Of a process that has ended, the number that it had in a PID namespace of its own is not known any more. */
bool rings_add(struct rings *rs, int fd, int32_t pid, uint32_t uid)
{
	struct ring_entry r = { .number = -1, .pid = pid };
	size_t refused = rs->n_refused;
	struct proc_status status;

	if (pid <= 0 || !is_memfd(rs, fd, &r.inode)) {
		close(fd);
		return true;
	}
	r.proc_fd = open_process((uint32_t)pid);
	(void)proc_status_of((uint32_t)pid, &status);
	add_entry(rs, r, uid, fd, status.inner_id ? status.inner_id : pid);
	return rs->n_refused == refused;
}

/* False and errno if the link cannot be read. */
static bool is_ring_link(int proc_fd, int number)
{
	char path[32], text[sizeof(LINK_TEXT)];
	ssize_t len;

	errno = 0;
	snprintf(path, sizeof(path), "fd/%d", number);
	len = readlinkat(proc_fd, path, text, sizeof(text));
	return len == (ssize_t)strlen(LINK_TEXT) && !memcmp(text, LINK_TEXT, strlen(LINK_TEXT));
}

/* ---- looking ---- */

/* A ring adds a descriptor. So a process that runs the same program with as many as at its last search is not searched again,
 * because reading the names of all its descriptors is expensive. Linux before 6.2 does not tell the number. */
static bool is_unchanged(struct process *p)
{
	int64_t descriptors = p->descriptors;
	uint64_t program = p->program;
	struct statx exe;
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/fd", p->pid);
	p->descriptors = stat(path, &st) ? 0 : (int64_t)st.st_size;
	/* Without a question to its file system's server, which may hang. */
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/exe", p->pid);
	p->program = statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &exe) ? 0 : exe.stx_ino;
	return descriptors && p->descriptors == descriptors && p->program == program &&
	       p->wait_ns > YOUNG_WAIT_NS;
}

/* Searches the descriptors in the folder of the process, or of one of its threads. False: there are none. */
static bool search(struct rings *rs, struct process *p, uint32_t id)
{
	int proc_fd = open_process(id), fds;
	struct dirent *entry;
	bool found = false;
	DIR *dir = NULL;

	if (proc_fd < 0)
		return false;
	fds = openat(proc_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fds >= 0)
		dir = fdopendir(fds);
	p->denied = fds < 0 && (errno == EACCES || errno == EPERM);
	for (int i = 0; dir && i < DESCRIPTORS_MAX && !rs->stopped && (entry = readdir(dir)); i++) {
		int number = isdigit((unsigned char)*entry->d_name)
				     ? (int)strtol(entry->d_name, NULL, 10)
				     : -1;

		found |= number >= 0;
		if (number >= 0 && is_ring_link(proc_fd, number)) {
			add_found(rs, p->pid, proc_fd, number);
		} else if (number >= 0 && (errno == EACCES || errno == EPERM)) {
			/* The folder fd/ may be readable although its links are not: none of them is. */
			p->denied = foreign_is_denied(proc_fd);
			break;
		}
	}
	if (dir)
		closedir(dir);
	close(proc_fd);
	return found;
}

static void look_at(struct rings *rs, struct process *p)
{
	uint32_t pid = (uint32_t)p->pid, id;
	size_t refused = rs->n_refused;

	/* It may have closed another descriptor meanwhile: so it is searched now and then anyway. */
	if (is_unchanged(p) && rs->now_mono_ns < p->searched_mono_ns + LOOK_MOST_NS)
		return;
	p->searched_mono_ns = rs->now_mono_ns;
	if (!search(rs, p, pid) && !p->denied) {
		id = proc_living(pid);
		if (id != pid)
			(void)search(rs, p, id);
	}
	p->left_out = rs->n_refused - refused;
}

static void look_if_due(struct rings *rs, int32_t pid, uint64_t inode)
{
	struct process *p = u32_map_get(&rs->by_pid, (uint32_t)pid);
	bool is_due;

	if (!p) {
		p = xcalloc(1, sizeof(*p));
		p->pid = pid;
		u32_map_set(&rs->by_pid, (uint32_t)pid, p);
	}
	if (p->inode != inode)
		*p = (struct process){ .pid = pid, .inode = inode };
	p->seen = rs->looks;
	is_due = rs->now_mono_ns >= p->look_mono_ns;
	if (!is_due && (!rs->all || rs->now_mono_ns < p->looked_mono_ns + LOOK_AGAIN_NS))
		return;
	if (is_due)
		p->wait_ns = p->wait_ns ? 2 * p->wait_ns : LOOK_FIRST_NS;
	if (p->wait_ns > LOOK_MOST_NS)
		p->wait_ns = LOOK_MOST_NS;
	p->looked_mono_ns = rs->now_mono_ns;
	p->look_mono_ns = rs->now_mono_ns + p->wait_ns;
	look_at(rs, p);
}

static void forget_gone(struct rings *rs)
{
	size_t n = 0;
	uint32_t *gone = xmalloc((rs->by_pid.n + 1) * sizeof(*gone));

	rs->incomplete = false;
	rs->left_out = 0;
	for (size_t i = 0; i < rs->by_pid.n_slots; i++) {
		const struct process *p = u32_map_at(&rs->by_pid, i);

		if (p && p->seen != rs->looks) {
			gone[n++] = (uint32_t)p->pid;
		} else if (p) {
			rs->incomplete |= p->denied;
			rs->left_out += p->left_out;
		}
	}
	while (n)
		free(u32_map_remove(&rs->by_pid, gone[--n]));
	free(gone);
}

/* Limits the cost of a series of captures, each of which asks for a search of all processes. */
static void end_look(struct rings *rs, int64_t cpu_ns)
{
	if (!rs->all)
		return;
	cpu_ns *= LOOK_SHARE;
	cpu_ns = cpu_ns > LOOK_AGAIN_NS ? cpu_ns : LOOK_AGAIN_NS;
	rs->all_mono_ns = rs->now_mono_ns + (cpu_ns < LOOK_MOST_NS ? cpu_ns : LOOK_MOST_NS);
}

void rings_look(struct rings *rs, int64_t now_mono_ns, bool all)
{
	int64_t begin_cpu_ns = now_thread_cpu_ns();
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	if (!dir || !rs->memfd_dev) {
		if (dir)
			closedir(dir);
		return;
	}
	rs->now_mono_ns = now_mono_ns;
	rs->all = all && now_mono_ns >= rs->all_mono_ns;
	rs->looks++;
	while (!rs->stopped && (entry = readdir(dir))) {
		if (isdigit((unsigned char)*entry->d_name))
			look_if_due(rs, (int32_t)strtol(entry->d_name, NULL, 10), entry->d_ino);
	}
	closedir(dir);
	forget_gone(rs);
	end_look(rs, now_thread_cpu_ns() - begin_cpu_ns);
}

void rings_stop_looking(struct rings *rs)
{
	rs->stopped = true;
}

/* ---- reading ---- */

/* A process that ended, also one that its parent has not noticed yet, has no descriptors and no executable. */
static bool is_there(const struct ring_entry *r)
{
	char exe;

	if (r->number >= 0)
		return is_ring_link(r->proc_fd, r->number);
	return r->proc_fd >= 0 && (readlinkat(r->proc_fd, "exe", &exe, sizeof(exe)) >= 0 ||
				   (errno != ENOENT && errno != ESRCH));
}

/* Of a process whose main thread has ended, another thread's folder has the descriptors. */
static bool follow_thread(const struct rings *rs, struct ring_entry *r)
{
	uint32_t pid = (uint32_t)r->pid, id = proc_living(pid);
	int proc_fd = id == pid ? -1 : open_process(id), fd;
	bool same = proc_fd >= 0;
	uint64_t inode = 0;

	if (same && r->number >= 0) {
		fd = open_memfd(rs, proc_fd, r->number, &inode);
		same = fd >= 0 && inode == r->inode;
		close_if_open(fd);
	}
	close_if_open(same ? r->proc_fd : proc_fd);
	if (same)
		r->proc_fd = proc_fd;
	return same;
}

static bool has_ended(const struct rings *rs, struct ring_entry *r)
{
	return !is_there(r) && !follow_thread(rs, r);
}

void rings_read(struct rings *rs, struct ring_reading *reading)
{
	size_t kept = 0, n = rs->n;

	for (size_t k = 0; k < n; k++) {
		struct ring_entry *r = &rs->v[(rs->first + k) % n];
		bool ended = has_ended(rs, r), had_more = reading->has_more;

		reading->has_more = false;
		shared_ring_read(r->ring, reading);
		if (ended && !reading->has_more) {
			shared_ring_end(r->ring, reading);
			ring_entry_release(r);
			r->ring = NULL;
		}
		reading->has_more |= had_more;
	}
	for (size_t i = 0; i < n; i++) {
		if (rs->v[i].ring)
			rs->v[kept++] = rs->v[i];
	}
	rs->n = kept;
	rs->first = kept ? (rs->first + 1) % kept : 0;
}

void rings_each_open(struct rings *rs, const struct ring_reading *reading)
{
	for (size_t i = 0; i < rs->n; i++)
		shared_ring_each_open(rs->v[i].ring, reading);
}
