/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/far_file.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/proc/file_keeper.h"
#include "agent/proc/foreign_file.h"
#include "agent/proc/progress.h"
#include "base/file.h"
#include "base/mem.h"

#define PLACES_MAX 64
/* A place that was well for so long begins anew. */
#define FORGET_NS (600 * NS_PER_S)

/* A place that took long, or for ever. */
struct slow_place {
	struct far_place place;
	int64_t asleep_ns; /* in this job */
	int hung_fd; /* to the reader that hangs there; -1: none does */
	unsigned int hangs;
	bool is_resting;
	int64_t rest_until_ns; /* CLOCK_MONOTONIC */
	char path[128]; /* of the file that hung */
};

struct far_files {
	const struct file_keeper *keeper;
	atomic_bool stopped;
	int fd; /* to the reader; -1 = none */
	int32_t pid; /* the reader's; 0 = not known yet */
	uint32_t reader; /* counts them */
	bool has_lost_one; /* since the last job began a reader ended that was asked */
	struct slow_place *slow[PLACES_MAX];
	size_t n_slow;
	char hung[200]; /* a sentence */
};

struct far_files *far_files_new(const struct file_keeper *k)
{
	struct far_files *ff = xcalloc(1, sizeof(*ff));

	ff->keeper = k;
	ff->fd = -1;
	ff->reader = 1;
	return ff;
}

static void forget(struct far_files *ff, size_t i)
{
	if (ff->slow[i]->hung_fd >= 0)
		close(ff->slow[i]->hung_fd);
	free(ff->slow[i]);
	ff->slow[i] = ff->slow[--ff->n_slow];
}

static void end_reader(struct far_files *ff)
{
	if (ff->fd >= 0)
		close(ff->fd);
	ff->fd = -1;
	ff->pid = 0;
	ff->reader++;
}

void far_files_free(struct far_files *ff)
{
	if (!ff)
		return;
	end_reader(ff);
	while (ff->n_slow)
		forget(ff, 0);
	free(ff);
}

void far_files_stop(struct far_files *ff)
{
	atomic_store(&ff->stopped, true);
}

const char *far_files_hung(const struct far_files *ff)
{
	return ff->hung;
}

/* ---- places ---- */

static bool same_place(const struct far_place *a, const struct far_place *b)
{
	if (a->major != b->major || a->minor != b->minor)
		return false;
	return a->major || a->minor || a->pid == b->pid;
}

static struct slow_place *find_slow(const struct far_files *ff, const struct far_place *place)
{
	for (size_t i = 0; i < ff->n_slow; i++)
		if (same_place(&ff->slow[i]->place, place))
			return ff->slow[i];
	return NULL;
}

/* The one to forget for another: no reader hangs there, and it is the first to be asked again. */
static size_t least_slow(const struct far_files *ff)
{
	size_t least = 0;

	for (size_t i = 1; i < ff->n_slow; i++) {
		const struct slow_place *a = ff->slow[i], *b = ff->slow[least];

		if (a->hung_fd < 0 && (b->hung_fd >= 0 || a->rest_until_ns < b->rest_until_ns))
			least = i;
	}
	return least;
}

static struct slow_place *slow_of(struct far_files *ff, const struct far_place *place)
{
	struct slow_place *s = find_slow(ff, place);

	if (s)
		return s;
	if (ff->n_slow == PLACES_MAX)
		forget(ff, least_slow(ff));
	s = xcalloc(1, sizeof(*s));
	s->place = *place;
	s->hung_fd = -1;
	ff->slow[ff->n_slow++] = s;
	return s;
}

static int64_t asleep_ns(const struct far_files *ff, uint32_t uid)
{
	int64_t sum = 0;

	for (size_t i = 0; i < ff->n_slow; i++)
		sum += ff->slow[i]->place.uid == uid ? ff->slow[i]->asleep_ns : 0;
	return sum;
}

static bool may_ask(const struct far_files *ff, const struct far_place *place)
{
	const struct slow_place *s = find_slow(ff, place);
	size_t n = 0, of_user = 0;

	if (s && (s->hung_fd >= 0 || s->is_resting))
		return false;
	for (size_t i = 0; i < ff->n_slow; i++) {
		bool hangs = ff->slow[i]->hung_fd >= 0;

		n += hangs;
		of_user += hangs && ff->slow[i]->place.uid == place->uid;
	}
	return n < FAR_HUNG_MAX && of_user < FAR_USER_HUNG_MAX &&
	       asleep_ns(ff, place->uid) <= FAR_USER_ASLEEP_NS;
}

static int not_asked(struct err *e, const char *path)
{
	return err_set(e, ERR_TIMEOUT, "%.150s is left alone: its file system does not answer",
		       path);
}

static int64_t rest_ns(const struct slow_place *s)
{
	int64_t ns = FAR_REST_NS;

	for (unsigned int i = 1; i < s->hangs && ns < FAR_REST_MAX_NS; i++)
		ns *= 2;
	return ns < FAR_REST_MAX_NS ? ns : FAR_REST_MAX_NS;
}

static void explain(struct far_files *ff)
{
	ff->hung[0] = '\0';
	for (size_t i = 0; i < ff->n_slow && !ff->hung[0]; i++)
		if (ff->slow[i]->hung_fd >= 0 || ff->slow[i]->is_resting)
			snprintf(ff->hung, sizeof(ff->hung),
				 "the file system of %s does not answer, or is too slow",
				 ff->slow[i]->path);
}

static void rest(struct far_files *ff, struct slow_place *s, const char *path)
{
	s->hangs++;
	s->is_resting = true;
	s->rest_until_ns = now_mono_ns() + rest_ns(s);
	snprintf(s->path, sizeof(s->path), "%s", path);
	explain(ff);
}

/* The reader hangs: another one will be asked about other places. */
static void give_up(struct far_files *ff, const struct far_place *place, const char *path)
{
	struct slow_place *s = slow_of(ff, place);

	s->hung_fd = ff->fd;
	rest(ff, s, path);
	ff->fd = -1;
	end_reader(ff);
}

/* Adds what a call waited for. A place that takes all that its user has is left alone. */
static void count_asleep(struct far_files *ff, const struct far_place *place, const char *path,
			 int64_t ns)
{
	struct slow_place *s;

	if (ns < NS_PER_MS)
		return;
	s = slow_of(ff, place);
	s->asleep_ns += ns;
	if (!s->is_resting && asleep_ns(ff, place->uid) > FAR_USER_ASLEEP_NS)
		rest(ff, s, path);
}

/* True if the reader that hung there has an answer at last, or has ended. */
static bool has_come_back(const struct slow_place *s)
{
	struct pollfd p = { .fd = s->hung_fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

bool far_files_begin(struct far_files *ff)
{
	int64_t now_ns = now_mono_ns();
	bool any = ff->has_lost_one;

	ff->has_lost_one = false;
	for (size_t i = ff->n_slow; i-- > 0;) {
		struct slow_place *s = ff->slow[i];

		s->asleep_ns = 0;
		if (s->hung_fd >= 0 && has_come_back(s)) {
			close(s->hung_fd);
			s->hung_fd = -1;
			s->rest_until_ns = now_ns + rest_ns(s);
		}
		if (s->hung_fd < 0 && s->is_resting && now_ns >= s->rest_until_ns) {
			s->is_resting = false;
			any = true;
		}
		if (s->hung_fd < 0 && now_ns - s->rest_until_ns > FORGET_NS)
			forget(ff, i);
	}
	if (any)
		explain(ff);
	return any;
}

/* ---- asking the reader ---- */

/* ERR_TIMEOUT: the reader hangs. */
static int await_answer(struct far_files *ff, struct err *e)
{
	struct pollfd p = { .fd = ff->fd, .events = POLLIN };
	struct proc_progress last = { 0 };

	while (!atomic_load(&ff->stopped)) {
		if (poll(&p, 1, FAR_LOOK_MS) > 0)
			return 0;
		if (proc_progress_look(&last, (uint32_t)ff->pid) >= FAR_HANG_LOOKS)
			return err_set(e, ERR_TIMEOUT, "the file system does not answer");
	}
	return err_set(e, ERR_CANCELLED, "the agent ends");
}

/* Sends the request and takes the answer. */
static int exchange(struct far_files *ff, const struct file_request *q, struct file_answer *a,
		    void *bytes, struct err *e)
{
	size_t len = offsetof(struct file_request, path) + strlen(q->path) + 1;
	struct iovec parts[2] = { { a, sizeof(*a) }, { bytes, q->len } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };
	int rc = 0;

	if (send(ff->fd, q, len, MSG_NOSIGNAL) < 0)
		rc = err_errno(e, "asking a reader of files");
	if (!rc)
		rc = await_answer(ff, e);
	if (!rc && recvmsg(ff->fd, &m, 0) < (ssize_t)sizeof(*a))
		rc = err_set(e, ERR_CLOSED, "a reader of files has ended");
	return rc;
}

/* A new reader, and its first answer, which says who it is. */
static int start_reader(struct far_files *ff, struct err *e)
{
	const struct file_request hello = { .call = FILE_CLOSE, .fd = -1 };
	struct file_answer a;
	int rc = file_keeper_reader(ff->keeper, e);

	if (rc >= 0) {
		ff->fd = rc;
		rc = exchange(ff, &hello, &a, NULL, e);
	}
	if (rc) {
		snprintf(ff->hung, sizeof(ff->hung), "the process that reads files has ended");
		return rc;
	}
	ff->pid = a.pid;
	explain(ff);
	return 0;
}

static int ask_once(struct far_files *ff, const struct far_place *place, const char *path,
		    const struct file_request *q, struct file_answer *a, void *bytes, struct err *e)
{
	int rc = ff->fd < 0 ? start_reader(ff, e) : 0;

	if (!rc)
		rc = exchange(ff, q, a, bytes, e);
	if (rc == ERR_TIMEOUT) {
		give_up(ff, place, path);
	} else if (rc) {
		end_reader(ff);
		ff->has_lost_one = true;
	} else {
		count_asleep(ff, place, path, a->asleep_ns);
	}
	return rc;
}

/* Asks about the file at `path` in that place. On failure, which is not that of the file, there is no reader any more. A reader
 * may have been killed since it was asked last: another one does as well, unless it is to have the file open. */
static int ask(struct far_files *ff, const struct far_place *place, const char *path,
	       const struct file_request *q, struct file_answer *a, void *bytes, struct err *e)
{
	int rc = ask_once(ff, place, path, q, a, bytes, e);

	if (rc && rc != ERR_TIMEOUT && rc != ERR_CANCELLED && q->call != FILE_READ &&
	    q->call != FILE_CLOSE)
		rc = ask_once(ff, place, path, q, a, bytes, e);
	return rc;
}

/* ---- files ---- */

static int open_here(const struct file_request *q, struct stat *st, struct err *e)
{
	switch ((enum file_call)q->call) {
	case FILE_OPEN_MAPPED:
		return foreign_open_mapped(q->pid, q->path, q->inode, st, e);
	case FILE_OPEN:
		return foreign_open(q->pid, q->path, st, e);
	default:
		return foreign_open_here(q->path, st, e);
	}
}

static int open_file(struct far_files *ff, const struct far_place *place, struct file_request *q,
		     const char *path, struct far_file *out, struct stat *st, struct err *e)
{
	struct file_answer a;
	int rc;

	*out = FAR_FILE_CLOSED;
	if (strlen(path) >= sizeof(q->path))
		return err_set(e, ERR_LIMIT, "the path %.100s... is too long", path);
	if (atomic_load(&ff->stopped))
		return err_set(e, ERR_CANCELLED, "the agent ends");
	if (!may_ask(ff, place))
		return not_asked(e, path);
	memcpy(q->path, path, strlen(path) + 1);
	if (!ff->keeper) {
		rc = open_here(q, st, e);
	} else {
		rc = ask(ff, place, path, q, &a, NULL, e);
		if (!rc) {
			rc = a.rc;
			*st = a.st;
			if (e && rc < 0)
				*e = a.e;
		}
	}
	if (rc < 0)
		return rc;
	*out = (struct far_file){ .files = ff, .place = *place, .fd = rc, .reader = ff->reader };
	snprintf(out->path, sizeof(out->path), "%s", path);
	return 0;
}

int far_open_mapped(struct far_files *ff, const struct far_place *place, const char *path,
		    uint64_t inode, struct far_file *out, struct stat *st, struct err *e)
{
	struct file_request q = { .call = FILE_OPEN_MAPPED, .pid = place->pid, .inode = inode };

	return open_file(ff, place, &q, path, out, st, e);
}

int far_open(struct far_files *ff, const struct far_place *place, const char *path,
	     struct far_file *out, struct stat *st, struct err *e)
{
	struct file_request q = { .call = FILE_OPEN, .pid = place->pid };

	return open_file(ff, place, &q, path, out, st, e);
}

int far_open_here(struct far_files *ff, const struct far_place *place, const char *path,
		  struct far_file *out, struct stat *st, struct err *e)
{
	struct file_request q = { .call = FILE_OPEN_HERE };

	return open_file(ff, place, &q, path, out, st, e);
}

static int ask_at(struct far_files *ff, const struct far_place *place, struct file_request *q,
		  void *bytes, struct err *e)
{
	struct file_answer a;
	int rc;

	if (atomic_load(&ff->stopped))
		return err_set(e, ERR_CANCELLED, "the agent ends");
	if (!may_ask(ff, place))
		return not_asked(e, q->path);
	rc = ask(ff, place, q->path, q, &a, bytes, e);
	return rc ? rc : a.rc;
}

ssize_t far_list(struct far_files *ff, const struct far_place *place, const char *folder,
		 uint64_t from, char *out, struct err *e)
{
	struct file_request q = {
		.call = FILE_LIST, .pid = place->pid, .offset = from, .len = FAR_LIST_BYTES
	};

	_Static_assert(FAR_LIST_BYTES == FILE_CHUNK_BYTES, "a reader lists so much at once");
	if (!ff->keeper)
		return (ssize_t)foreign_list(place->pid, folder, from, out, FAR_LIST_BYTES);
	snprintf(q.path, sizeof(q.path), "%s", folder);
	return ask_at(ff, place, &q, out, e);
}

int far_remove(struct far_files *ff, const struct far_place *place, const char *folder,
	       const char *name, struct err *e)
{
	struct file_request q = { .call = FILE_REMOVE, .pid = place->pid, .uid = place->uid };

	if (!ff->keeper)
		return foreign_remove(place->pid, folder, name, place->uid);
	snprintf(q.path, sizeof(q.path), "%s/%s", folder, name);
	return ask_at(ff, place, &q, NULL, e);
}

bool far_file_is_open(const struct far_file *f)
{
	return f->fd >= 0 && f->reader == f->files->reader;
}

void far_file_close(struct far_file *f)
{
	const struct file_request q = { .call = FILE_CLOSE, .fd = f->fd };
	struct file_answer a;

	if (f->fd >= 0 && !f->files->keeper)
		close(f->fd);
	else if (far_file_is_open(f))
		(void)ask(f->files, &f->place, f->path, &q, &a, NULL, NULL);
	f->fd = -1;
}

static ssize_t read_chunk(struct far_file *f, uint64_t offset, void *out, size_t len, struct err *e)
{
	struct file_request q = { .call = FILE_READ, .fd = f->fd, .offset = offset };
	struct file_answer a;
	int rc;

	q.len = len < FILE_CHUNK_BYTES ? (uint32_t)len : FILE_CHUNK_BYTES;
	if (!far_file_is_open(f))
		return err_set(e, ERR_CLOSED, "the reader of the file has ended");
	if (!may_ask(f->files, &f->place))
		return not_asked(e, f->path);
	rc = ask(f->files, &f->place, f->path, &q, &a, out, e);
	if (!rc && a.rc < 0 && e)
		*e = a.e;
	return rc ? rc : a.rc;
}

ssize_t far_file_read_up_to(struct far_file *f, uint64_t offset, void *out, size_t len,
			    struct err *e)
{
	size_t done = 0;
	ssize_t n = 1;

	if (!f->files->keeper) {
		n = file_read_up_to(f->fd, offset, out, len);
		return n < 0 ? err_errno(e, "reading %s", f->path) : n;
	}
	while (done < len && n > 0) {
		n = read_chunk(f, offset + done, (uint8_t *)out + done, len - done, e);
		done += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? n : (ssize_t)done;
}

int far_file_read(void *file, uint64_t offset, void *out, size_t len, struct err *e)
{
	const struct far_file *f = file;
	ssize_t n = far_file_read_up_to(file, offset, out, len, e);

	if (n >= 0 && (size_t)n < len)
		return err_set(e, ERR_IO, "reading %s: it ends before", f->path);
	return n < 0 ? (int)n : 0;
}
