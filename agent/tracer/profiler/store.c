/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/profiler/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tracer/profiler/reply.h"
#include "base/file.h"
#include "base/mem.h"
#include "net/rpc.h"
#include "xspace/xspace.h"

#define STATUS_BYTES (64 << 10)

static int read_fd(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	return file_read_exact(*(const int *)arg, offset, buf, len, "what the profiler sent", e);
}

/* Checks that the file is an XSpace, and finds its begin time. If it has one, the rest is not read here: the
 * merge reads it. Does not use mmap: mapped gigabytes would count as the agent's memory. */
static int read_begin(struct profiler_store *s, int fd, size_t size)
{
	struct xs_summary sum = { 0 };
	struct xs_source source = { .read = read_fd, .arg = &fd, .size = size };
	uint64_t start_ns;
	int rc = xs_profile_start(&source, &start_ns, &s->err);

	if (!rc && !start_ns)
		rc = xs_summarize(&source, &sum, &s->err);
	if (rc)
		return err_prefix(&s->err, "the profiler's data is not an XSpace");
	if (start_ns <= INT64_MAX)
		s->start_real_ns = (int64_t)start_ns;
	s->has_file = sum.events > 0 || s->start_real_ns;
	return 0;
}

/* Removes the file if it is empty or malformed. */
static int check_file(struct profiler_store *s, int fd)
{
	struct stat st;
	int rc = 0;

	s->has_file = false;
	if (fstat(fd, &st))
		rc = err_errno(&s->err, "%s", s->path);
	else if (st.st_size)
		rc = read_begin(s, fd, (size_t)st.st_size);
	if (!s->has_file)
		unlink(s->path);
	return rc;
}

/* ---- the reply ---- */

struct writing {
	struct profiler_reply reply;
	int fd;
	int rc;
	struct err *err;
};

static int write_piece(void *arg, const void *data, size_t len, struct err *e)
{
	struct writing *w = arg;

	return file_write_all(w->fd, data, len, "the profiler's reply", e);
}

static void feed_piece(void *arg, const uint8_t *data, size_t len)
{
	struct writing *w = arg;

	if (!w->rc)
		w->rc = profiler_reply_feed(&w->reply, data, len, w->err);
}

void profiler_store_reply(struct profiler_store *s)
{
	struct writing w = { .err = &s->err };

	w.fd = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (w.fd < 0) {
		s->rc = err_errno(&s->err, "%s", s->path);
		return;
	}
	w.reply = profiler_reply_of(write_piece, &w);
	rpc_msg_pieces(s->msg, feed_piece, &w);
	s->rc = w.rc ? w.rc : profiler_reply_end(&w.reply, &s->err);
	s->empty_trace = w.reply.empty_trace;
	s->has_xspace = w.reply.has_xspace;
	if (!s->rc)
		s->rc = check_file(s, w.fd);
	else
		unlink(s->path);
	close(w.fd);
}

/* ---- an older server's file ---- */

static int fetch_and_check(struct profiler_store *s)
{
	int rc, fd;

	if (s->no_space)
		return err_set(&s->err, ERR_FULL,
			       "the spool has less than the %" PRIu64
			       " bytes that it needs (--spool-limit)",
			       s->need_bytes);
	rc = profiler_file_fetch(&s->place, s->path, s->limit_bytes, &s->need_bytes, &s->err);
	if (rc)
		return rc;
	fd = open(s->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(&s->err, "%s", s->path);
	rc = check_file(s, fd);
	close(fd);
	return rc;
}

/* The process's effective user, from its status file: its folder in /proc may belong to root. */
static void find_owner(int64_t pid, uid_t *out)
{
	char *path = xasprintf("/proc/%" PRId64 "/status", pid);
	struct buf text = BUF_INIT;
	const char *line = NULL;

	if (!file_load(path, STATUS_BYTES, &text, NULL))
		line = strstr(buf_str(&text), "\nUid:");
	if (line)
		(void)!sscanf(line, "\nUid: %*u %u", out);
	buf_release(&text);
	free(path);
}

bool profiler_store_must_repeat(const struct profiler_store *s)
{
	return s->rc == ERR_FULL && s->need_bytes > s->limit_bytes && !s->no_space;
}

/* The process's root, to be freed, and its user. */
static char *find_root(int64_t pid, struct profiler_place *place, uid_t *owner)
{
	char *root = pid ? xasprintf("/proc/%" PRId64 "/root", pid) : xstrdup("/");

	/* no user: stays so if the process has ended, and then nothing is removed */
	*owner = (uid_t)-1;
	if (pid) {
		find_owner(pid, owner);
		place->owner = owner;
	}
	place->root = root;
	return root;
}

void profiler_store_file(struct profiler_store *s)
{
	uid_t owner;
	char *root = find_root(s->pid, &s->place, &owner);

	s->rc = fetch_and_check(s);
	if (s->rc != ERR_NOT_FOUND && !profiler_store_must_repeat(s))
		profiler_file_remove(&s->place);
	s->place.root = NULL;
	s->place.owner = NULL;
	free(root);
}

void profiler_store_remove(int64_t pid, const char *repository, const char *session)
{
	struct profiler_place place = { .repository = repository, .session = session };
	uid_t owner;
	char *root = find_root(pid, &place, &owner);

	profiler_file_remove(&place);
	free(root);
}
