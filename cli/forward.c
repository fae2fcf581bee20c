/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/forward.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clean_text.h"
#include "base/mem.h"
#include "base/now.h"

#define SCHEME	    "k8s://"
#define HTTP_PORT   "7400"
#define NAME_CHARS  "abcdefghijklmnopqrstuvwxyz0123456789.-"
#define OUTPUT_MOST 2000
#define AGAIN_NS    (500 * NS_PER_MS)
#define END_LOOKS   200 /* 10 ms each: what has not ended by then is killed */
#define READS_MOST  100 /* of the words of one that has ended */

bool forward_is_wanted(const char *server)
{
	return !strncmp(server, SCHEME, strlen(SCHEME));
}

static bool is_name(const char *text, size_t len)
{
	return len && len < 254 && strspn(text, NAME_CHARS) >= len && *text != '-';
}

/* Splits the URL, which ends at `end`; the caller frees both. */
static int parse(const char *server, const char *end, char **space, char **pod, struct err *e)
{
	static const char kind[] = "pod/";
	const char *at = server + strlen(SCHEME), *slash;
	const char *name;
	size_t len = 0;
	bool is_pod;

	if (!forward_is_wanted(server))
		goto bad;
	slash = memchr(at, '/', (size_t)(end - at));
	if (!slash)
		goto bad;
	name = slash + 1;
	is_pod = !strncmp(name, kind, strlen(kind));
	name += is_pod ? strlen(kind) : 0;
	while (end > name && end[-1] == '/')
		end--;
	len = (size_t)(end - name);
	if (!is_name(at, (size_t)(slash - at)) || !is_name(name, len))
		goto bad;
	*space = xstrndup(at, (size_t)(slash - at));
	*pod = xasprintf("pod/%.*s%s", (int)len, name, is_pod ? "" : "-0");
	return 0;
bad:
	return err_set(e, ERR_INVALID,
		       "'%.200s': expected k8s://NAMESPACE/NAME or k8s://NAMESPACE/pod/NAME",
		       server);
}

/* ---- in the keeper, which is a child ---- */

struct target {
	const char *space, *pod;
	long port; /* of this machine; 0 = kubectl chooses one */
};

static volatile sig_atomic_t kubectl; /* its pid */

/* kubectl has a group of its own, and all of that ends: it may be a script that has started the real one. */
static void on_end(int signal_number)
{
	(void)signal_number;
	if (kubectl > 0) {
		kill(-kubectl, SIGTERM);
		for (int i = 0; i < END_LOOKS && !waitpid(kubectl, NULL, WNOHANG); i++)
			poll(NULL, 0, 10);
		kill(-kubectl, SIGKILL);
	}
	_exit(0);
}

static void become_kubectl(const struct target *t, int out)
{
	char ports[32];
	const char *const argv[] = { "kubectl", "port-forward", "--namespace", t->space,
				     t->pod,	ports,		NULL };
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	setpgid(0, 0);
	sigemptyset(&none);
	if (t->port)
		snprintf(ports, sizeof(ports), "%ld:" HTTP_PORT, t->port);
	else
		snprintf(ports, sizeof(ports), ":" HTTP_PORT);
	signal(SIGTERM, SIG_DFL); /* and only then unblocked */
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(1);
	execvp(argv[0], (char *const *)argv);
	dprintf(2, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Returns the descriptor that has its words, or -1. */
static int start_kubectl(const struct target *t)
{
	sigset_t end, old;
	pid_t pid;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigprocmask(SIG_BLOCK, &end, &old);
	pid = child_fork(SIGTERM);
	if (!pid)
		become_kubectl(t, ends[1]);
	if (pid > 0)
		setpgid(pid, pid); /* as the child does: whoever is first */
	kubectl = pid;
	sigprocmask(SIG_SETMASK, &old, NULL);
	close(ends[1]);
	if (pid > 0)
		return ends[0];
	close(ends[0]);
	return -1;
}

/* The port in kubectl's words, once they are whole; else 0. */
static long port_in(const char *text)
{
	static const char said[] = "Forwarding from 127.0.0.1:";
	const char *at = strstr(text, said);

	return at && strchr(at, '\n') ? strtol(at + strlen(said), NULL, 10) : 0;
}

struct words {
	char text[OUTPUT_MOST + 1];
	size_t len;
	long port; /* once they name it */
};

/* Reads what there is, and hands it on to `out` until it names the port. False at the end, or if the parent reads no more. */
static bool hear_some(int in, struct words *w, int *out)
{
	char rest[512];
	bool is_known = w->port || w->len == OUTPUT_MOST;
	ssize_t n = is_known ? read(in, rest, sizeof(rest))
			     : read(in, w->text + w->len, OUTPUT_MOST - w->len);

	if (n < 0)
		return errno == EINTR;
	if (!n || is_known)
		return n > 0;
	if (*out >= 0 && write(*out, w->text + w->len, (size_t)n) < 0)
		return false;
	w->len += (size_t)n;
	w->text[w->len] = '\0';
	w->port = port_in(w->text);
	if (w->port && *out >= 0) {
		close(*out);
		*out = -1;
	}
	return true;
}

static void hear_last(int in, struct words *w, int *out)
{
	struct pollfd p = { .fd = in, .events = POLLIN };

	for (int i = 0; i < READS_MOST && poll(&p, 1, 0) > 0 && hear_some(in, w, out); i++)
		;
}

/* Hears kubectl until it has ended. What it had started may live on, and have the port: that is ended. Returns the port. */
static long hear_kubectl(int in, int *out)
{
	struct words w = { .len = 0 };
	struct pollfd p[2] = { { .fd = in, .events = POLLIN },
			       { .fd = pidfd_open(kubectl, 0), .events = POLLIN } };

	while (p[0].fd >= 0 || p[1].fd >= 0) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			break;
		if (p[1].revents) {
			hear_last(in, &w, out);
			break;
		}
		if (p[0].revents && !hear_some(in, &w, out))
			p[0].fd = -1;
	}
	close(in);
	if (p[1].fd >= 0)
		close(p[1].fd);
	kill(-kubectl, SIGKILL);
	while (waitpid(kubectl, NULL, 0) < 0 && errno == EINTR)
		;
	kubectl = 0;
	return w.port;
}

/* A terminal's Ctrl-C is for the parent, which ends the keeper when it needs it no more. */
static void keep(const char *space, const char *pod, int out)
{
	struct target t = { .space = space, .pod = pod };
	sigset_t none;
	int in;

	setpgid(0, 0);
	signal(SIGTERM, on_end);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_IGN);
	while ((in = start_kubectl(&t)) >= 0) {
		long port = hear_kubectl(in, &out);

		if (!port && !t.port)
			break;
		if (port)
			dprintf(2,
				"kubectl port-forward ended: %s went, or the link broke; "
				"trying again\n",
				pod);
		t.port = t.port ? t.port : port;
		now_sleep_until_mono(now_mono_ns() + AGAIN_NS);
	}
	_exit(1);
}

/* ---- here ---- */

/* Its last line: kubectl logs each attempt before it says what is wrong. */
static const char *last_line(char *text)
{
	size_t len = strlen(text);
	char *begin;

	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	begin = strrchr(text, '\n');
	return begin ? begin + 1 : text;
}

/* Reads up to the line that names the port, and adds its URL. */
static int await_port(int in, struct forward *f, struct err *e)
{
	char text[OUTPUT_MOST + 1] = "", clean[256];
	const char *last;
	size_t len = 0, had = strlen(f->url);
	ssize_t n;

	while (len < OUTPUT_MOST && (n = read(in, text + len, OUTPUT_MOST - len)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		len += (size_t)n;
		text[len] = '\0';
		if (port_in(text)) {
			snprintf(f->url + had, sizeof(f->url) - had, "%shttp://127.0.0.1:%ld",
				 had ? "," : "", port_in(text));
			return 0;
		}
	}
	last = last_line(text);
	clean_sentence(clean, sizeof(clean), last, strlen(last));
	return err_set(e, ERR_PEER, "kubectl port-forward: %s", *clean ? clean : "it ended");
}

static void end_keeper(pid_t pid)
{
	kill(pid, SIGTERM);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int begin_one(struct forward *f, const char *server, const char *end, struct err *e)
{
	char *space = NULL, *pod = NULL;
	int ends[2], rc;
	pid_t pid;

	if (f->n == FORWARDS_MOST)
		return err_set(e, ERR_INVALID, "'%.200s': at most %d servers", server,
			       FORWARDS_MOST);
	rc = parse(server, end, &space, &pod, e);
	if (rc)
		return rc;
	if (pipe2(ends, O_CLOEXEC)) {
		rc = err_errno(e, "making a pipe");
		goto out;
	}
	pid = child_fork(SIGTERM);
	if (!pid)
		keep(space, pod, ends[1]);
	close(ends[1]);
	rc = pid < 0 ? err_errno(e, "starting kubectl") : await_port(ends[0], f, e);
	close(ends[0]);
	if (!rc)
		f->keepers[f->n++] = pid;
	else if (pid > 0)
		end_keeper(pid);
out:
	free(space);
	free(pod);
	return rc;
}

int forward_begin(struct forward *f, const char *server, struct err *e)
{
	const char *at = server, *end;
	int rc, failed = 0;
	struct err why;

	*f = (struct forward){ 0 };
	do {
		end = at + strcspn(at, ",");
		rc = begin_one(f, at, end, &why);
		if (rc && (!failed || rc == ERR_INVALID)) {
			failed = rc;
			*e = why;
		}
		at = end + 1;
	} while (*end && rc != ERR_INVALID);
	if (f->n && failed != ERR_INVALID)
		return 0;
	forward_end(f);
	return failed;
}

void forward_end(struct forward *f)
{
	while (f->n)
		end_keeper(f->keepers[--f->n]);
}
