/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inspect_command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/cmd.h"

/* Those that ask a program to end. */
static const int stop_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

#define CHILDREN_BYTES (1 << 20)

/* ---- before the start ---- */

static int is_program(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return errno;
	if (!S_ISREG(st.st_mode))
		return EACCES;
	return access(path, X_OK) ? errno : 0;
}

/* As execvp() looks for it: 0, or the most telling errno. */
static int look_in_path(const char *name)
{
	const char *dirs = getenv("PATH");
	int why = ENOENT;

	if (!*name)
		return ENOENT;
	if (strchr(name, '/'))
		return is_program(name);
	if (!dirs)
		dirs = "/bin:/usr/bin";
	for (const char *at = dirs;; at++) {
		size_t len = strcspn(at, ":");
		char *path = xasprintf("%.*s%s%s", (int)len, at, len ? "/" : "", name);
		int error = is_program(path);

		free(path);
		if (!error)
			return 0;
		if (error != ENOENT && error != ENOTDIR)
			why = error;
		at += len;
		if (!*at)
			return why;
	}
}

static int refuse(const struct command *c, int error, struct err *e)
{
	err_set(e, ERR_INVALID, "%s: %s", c->argv[0], strerror(error));
	return error == ENOENT || error == ENOTDIR ? EXIT_NO_COMMAND : EXIT_CANNOT_RUN;
}

int command_check(const struct command *c, struct err *e)
{
	int error = look_in_path(c->argv[0]);

	return error ? refuse(c, error, e) : 0;
}

static sigset_t held_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(stop_signals); i++)
		sigaddset(&set, stop_signals[i]);
	return set;
}

void command_hold_signals(void)
{
	sigset_t set = held_signals();

	sigprocmask(SIG_BLOCK, &set, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int command_pending_signal(void)
{
	sigset_t pending;

	sigpending(&pending);
	for (size_t i = 0; i < ARRAY_SIZE(stop_signals); i++) {
		if (sigismember(&pending, stop_signals[i]))
			return stop_signals[i];
	}
	return 0;
}

/* A value that the user has set stays, with a message. */
static void set_unless_set(const char *name, const char *value)
{
	const char *own = getenv(name);

	if (own && strcmp(own, value) != 0)
		fprintf(stderr, "tutti inspect: %s is set already, and stays as it is\n", name);
	else
		setenv(name, value, 1);
}

static void set_nvtx(const struct daemons *d)
{
	char *path = xasprintf("%s/libtutti_nvtx.so", d->programs);

	if (access(path, R_OK))
		fprintf(stderr, "tutti inspect: NVTX is not recorded: there is no %s\n", path);
	else
		set_unless_set("NVTX_INJECTION64_PATH", path);
	free(path);
}

/* PyTorch asks every second then, not every five. */
static void set_kineto(const struct daemons *d)
{
	char *path = xasprintf("%s/kineto.conf", d->folder.path);
	FILE *f = fopen(path, "we");

	if (f) {
		fputs("ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n", f);
		fclose(f);
		set_unless_set("KINETO_CONFIG", path);
	}
	set_unless_set("KINETO_USE_DAEMON", "1");
	setenv("KINETO_IPC_SOCKET_DIR", d->folder.path, 1);
	free(path);
}

/* Python programs get a hook, so that PyTorch's last records are not lost (inject/python/sitecustomize.py). */
static void set_python_path(const struct daemons *d)
{
	char *folder = xasprintf("%s/tutti-hook", d->programs);
	const char *own = getenv("PYTHONPATH");
	char *path = xasprintf("%s%s%s", folder, own && *own ? ":" : "", own ? own : "");

	if (access(folder, R_OK | X_OK))
		fprintf(stderr,
			"tutti inspect: PyTorch is recorded in pieces, and not to the end: there "
			"is "
			"no %s\n",
			folder);
	else
		setenv("PYTHONPATH", path, 1);
	free(path);
	free(folder);
}

void command_set_environment(const struct daemons *d)
{
	set_python_path(d);
	setenv("TUTTI_ANNOTATIONS_SOCKET", d->annotations_socket, 1);
	setenv("TUTTI_LOCAL_SOCKET", d->local_socket, 1);
	set_nvtx(d);
	set_kineto(d);
}

/* ---- the start ---- */

/* In the child: on failure the errno goes through the pipe, which a success closes. */
static void become(const struct command *c, int pipe_fd)
{
	sigset_t set = held_signals();
	int error;

	sigprocmask(SIG_UNBLOCK, &set, NULL);
	execvp(c->argv[0], c->argv);
	error = errno;
	(void)!write(pipe_fd, &error, sizeof(error));
	_exit(127);
}

int command_start(struct command *c, struct err *e)
{
	int fds[2], error = 0;
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC)) {
		err_errno(e, "making a pipe");
		return EXIT_INSPECT;
	}
	c->pid = fork();
	if (!c->pid)
		become(c, fds[1]);
	close(fds[1]);
	n = c->pid < 0 ? -1 : read(fds[0], &error, sizeof(error));
	close(fds[0]);
	if (c->pid < 0) {
		c->pid = 0;
		err_errno(e, "starting %s", c->argv[0]);
		return EXIT_INSPECT;
	}
	if (n != (ssize_t)sizeof(error))
		return 0;
	waitpid(c->pid, NULL, 0);
	c->pid = 0;
	return refuse(c, error, e);
}

/* ---- until the end ---- */

/* All that have ended. True: the command is among them. */
static bool reap(struct command *c, struct daemons *d, const char **daemon)
{
	const char *name;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		name = daemons_forget(d, pid);
		if (name)
			*daemon = name;
		if (pid == c->pid) {
			c->status = status;
			c->pid = 0;
		}
	}
	return !c->pid;
}

/* A terminal sends its signals to the command, too; what a process sent is for the command. */
static void pass_on(const struct command *c, const siginfo_t *info)
{
	if (info->si_signo != SIGCHLD && info->si_code != SI_KERNEL)
		kill(c->pid, info->si_signo);
}

const char *command_wait(struct command *c, struct daemons *d)
{
	const char *daemon = NULL;
	sigset_t set = held_signals();
	siginfo_t info;

	while (!reap(c, d, &daemon)) {
		if (sigwaitinfo(&set, &info) > 0)
			pass_on(c, &info);
	}
	return daemon;
}

/* ---- after the end ---- */

/* For the handler. */
static pid_t aggregator_to_end;
static pid_t agent_to_end;
static volatile sig_atomic_t signals_seen;

static void on_signal(int signo)
{
	static const char text[] = "tutti inspect: the session is being finished; with another "
				   "signal the recording is lost\n";
	int saved = errno;

	(void)signo;
	if (!signals_seen)
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	/* The aggregator first, and at once: it would commit what the agent's end leaves as a failed session. */
	if (signals_seen && aggregator_to_end > 0)
		kill(aggregator_to_end, SIGKILL);
	if (signals_seen && agent_to_end > 0)
		kill(agent_to_end, SIGTERM);
	signals_seen = 1;
	errno = saved;
}

void command_let_signals_end(const struct daemons *d)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	sigset_t set = held_signals();

	aggregator_to_end = d->aggregator;
	agent_to_end = d->agent;
	sigdelset(&set, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(stop_signals); i++)
		sigaction(stop_signals[i], &action, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int command_exit_code(const struct command *c)
{
	return WIFSIGNALED(c->status) ? EXIT_SIGNAL + WTERMSIG(c->status) : WEXITSTATUS(c->status);
}

int command_count_left(const struct daemons *d)
{
	struct buf text = BUF_INIT;
	const char *at;
	char path[64];
	char *end;
	int left = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	if (file_load(path, CHILDREN_BYTES, &text, NULL)) { /* a kernel without this file */
		buf_release(&text);
		return 0;
	}
	for (at = buf_str(&text);; at = end) {
		long pid = strtol(at, &end, 10);

		if (end == at)
			break;
		left += pid != d->agent && pid != d->aggregator;
	}
	buf_release(&text);
	return left;
}
