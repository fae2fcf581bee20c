/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture/spool_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"
#include "proto/message.h"

#define NAME	  "entry"
#define TEMP_NAME "entry.new"
#define MAX_BYTES (LIMIT_CONTROL_BYTES + 4096)

/* ---- writing ---- */

static int write_temp(int dir, const uint8_t *data, size_t len, struct err *e)
{
	int fd = openat(dir, TEMP_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
			0600);
	int rc;

	if (fd < 0)
		return err_errno(e, "making " TEMP_NAME);
	rc = file_write_all(fd, data, len, TEMP_NAME, e);
	close(fd);
	return rc;
}

static int write_entry(const char *path, const uint8_t *data, size_t len, struct err *e)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc;

	if (dir < 0)
		return err_errno(e, "opening the folder");
	rc = write_temp(dir, data, len, e);
	if (!rc && renameat(dir, TEMP_NAME, dir, NAME))
		rc = err_errno(e, "renaming " TEMP_NAME);
	close(dir);
	return rc;
}

int spool_entry_write(const char *dir, const Tutti__V1__SpoolEntry *entry, struct err *e)
{
	size_t len = tutti__v1__spool_entry__get_packed_size(entry);
	uint8_t *data = xmalloc(len + 1);
	int rc;

	tutti__v1__spool_entry__pack(entry, data);
	rc = write_entry(dir, data, len, e);
	free(data);
	if (rc)
		err_prefix(e, "spool entry in %s", dir);
	return rc;
}

/* ---- reading ---- */

static int read_whole(const char *path, uint8_t *data, size_t *len, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;
	int rc = 0;

	if (fd < 0)
		return err_errno(e, "%s", path);
	n = file_read_up_to(fd, 0, data, MAX_BYTES);
	if (n < 0)
		rc = err_errno(e, "%s", path);
	*len = n < 0 ? 0 : (size_t)n;
	close(fd);
	return rc;
}

static int check_file(const char *path, uint64_t bytes, struct err *e)
{
	struct stat st;

	if (lstat(path, &st))
		return err_errno(e, "%s", path);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes)
		return err_set(e, ERR_INVALID,
			       "%s does not match its spool entry: it is not a regular file of "
			       "%" PRIu64 " bytes",
			       path, bytes);
	return 0;
}

static int check_entry(const char *dir, const char *session, const Tutti__V1__SpoolEntry *entry,
		       struct err *e)
{
	char *path;
	int rc;

	if (strcmp(entry->session, session) || !*entry->file || strchr(entry->file, '/') ||
	    !entry->bytes)
		return err_set(e, ERR_INVALID, "%s/%s is not of this session", dir, NAME);
	if (entry->lease_end_real_ns <= now_real_ns())
		return err_set(e, ERR_CLOSED, "the lease of %s is over", dir);
	path = xasprintf("%s/%s", dir, entry->file);
	rc = check_file(path, entry->bytes, e);
	free(path);
	return rc;
}

int spool_entry_read(const char *dir, const char *session, Tutti__V1__SpoolEntry **entry,
		     struct err *e)
{
	char *path = xasprintf("%s/%s", dir, NAME);
	uint8_t *data = xmalloc(MAX_BYTES);
	Tutti__V1__SpoolEntry *read = NULL;
	ProtobufCMessage *m;
	size_t len = 0;
	int rc = read_whole(path, data, &len, e);

	if (!rc) {
		rc = message_unpack(&m, &tutti__v1__spool_entry__descriptor, MAX_BYTES,
				    LIMIT_CONTROL_FIELDS, data, len, NULL);
		read = (Tutti__V1__SpoolEntry *)m;
		rc = rc ? err_set(e, ERR_INVALID, "%s is malformed", path)
			: check_entry(dir, session, read, e);
	}
	if (rc && read)
		tutti__v1__spool_entry__free_unpacked(read, NULL);
	else if (!rc)
		*entry = read;
	free(data);
	free(path);
	return rc;
}
