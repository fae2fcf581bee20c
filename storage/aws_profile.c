/* SPDX-License-Identifier: Apache-2.0 */
/* A profile of AWS's own files: keys, or a command that prints some. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "storage/aws_source.h"

#define FILE_MAX    ((size_t)1 << 20)
#define OUTPUT_MAX  ((size_t)64 << 10)
#define VALUE_MAX   4096
#define SECTION_MAX 300
#define BLANKS	    " \t\r"

extern char **environ;

/* ---- the files ---- */

/* The file that the variable names, or the one below ~/.aws; freed by the caller. */
static char *path_of(const char *variable, const char *name)
{
	const char *path = keys_setting(variable), *home = keys_setting("HOME");

	return path ? xstrdup(path) : xasprintf("%s/.aws/%s", home ? home : "", name);
}

static bool is_section(const char *line, size_t len, const char *section)
{
	return len == strlen(section) + 2 && line[0] == '[' && line[len - 1] == ']' &&
	       !memcmp(line + 1, section, len - 2);
}

/* "key = value", without blanks around either. */
static bool take_value(const char *line, size_t len, const char *key, char *out, size_t size)
{
	const char *eq = memchr(line, '=', len);
	size_t key_len = eq ? (size_t)(eq - line) : 0;

	while (key_len && strchr(BLANKS, line[key_len - 1]))
		key_len--;
	if (!eq || key_len != strlen(key) || memcmp(line, key, key_len))
		return false;
	len -= (size_t)(eq + 1 - line);
	for (eq++; len && strchr(BLANKS, *eq); eq++)
		len--;
	if (!len || len >= size)
		return false;
	memcpy(out, eq, len);
	out[len] = '\0';
	return true;
}

/* Lines that begin with a blank are nested settings of another one. `found` is set if the section is there. */
static bool find_value(const char *text, const char *section, const char *key, char *out,
		       size_t size, bool *found)
{
	bool inside = false;

	for (size_t len; *text; text += len + (text[len] == '\n')) {
		size_t used = len = strcspn(text, "\n");

		while (used && strchr(BLANKS, text[used - 1]))
			used--;
		if (!used || strchr("#; \t", *text))
			continue;
		if (*text == '[')
			inside = is_section(text, used, section);
		else if (inside && take_value(text, used, key, out, size))
			return true;
		*found |= inside;
	}
	return false;
}

struct profile {
	char section[SECTION_MAX]; /* its name in the file of settings */
	const char *name;
	struct buf keys, settings; /* the two files; empty if missing */
	bool found;
};

static void load(const char *variable, const char *name, struct buf *out)
{
	char *path = path_of(variable, name);

	if (file_load(path, FILE_MAX, out, NULL))
		buf_reset(out); /* a file that cannot be read has no profile */
	free(path);
}

static void profile_load(struct profile *p, const char *name)
{
	*p = (struct profile){ .name = name };
	snprintf(p->section, sizeof(p->section), "%s%s", strcmp(name, "default") ? "profile " : "",
		 name);
	load("AWS_SHARED_CREDENTIALS_FILE", "credentials", &p->keys);
	load("AWS_CONFIG_FILE", "config", &p->settings);
}

static void profile_release(struct profile *p)
{
	if (p->keys.data)
		explicit_bzero(p->keys.data, p->keys.len);
	if (p->settings.data)
		explicit_bzero(p->settings.data, p->settings.len);
	buf_release(&p->keys);
	buf_release(&p->settings);
}

static bool profile_get(struct profile *p, const char *key, char *out, size_t size)
{
	return find_value(buf_str(&p->keys), p->name, key, out, size, &p->found) ||
	       find_value(buf_str(&p->settings), p->section, key, out, size, &p->found);
}

bool aws_profile_region(const char *name, char *out, size_t size)
{
	struct profile p;
	bool found;

	profile_load(&p, name);
	found = profile_get(&p, "region", out, size);
	profile_release(&p);
	return found;
}

/* ---- credential_process ---- */

/* Reads to the end of the output, or to the deadline. */
static int read_output(int fd, char *out, size_t *len, struct err *e)
{
	int64_t deadline = now_mono_ns() + KEYS_PATIENCE_S * NS_PER_S;

	for (*len = 0;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left_ms = (deadline - now_mono_ns()) / NS_PER_MS;
		ssize_t n;

		if (left_ms <= 0 || *len == OUTPUT_MAX)
			return err_set(e, left_ms > 0 ? ERR_LIMIT : ERR_TIMEOUT,
				       "credential_process: more than %zu bytes, or no end in %d s",
				       OUTPUT_MAX, KEYS_PATIENCE_S);
		if (poll(&p, 1, (int)left_ms) <= 0)
			continue;
		n = read(fd, out + *len, OUTPUT_MAX - *len);
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_errno(e, "credential_process");
		*len += n > 0 ? (size_t)n : 0;
	}
}

/* Its standard output is the pipe; a process group of its own, so that all of it can be ended. */
static int spawn(const char *command, int out_fd, pid_t *pid, struct err *e)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)command, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int rc;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	rc = posix_spawn(pid, "/bin/sh", &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	errno = rc;
	return rc ? err_errno(e, "credential_process") : 0;
}

static int run(const char *command, char *out, size_t *len, struct err *e)
{
	int pipes[2], status = 0, rc;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return err_errno(e, "credential_process");
	rc = spawn(command, pipes[1], &pid, e);
	close(pipes[1]);
	if (!rc) {
		rc = read_output(pipes[0], out, len, e);
		if (rc)
			kill(-pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
	}
	close(pipes[0]);
	if (!rc && status)
		rc = err_set(e, ERR_DENIED, "credential_process failed (status %d)",
			     WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return rc;
}

static int take_output(struct cloud_keys *out, const char *command, struct err *e)
{
	char *text = xmalloc(OUTPUT_MAX);
	size_t len = 0;
	int rc = run(command, text, &len, e);

	if (!rc) {
		rc = aws_take_json(out, text, len, "SessionToken", e);
		if (rc)
			err_prefix(e, "credential_process");
	}
	explicit_bzero(text, OUTPUT_MAX);
	free(text);
	return rc;
}

/* ---- the source ---- */

static int take_profile(struct profile *p, char value[VALUE_MAX], struct cloud_keys *out,
			struct err *e)
{
	int rc = 0;

	if (profile_get(p, "aws_access_key_id", value, VALUE_MAX)) {
		rc = keys_take(out->id, sizeof(out->id), value, "aws_access_key_id", e);
		if (!rc && !profile_get(p, "aws_secret_access_key", value, VALUE_MAX))
			rc = err_set(e, ERR_INVALID, "it has no aws_secret_access_key");
		if (!rc)
			rc = keys_take(out->secret, sizeof(out->secret), value,
				       "aws_secret_access_key", e);
		if (!rc && profile_get(p, "aws_session_token", value, VALUE_MAX))
			rc = keys_take(out->token, sizeof(out->token), value, "aws_session_token",
				       e);
		return rc;
	}
	if (profile_get(p, "credential_process", value, VALUE_MAX))
		return take_output(out, value, e);
	if (profile_get(p, "role_arn", value, VALUE_MAX) ||
	    profile_get(p, "sso_start_url", value, VALUE_MAX) ||
	    profile_get(p, "sso_session", value, VALUE_MAX))
		return err_set(
			e, ERR_UNSUPPORTED,
			"roles and SSO in profiles are not supported: add credential_process = "
			"aws configure export-credentials --profile %s",
			p->name);
	if (!p->found && strcmp(p->name, "default"))
		return err_set(e, ERR_INVALID, "there is no such profile");
	return ERR_NOT_FOUND;
}

int aws_from_profile(const struct keys_env *env, struct cloud_keys *out, struct err *e)
{
	char value[VALUE_MAX];
	struct profile p;
	int rc;

	profile_load(&p, env->profile);
	rc = take_profile(&p, value, out, e);
	if (rc && rc != ERR_NOT_FOUND)
		err_prefix(e, "\"%.60s\"", env->profile);
	explicit_bzero(value, sizeof(value));
	profile_release(&p);
	return rc;
}
