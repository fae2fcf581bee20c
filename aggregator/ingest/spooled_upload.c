/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/ingest/spooled_upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"

#define SUFFIX	      ".part"
#define READ_BYTES    (1 << 20)
#define SMALL_BYTES   LIMIT_CHUNK_BYTES /* an upload up to this size can arrive in one chunk */
#define RESERVE_BYTES (16 << 20) /* bytes of the disk that are reserved at once */

/* Reads the bytes that an earlier upload left and computes their checksum. Their number alone proves nothing:
 * after a power failure a file may have its length, but zeros in it. */
static int read_received(struct spooled_upload *p, struct err *e)
{
	uint8_t *data = xmalloc(READ_BYTES);
	ssize_t n;

	while ((n = file_read_up_to(p->fd, p->received, data, READ_BYTES)) > 0) {
		p->crc32_received = (uint32_t)crc32_z(p->crc32_received, data, (size_t)n);
		p->received += (uint64_t)n;
	}
	free(data);
	return n < 0 ? err_errno(e, "reading the spool") : 0;
}

/* A file that is too long is damaged: begins again. */
static int use_existing(struct spooled_upload *p, struct err *e)
{
	int rc = read_received(p, e);

	if (rc || p->received <= p->bytes)
		return rc;
	if (ftruncate(p->fd, 0))
		return err_errno(e, "shortening a file of the spool");
	p->received = 0;
	p->crc32_received = 0;
	return 0;
}

static int no_space(uint64_t bytes, struct err *e)
{
	return err_set(e, ERR_FULL, "the aggregator's spool has no space for %" PRIu64 " bytes",
		       bytes);
}

/* Finds out that the disk is too full before the agent sends. Reserves nothing, since a peer may announce any
 * length. */
static int check_space(const struct spooled_upload *p, struct err *e)
{
	uint64_t rest = p->bytes - p->received;
	struct statvfs fs;

	if (fstatvfs(p->fd, &fs) || rest / fs.f_frsize < fs.f_bavail)
		return 0;
	return rest ? no_space(rest, e) : 0;
}

/* Reserves space for `len` bytes, and for some that will follow. On a file system that cannot reserve space, a
 * write fails later. */
static int reserve_space(struct spooled_upload *p, size_t len, struct err *e)
{
	uint64_t rest = p->bytes - p->received;
	uint64_t ahead = len > RESERVE_BYTES ? len : RESERVE_BYTES;

	if (p->received + len <= p->reserved)
		return 0;
	ahead = ahead < rest ? ahead : rest;
	if (fallocate(p->fd, FALLOC_FL_KEEP_SIZE, (off_t)p->received, (off_t)ahead) &&
	    (errno == ENOSPC || errno == EDQUOT))
		return no_space(rest, e);
	p->reserved = p->received + ahead;
	return 0;
}

/* Opens the file that an earlier upload left, if anything. */
static bool open_existing(struct spooled_upload *p)
{
	if (p->path)
		p->fd = open(p->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return p->fd >= 0;
}

static int open_file(struct spooled_upload *p, struct err *e)
{
	int rc = 0;

	if (p->fd < 0)
		p->fd = p->path ? open(p->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)
				: file_open_nameless(p->spool);
	if (p->fd < 0)
		rc = err_errno(e, "opening a file in the spool %s", p->spool);
	if (!rc)
		rc = use_existing(p, e);
	if (!rc)
		rc = check_space(p, e);
	if (rc) {
		spooled_upload_drop(p);
		spooled_upload_close(p);
	}
	return rc;
}

int spooled_upload_open(struct spooled_upload *p, const struct spooled_upload_id *id, struct err *e)
{
	*p = (struct spooled_upload){
		.fd = -1,
		.spool = id->spool,
		.bytes = id->bytes,
		.crc32 = id->crc32,
	};
	if (id->resume)
		p->path = xasprintf("%s/%s.%s.%" PRIu64 ".%08" PRIx32 SUFFIX, id->spool,
				    id->session, id->host, id->bytes, id->crc32);
	/* Most uploads are small and arrive in one chunk: they need no file. */
	if (id->bytes && id->bytes <= SMALL_BYTES && !open_existing(p))
		return 0;
	return open_file(p, e);
}

static void keep_in_memory(struct spooled_upload *p, const void *data, size_t len,
			   uint32_t crc32_data)
{
	p->memory = xmalloc(len);
	memcpy(p->memory, data, len);
	p->crc32_received = crc32_data;
	p->received = len;
}

int spooled_upload_prepare(const char *spool, struct err *e)
{
	const struct spooled_upload_id trial = { .spool = spool };
	struct spooled_upload upload;
	int rc = file_make_folders(spool, 0750, 0700, e);

	if (!rc)
		rc = spooled_upload_open(&upload, &trial, e);
	if (!rc)
		spooled_upload_close(&upload);
	return rc;
}

int spooled_upload_write(struct spooled_upload *p, const void *data, size_t len,
			 uint32_t crc32_data, struct err *e)
{
	int rc;

	if (p->fd < 0 && len == p->bytes) {
		keep_in_memory(p, data, len, crc32_data);
		return 0;
	}
	rc = p->fd < 0 ? open_file(p, e) : 0;
	if (!rc)
		rc = reserve_space(p, len, e);
	if (!rc)
		rc = file_write_at(p->fd, p->received, data, len, "the aggregator's spool", e);
	if (rc)
		return rc;
	p->crc32_received = (uint32_t)crc32_combine(p->crc32_received, crc32_data, (z_off_t)len);
	p->received += len;
	return 0;
}

int spooled_upload_check(const struct spooled_upload *p, struct err *e)
{
	if (p->received != p->bytes)
		return err_set(e, ERR_PEER, "the call ended before all bytes had arrived");
	if (p->path && p->crc32_received != p->crc32)
		return err_set(e, ERR_PEER, "the checksum of the whole file is wrong");
	return 0;
}

void spooled_upload_drop(struct spooled_upload *p)
{
	if (p->path && p->fd >= 0 && unlink(p->path) && errno != ENOENT)
		log_warn("AGG-SPOOL", "path=%s reason=\"%s\"", p->path, strerror(errno));
}

void spooled_upload_close(struct spooled_upload *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p->path);
	free(p->memory);
	p->fd = -1;
	p->path = NULL;
	p->memory = NULL;
}

/* ---- sweeping ---- */

static bool is_old(int dir_fd, const char *name, int64_t age_ns)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	return now_real_ns() - st.st_mtim.tv_sec * NS_PER_S > age_ns;
}

static bool is_spooled_upload(const char *name)
{
	size_t len = strlen(name);

	return len > strlen(SUFFIX) && !strcmp(name + len - strlen(SUFFIX), SUFFIX);
}

static bool is_of(const char *name, const char *session)
{
	size_t len = strlen(session);

	return !strncmp(name, session, len) && name[len] == '.';
}

void spooled_upload_sweep(const char *spool, const char *session, int64_t age_ns)
{
	DIR *dir = opendir(spool);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (is_spooled_upload(name) &&
		    (session ? is_of(name, session) : is_old(dirfd(dir), name, age_ns)))
			unlinkat(dirfd(dir), name, 0);
	}
	if (dir)
		closedir(dir);
}
