/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "json/json_text.h"

#define FILE_BYTES_MAX (1 << 20)

/* ---- reading ---- */

/* `*is_there` is false if there is none. */
static int check_file(const char *path, bool *is_there, struct err *e)
{
	struct stat st;

	*is_there = !lstat(path, &st);
	if (!*is_there)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(e, "opening %s", path);
	if (S_ISLNK(st.st_mode))
		return err_set(e, ERR_DENIED, "%s is a link: a file of yours has to be there",
			       path);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IRWXG | S_IRWXO))
		return err_set(e, ERR_DENIED,
			       "%s can be opened by others, and decides where tokens go: chmod 600 "
			       "%s",
			       path, path);
	return 0;
}

int private_file_load(json_t **out, const char *path, struct err *e)
{
	struct buf text = BUF_INIT;
	bool is_there;
	int rc = check_file(path, &is_there, e);

	*out = NULL;
	if (rc || !is_there)
		return rc;
	rc = file_load(path, FILE_BYTES_MAX, &text, e);
	if (!rc)
		rc = json_parse(out, text.data, text.len, e);
	if (rc)
		err_prefix(e, "%s", path);
	if (text.data)
		explicit_bzero(text.data, text.len);
	buf_release(&text);
	return rc;
}

/* ---- writing ---- */

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

int private_file_store(const json_t *doc, const char *path, struct err *e)
{
	char *temporary = xasprintf("%s.%d", path, (int)getpid());
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
	explicit_bzero(text.data, text.len);
	buf_release(&text);
	free(temporary);
	return rc;
}

int private_file_lock(const char *path, int *fd, struct err *e)
{
	int rc = make_folder(path, e);

	*fd = -1;
	if (rc)
		return rc;
	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*fd < 0)
		return err_errno(e, "opening %s", path);
	while (flock(*fd, LOCK_EX)) {
		if (errno != EINTR) {
			rc = err_errno(e, "locking %s", path);
			close(*fd);
			*fd = -1;
			return rc;
		}
	}
	return 0;
}
