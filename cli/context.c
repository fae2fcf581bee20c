/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "json/json_text.h"

#define FILE_BYTES_MAX (1 << 20)
#define NAME_CHARS     "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

static const char *const members[] = { "server", "ca", "cert", "key", "token_file" };
static const char *const variables[] = { "TUTTI_SERVER", "TUTTI_CA", "TUTTI_CERT", "TUTTI_KEY",
					 "TUTTI_TOKEN_FILE" };

static char *file_path(void)
{
	const char *given = getenv("TUTTI_CONTEXTS"), *config = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");

	if (given && *given)
		return xstrdup(given);
	if (config && *config)
		return xasprintf("%s/tutti/contexts.json", config);
	return xasprintf("%s/.config/tutti/contexts.json", home ? home : "");
}

bool context_name_is_good(const char *name)
{
	size_t len = strlen(name);

	return len && len <= 63 && strspn(name, NAME_CHARS) == len;
}

/* ---- the file ---- */

/* `*fd` is -1 if there is none. */
static int open_file(const char *path, int *fd, struct err *e)
{
	struct stat st;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (*fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(e, "opening %s", path);
	if (fstat(*fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    st.st_mode & (S_IRWXG | S_IRWXO)) {
		close(*fd);
		return err_set(e, ERR_DENIED,
			       "%s can be opened by others, and decides where tokens go: chmod 600 "
			       "%s",
			       path, path);
	}
	return 0;
}

static int read_document(json_t **out, const char *path, struct err *e)
{
	struct buf text = BUF_INIT;
	int rc = file_load(path, FILE_BYTES_MAX, &text, e);

	if (!rc)
		rc = json_parse(out, text.data, text.len, e);
	if (!rc && !json_is_object(json_object_get(*out, "contexts"))) {
		json_decref(*out);
		rc = err_set(e, ERR_INVALID, "it has no contexts");
	}
	if (rc)
		err_prefix(e, "%s", path);
	buf_release(&text);
	return rc;
}

int contexts_load(json_t **out, struct err *e)
{
	char *path = file_path();
	int fd, rc = open_file(path, &fd, e);

	if (!rc && fd >= 0) {
		close(fd);
		rc = read_document(out, path, e);
	} else if (!rc) {
		*out = json_object();
		json_put_text(*out, "current", "");
		json_put(*out, "contexts", json_object());
	}
	free(path);
	return rc;
}

static int make_folder(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char *folder;
	int rc;

	if (!slash || slash == path)
		return 0;
	folder = xstrndup(path, (size_t)(slash - path));
	rc = file_make_folders(folder, 0700, 0700, e);
	free(folder);
	return rc;
}

int contexts_store(const json_t *doc, struct err *e)
{
	char *path = file_path(), *temporary = xasprintf("%s.%d", path, (int)getpid());
	struct buf text = BUF_INIT;
	int fd = -1, rc = make_folder(path, e);

	json_append(&text, doc, JSON_INDENT(2));
	buf_add_str(&text, "\n");
	if (!rc) {
		fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			rc = err_errno(e, "making %s", temporary);
	}
	if (!rc)
		rc = file_write_all(fd, text.data, text.len, temporary, e);
	if (fd >= 0 && close(fd) && !rc)
		rc = err_errno(e, "writing %s", temporary);
	if (!rc && rename(temporary, path))
		rc = err_errno(e, "replacing %s", path);
	if (rc && fd >= 0)
		unlink(temporary);
	buf_release(&text);
	free(temporary);
	free(path);
	return rc;
}

/* ---- its use ---- */

static int no_such(const json_t *contexts, const char *name, struct err *e)
{
	struct nearest n = nearest_to(name);
	const char *known;
	json_t *value;

	json_object_foreach((json_t *)contexts, known, value) nearest_try(&n, known);
	if (*n.word)
		return err_set(e, ERR_NOT_FOUND, "there is no context '%.63s': did you mean '%s'?",
			       name, n.word);
	return err_set(e, ERR_NOT_FOUND, "there is no context '%.63s'; see tutti context list",
		       name);
}

int context_apply(const char *name, struct err *e)
{
	const json_t *contexts, *context;
	json_t *doc;
	int rc;

	if (getenv("TUTTI_SERVER") && !name)
		return 0;
	rc = contexts_load(&doc, e);
	if (rc)
		return rc;
	if (!name)
		name = json_get_text(doc, "current");
	contexts = json_object_get(doc, "contexts");
	context = json_object_get(contexts, name);
	if (*name && !context)
		rc = no_such(contexts, name, e);
	for (size_t i = 0; context && i < ARRAY_SIZE(members); i++) {
		const char *value = json_get_text(context, members[i]);

		if (*value)
			setenv(variables[i], value, 1);
		else
			unsetenv(variables[i]);
	}
	json_decref(doc);
	return rc;
}
