/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/logs/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/tracer/logs/journal_entry.h"
#include "agent/tracer/logs/split.h"
#include "base/clean_text.h"
#include "base/mem.h"

#define AGAIN_NS    (10 * NS_PER_S) /* from its end to the next start */
#define CHUNK_BYTES (64 << 10)

struct journal {
	pid_t pid; /* 0 = it is not running */
	int fd; /* its output and its messages */
	int64_t again_mono_ns; /* when it is started again */
	struct split split;
	struct journal_entry entry; /* of this reading */
	char message[128]; /* the first line that is no entry: journalctl's own message */
	char problem[256];
	uint8_t chunk[CHUNK_BYTES];
};

/* In the child all signals are as in a shell: the agent's loop has blocked some. */
static int spawn(pid_t *pid, int out_fd)
{
	static const char *const argv[] = { "journalctl", "--follow",
					    "--lines=0",  "--output=json",
					    "--no-pager", "--output-fields=" JOURNAL_FIELDS,
					    NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out_fd, 1);
	posix_spawn_file_actions_adddup2(&files, out_fd, 2);
	rc = posix_spawnp(pid, argv[0], &files, &attr, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return rc;
}

static void start(struct journal *j)
{
	int fds[2], rc;

	j->again_mono_ns = now_mono_ns() + AGAIN_NS;
	if (pipe2(fds, O_CLOEXEC)) {
		snprintf(j->problem, sizeof(j->problem), "journal: %s", strerror(errno));
		return;
	}
	rc = spawn(&j->pid, fds[1]);
	close(fds[1]);
	if (rc) {
		close(fds[0]);
		j->pid = 0;
		snprintf(j->problem, sizeof(j->problem),
			 "journalctl cannot be started (%s): install systemd's, or leave "
			 "journal out of --logs",
			 strerror(rc));
		return;
	}
	(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
	j->fd = fds[0];
	*j->message = '\0';
}

static void end(struct journal *j)
{
	kill(j->pid, SIGKILL);
	while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(j->fd);
	j->pid = 0;
	buf_reset(&j->split.begun);
}

struct journal *journal_new(void)
{
	struct journal *j = xcalloc(1, sizeof(*j));

	start(j);
	return j;
}

void journal_free(struct journal *j)
{
	if (!j)
		return;
	if (j->pid)
		end(j);
	split_release(&j->split);
	free(j);
}

const char *journal_problem(const struct journal *j)
{
	return j->problem;
}

struct taker {
	struct journal *j;
	struct reading *r;
};

static void on_line(void *arg, const char *line, size_t len)
{
	struct taker *t = arg;
	struct journal *j = t->j;

	if (*line != '{') { /* about permissions, or what is wrong with a file */
		if (!*j->message)
			clean_sentence(j->message, sizeof(j->message), line, len);
		snprintf(j->problem, sizeof(j->problem),
			 "journalctl: %s (the group systemd-journal may read it)", j->message);
	} else if (t->r->lines_left <= 0) {
		t->r->lost++;
	} else if (journal_entry_read(line, len, &j->entry)) {
		reading_add(t->r, &j->entry.origin, &j->entry.line, &j->entry.time, STAMP_JOURNAL);
	}
}

void journal_read(struct journal *j, struct reading *r)
{
	struct taker t = { j, r };

	if (!j->pid && r->mono_ns >= j->again_mono_ns)
		start(j);
	while (j->pid && r->bytes_left > 0) {
		ssize_t n = read(j->fd, j->chunk, sizeof(j->chunk));

		if (n > 0) {
			r->bytes_left -= n;
			split_add(&j->split, j->chunk, (size_t)n, on_line, &t);
		} else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			if (!*j->message && r->mono_ns >= j->again_mono_ns)
				*j->problem = '\0'; /* it goes on */
			return;
		} else {
			end(j);
			j->again_mono_ns = r->mono_ns + AGAIN_NS;
			if (!*j->problem)
				snprintf(j->problem, sizeof(j->problem),
					 "journalctl has ended; it is started again every 10 s");
		}
	}
}
