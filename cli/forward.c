/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/forward.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clean_text.h"
#include "base/mem.h"

#define SCHEME	    "k8s://"
#define HTTP_PORT   "7400"
#define NAME_CHARS  "abcdefghijklmnopqrstuvwxyz0123456789.-"
#define OUTPUT_MOST 2000

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

/* In the child. A terminal's Ctrl-C is for this program, which ends the child when it needs it no more. */
static void become(const char *space, const char *pod, int out, pid_t parent)
{
	const char *const argv[] = { "kubectl", "port-forward", "--namespace", space,
				     pod,	":" HTTP_PORT,	NULL };
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(1);
	execvp(argv[0], (char *const *)argv);
	dprintf(2, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

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
	static const char said[] = "Forwarding from 127.0.0.1:";
	char text[OUTPUT_MOST + 1] = "", clean[256];
	const char *last;
	size_t len = 0;
	ssize_t n;

	while (len < OUTPUT_MOST && (n = read(in, text + len, OUTPUT_MOST - len)) != 0) {
		const char *at;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		len += (size_t)n;
		text[len] = '\0';
		at = strstr(text, said);
		if (at && strchr(at, '\n')) {
			size_t had = strlen(f->url);

			snprintf(f->url + had, sizeof(f->url) - had, "%shttp://127.0.0.1:%ld",
				 had ? "," : "", strtol(at + strlen(said), NULL, 10));
			return 0;
		}
	}
	last = last_line(text);
	clean_sentence(clean, sizeof(clean), last, strlen(last));
	return err_set(e, ERR_PEER, "kubectl port-forward: %s", *clean ? clean : "it ended");
}

static void end_one(pid_t pid, int out)
{
	kill(pid, SIGTERM);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(out);
}

static int begin_one(struct forward *f, const char *server, const char *end, struct err *e)
{
	char *space = NULL, *pod = NULL;
	pid_t self = getpid(), pid;
	int ends[2], rc;

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
	pid = fork();
	if (!pid)
		become(space, pod, ends[1], self);
	if (pid < 0)
		rc = err_errno(e, "starting kubectl");
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		goto out;
	}
	rc = await_port(ends[0], f, e);
	if (rc) {
		end_one(pid, ends[0]);
	} else {
		f->kubectl[f->n].pid = pid;
		f->kubectl[f->n++].out = ends[0];
	}
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
	while (f->n) {
		f->n--;
		end_one(f->kubectl[f->n].pid, f->kubectl[f->n].out);
	}
}
