/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/pytorch/hook.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum hook_state hook_get_state(const char *dir, int32_t inner_pid, uint32_t uid)
{
	enum hook_state state = HOOK_NONE;
	struct stat st;
	char *path;

	if (!dir || !*dir)
		return HOOK_NONE;
	path = xasprintf("%s/hook-%" PRId32, dir, inner_pid);
	if (!lstat(path, &st) && S_ISREG(st.st_mode) && st.st_uid == uid)
		state = st.st_size ? HOOK_READY : HOOK_LOADING;
	free(path);
	return state;
}

int hook_set_piece(const char *dir, int32_t inner_pid, int64_t seconds, struct err *e)
{
	char *path = xasprintf("%s/piece-%" PRId32, dir, inner_pid), text[32];
	int len = snprintf(text, sizeof(text), "%" PRId64, seconds), fd, rc;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	rc = fd < 0 ? err_errno(e, "making %s", path)
		    : file_write_all(fd, text, (size_t)len, path, e);
	if (fd >= 0)
		close(fd);
	free(path);
	return rc;
}

void hook_drop_piece(const char *dir, int32_t inner_pid)
{
	char *path = xasprintf("%s/piece-%" PRId32, dir, inner_pid);

	unlink(path);
	free(path);
}
