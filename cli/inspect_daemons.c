/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect_daemons.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"

/* All tracers except "profiler", since a profiler server must be told beforehand how long to record, and
 * "logs" and "watch", which record nothing without flags of their own. */
#define TRACERS "annotations,budget,cgroups,cpu,marks,metrics,nvml,python,pytorch,sched"

#define START_NS  (30 * NS_PER_S) /* longest time until a daemon is ready */
#define END_NS	  (15 * NS_PER_S) /* and to end */
#define LOOK_NS	  (20 * NS_PER_MS)
#define LOG_BYTES (1 << 20)

extern char **environ;

/* ---- folders ---- */

/* The folder of this program's file. */
static int find_programs(char **out, struct err *e)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < 0)
		return err_errno(e, "finding this program's folder");
	path[n] = '\0';
	*strrchr(path, '/') = '\0';
	*out = xstrdup(path);
	return 0;
}

/* ---- processes ---- */

/* Settings of the user's own daemons are not for these. */
static char **make_environment(void)
{
	size_t n = 0, kept = 0;
	char **env;

	while (environ[n])
		n++;
	env = xcalloc(n + 1, sizeof(*env));
	for (size_t i = 0; i < n; i++) {
		if (strncmp(environ[i], "TUTTI_", 6) != 0)
			env[kept++] = environ[i];
	}
	return env;
}

/* In the child. A session of its own: what a terminal sends to the command does not reach it. */
static void become(const char *path, const char *const *argv, char *const *env, int log)
{
	sigset_t none;
	int null = open("/dev/null", O_RDONLY);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
		_exit(1);
	execve(path, (char *const *)argv, env);
	dprintf(2, "%s: %s\n", path, strerror(errno));
	_exit(127);
}

static char *log_of(const struct daemons *d, const char *name)
{
	return xasprintf("%s/%s.log", d->folder.path, name);
}

/* argv[0] is the program's name; ends with NULL. */
static int start(const struct daemons *d, const char *const *argv, pid_t *pid, struct err *e)
{
	char *path = xasprintf("%s/%s", d->programs, argv[0]), *log_path = log_of(d, argv[0]);
	char **env = make_environment();
	int log = -1, rc = 0;

	if (access(path, X_OK))
		rc = err_errno(e, "%s, which belongs beside this program", path);
	if (!rc)
		log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (!rc && log < 0)
		rc = err_errno(e, "making %s", log_path);
	if (!rc) {
		*pid = child_fork(SIGTERM);
		if (!*pid)
			become(path, argv, env, log);
		if (*pid < 0) {
			*pid = 0;
			rc = err_errno(e, "starting %s", path);
		}
	}
	if (log >= 0)
		close(log);
	free(env);
	free(log_path);
	free(path);
	return rc;
}

/* The last line of a log, which it cuts the line feed of. */
static const char *last_line(struct buf *log)
{
	const char *at;

	while (log->len && log->data[log->len - 1] == '\n')
		buf_cut(log, log->len - 1);
	at = strrchr(buf_str(log), '\n');
	return at ? at + 1 : buf_str(log);
}

/* Waits for a line of its log. */
static int wait_for_line(const struct daemons *d, const char *name, pid_t *pid, const char *id,
			 struct buf *log, struct err *e)
{
	int64_t until_ns = now_mono_ns() + START_NS;
	char *path = log_of(d, name);
	int rc;

	for (;;) {
		buf_reset(log);
		rc = file_load(path, LOG_BYTES, log, e);
		if (rc || strstr(buf_str(log), id))
			break;
		if (waitpid(*pid, NULL, WNOHANG) == *pid) {
			*pid = 0;
			buf_reset(log);
			rc = file_load(path, LOG_BYTES, log, e);
			if (!rc)
				rc = err_set(e, ERR_CLOSED,
					     "%s ended at its start: %.300s; its log is %s", name,
					     last_line(log), path);
			break;
		}
		if (now_mono_ns() > until_ns) {
			rc = err_set(e, ERR_TIMEOUT, "%s is not ready; its log is %s", name, path);
			break;
		}
		now_sleep_until_mono(now_mono_ns() + LOOK_NS);
	}
	free(path);
	return rc;
}

/* ---- the two ---- */

static int number_after(const struct buf *text, const char *name)
{
	const char *at = strstr(buf_str(text), name);

	return at ? (int)strtol(at + strlen(name), NULL, 10) : 0;
}

static int start_aggregator(struct daemons *d, const char *store, int *grpc_port, struct err *e)
{
	char *url = xasprintf("file://%s", store),
	     *spool = xasprintf("%s/aggregator", d->folder.path);
	const char *argv[] = {
		"tutti-aggregator", "--store",	   url,	     "--spool",	    spool,
		"--http",	    "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--probe",
		"127.0.0.1:0",	    "--lead",	   "50ms",   NULL
	};
	struct buf log = BUF_INIT;
	int rc = start(d, argv, &d->aggregator, e);

	if (!rc)
		rc = wait_for_line(d, argv[0], &d->aggregator, "AGG-UP", &log, e);
	if (!rc) {
		*grpc_port = number_after(&log, " grpc_port=");
		d->server = xasprintf("http://127.0.0.1:%d", number_after(&log, " http_port="));
	}
	buf_release(&log);
	free(spool);
	free(url);
	return rc;
}

static int start_agent(struct daemons *d, int grpc_port, struct err *e)
{
	char *aggregator = xasprintf("127.0.0.1:%d", grpc_port);
	char *spool = xasprintf("%s/agent", d->folder.path);
	const char *argv[] = { "tutti-agent",
			       "--aggregator",
			       aggregator,
			       "--spool",
			       spool,
			       "--local-socket",
			       d->local_socket,
			       "--tracers",
			       TRACERS,
			       "--annotations-socket",
			       d->annotations_socket,
			       "--annotations-look",
			       "200ms",
			       "--pytorch-socket=",
			       "--pytorch-dir",
			       d->folder.path,
			       "--pytorch-poll",
			       "1s",
			       NULL };
	struct buf log = BUF_INIT;
	int rc = start(d, argv, &d->agent, e);

	if (!rc)
		rc = wait_for_line(d, argv[0], &d->agent, "AGT-UP", &log, e);
	buf_release(&log);
	free(spool);
	free(aggregator);
	return rc;
}

int daemons_start(struct daemons *d, const char *store, struct err *e)
{
	int grpc_port = 0, rc = find_programs(&d->programs, e);

	if (!rc)
		rc = inspect_folder_make(&d->folder, e);
	if (rc)
		return rc;
	d->local_socket = xasprintf("ipc://%s/agent.ipc", d->folder.path);
	d->annotations_socket = xasprintf("%s/annotations", d->folder.path);
	rc = start_aggregator(d, store, &grpc_port, e);
	if (!rc)
		rc = start_agent(d, grpc_port, e);
	return rc;
}

const char *daemons_forget(struct daemons *d, pid_t pid)
{
	if (pid == d->agent) {
		d->agent = 0;
		return "tutti-agent";
	}
	if (pid == d->aggregator) {
		d->aggregator = 0;
		return "tutti-aggregator";
	}
	return NULL;
}

/* False if it did not end as it should. */
static bool end(const struct daemons *d, const char *name, pid_t pid)
{
	int64_t until_ns = now_mono_ns() + END_NS;
	int status = 0;

	if (!pid)
		return true;
	kill(pid, SIGTERM);
	while (!waitpid(pid, &status, WNOHANG)) {
		if (now_mono_ns() > until_ns)
			kill(pid, SIGKILL);
		now_sleep_until_mono(now_mono_ns() + LOOK_NS);
	}
	if (status)
		fprintf(stderr,
			"tutti inspect: %s did not end as it should; its log is %s/%s.log\n", name,
			d->folder.path, name);
	return !status;
}

void daemons_end(struct daemons *d, bool keep_logs)
{
	keep_logs |= !end(d, "tutti-agent", d->agent);
	keep_logs |= !end(d, "tutti-aggregator", d->aggregator);
	if (keep_logs)
		inspect_folder_keep(&d->folder);
	else
		inspect_folder_remove(&d->folder);
	free(d->programs);
	free(d->server);
	free(d->local_socket);
	free(d->annotations_socket);
	*d = (struct daemons){ 0 };
}
