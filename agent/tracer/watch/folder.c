/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/watch/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/names.h"
#include "xspace/xspace.h"

#define SUFFIX ".xplane.pb"
/* of a name in a problem; what is longer ends with "..." */
#define SHOWN_PATH 100
#define SHOWN_RUN  80

/* A file that is young. */
struct candidate {
	char run[LIMIT_RUN_NAME + 1];
	char file[NAME_MAX + 1];
	dev_t dev;
	ino_t ino;
	off_t size;
	int64_t changed_ns; /* mtime */
	uint64_t seen; /* number of the last look that found the file */
	bool is_read; /* this version of the file has been read */
};

struct watch_folder {
	const char *path;
	int64_t since_real_ns;
	uint64_t looks;
	struct candidate *files;
	size_t n;
	char problem[256]; /* of the last look */
	int error;
};

struct watch_folder *watch_folder_new(const char *path, int64_t since_real_ns)
{
	struct watch_folder *f = xcalloc(1, sizeof(*f));

	f->path = path;
	f->since_real_ns = since_real_ns;
	return f;
}

void watch_folder_free(struct watch_folder *f)
{
	if (f)
		free(f->files);
	free(f);
}

const char *watch_folder_problem(const struct watch_folder *f)
{
	return f->problem;
}

int watch_folder_error(const struct watch_folder *f)
{
	return f->error;
}

static const char *mark_cut(const char *name, size_t shown)
{
	return strlen(name) > shown ? "..." : "";
}

/* The first one stays. What is not there is no problem; `run` is "" for the folder of the runs. */
static void note_error(struct watch_folder *f, const char *run, int error)
{
	if (f->error || error == ENOENT)
		return;
	f->error = error;
	snprintf(f->problem, sizeof(f->problem), "%.*s%s/plugins/profile%s%.*s%s: %s", SHOWN_PATH,
		 f->path, mark_cut(f->path, SHOWN_PATH), *run ? "/" : "", SHOWN_RUN, run,
		 mark_cut(run, SHOWN_RUN),
		 error == EACCES ? "permission denied: grant CAP_DAC_READ_SEARCH"
				 : strerror(error));
}

/* ---- opening, without following links below the folder ---- */

static int open_folder_at(int at, const char *name, int more)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK | more);
}

/* FOLDER/plugins/profile; -1 and errno: there is none, or it cannot be opened. */
static int open_runs(const char *path)
{
	int folder = open_folder_at(AT_FDCWD, path, 0);
	int plugins = folder < 0 ? -1 : open_folder_at(folder, "plugins", O_NOFOLLOW);
	int runs = plugins < 0 ? -1 : open_folder_at(plugins, "profile", O_NOFOLLOW);
	int error = errno;

	if (folder >= 0)
		close(folder);
	if (plugins >= 0)
		close(plugins);
	errno = error;
	return runs;
}

/* A file with two names may be a hard link to another user's file, which the link's maker cannot read but the
 * agent can. */
static bool is_plain(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_nlink == 1 && st->st_size > 0 &&
	       st->st_size <= LIMIT_XSPACE_FILE_BYTES;
}

/* -1 and errno: it cannot be opened; ENOENT: it is no such file, or no plain one. */
static int open_plain(int run, const char *name, struct stat *st)
{
	int fd = openat(run, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || (!fstat(fd, st) && is_plain(st)))
		return fd;
	close(fd);
	errno = ENOENT;
	return -1;
}

static int64_t changed_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec;
}

/* ---- reading a profile ---- */

static int read_fd(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	return file_read_exact(*(int *)arg, offset, buf, len, "the profile", e);
}

/* When it was recorded; ERR_INVALID if it is no XSpace or does not say it. */
static int read_times(int fd, uint64_t bytes, int64_t *from_ns, int64_t *to_ns, struct err *e)
{
	const struct xs_source source = { .read = read_fd, .arg = &fd, .size = bytes };
	struct xs_summary sum;
	int rc = xs_summarize(&source, &sum, e);

	if (rc)
		return rc;
	if (!sum.profile_start_ns || sum.profile_start_ns > LIMIT_TIME_NS)
		return err_set(e, ERR_INVALID, "it does not say when it began");
	*from_ns = (int64_t)sum.profile_start_ns;
	*to_ns = (int64_t)sum.profile_stop_ns;
	if (sum.profile_stop_ns > LIMIT_TIME_NS || *to_ns <= *from_ns)
		*to_ns = *from_ns + (sum.last_ns > 0 ? sum.last_ns : 1);
	if (*to_ns - *from_ns > LIMIT_DURATION_NS)
		return err_set(e, ERR_INVALID, "it is longer than an hour");
	return 0;
}

static void read_candidate(struct watch_folder *f, int run, const struct candidate *c, watch_fn fn,
			   void *arg)
{
	struct watch_profile p = { .folder = f->path, .bytes = (uint64_t)c->size };
	struct stat st;
	struct err e;
	int fd = open_plain(run, c->file, &st), rc;

	if (fd < 0)
		return;
	memcpy(p.run, c->run, sizeof(p.run));
	memcpy(p.file, c->file, sizeof(p.file));
	rc = read_times(fd, p.bytes, &p.from_real_ns, &p.to_real_ns, &e);
	close(fd);
	if (rc)
		log_info("AGT-WATCH", "run=%s file=%s state=left-out reason=\"%s\"", p.run, p.file,
			 e.msg);
	else
		fn(arg, &p);
}

/* ---- looking ---- */

static struct candidate *find_candidate(struct watch_folder *f, const char *run, const char *file)
{
	for (size_t i = 0; i < f->n; i++) {
		if (!strcmp(f->files[i].run, run) && !strcmp(f->files[i].file, file))
			return &f->files[i];
	}
	return NULL;
}

/* NULL: there are too many, or a name is too long. */
static struct candidate *add_candidate(struct watch_folder *f, const char *run, const char *file)
{
	size_t run_len = strlen(run), file_len = strlen(file);
	struct candidate *c;

	if (f->n == WATCH_FILES_MAX || run_len >= sizeof(c->run) || file_len >= sizeof(c->file))
		return NULL;
	f->files = xrealloc(f->files, (f->n + 1) * sizeof(*f->files));
	c = &f->files[f->n++];
	*c = (struct candidate){ .size = -1 };
	memcpy(c->run, run, run_len);
	memcpy(c->file, file, file_len);
	return c;
}

static bool is_young(const struct watch_folder *f, const struct stat *st, int64_t now_ns)
{
	int64_t at_ns = changed_ns(st);

	return at_ns >= f->since_real_ns && at_ns > now_ns - WATCH_YOUNG_NS &&
	       at_ns <= now_ns + NS_PER_S;
}

/* True: it is as it was in the look before, and has not been read since. */
static bool has_settled(struct candidate *c, const struct stat *st)
{
	bool same = c->dev == st->st_dev && c->ino == st->st_ino && c->size == st->st_size &&
		    c->changed_ns == changed_ns(st);

	if (same && !c->is_read) {
		c->is_read = true;
		return true;
	}
	if (!same) {
		c->dev = st->st_dev;
		c->ino = st->st_ino;
		c->size = st->st_size;
		c->changed_ns = changed_ns(st);
		c->is_read = false;
	}
	return false;
}

static bool is_profile_name(const char *name)
{
	size_t len = strlen(name);

	return *name != '.' && len > strlen(SUFFIX) && !strcmp(name + len - strlen(SUFFIX), SUFFIX);
}

struct looking {
	struct watch_folder *f;
	int64_t now_ns;
	watch_fn fn;
	void *arg;
};

static void look_at_file(const struct looking *l, int run, const char *run_name, const char *file)
{
	struct candidate *c;
	struct stat st;

	if (!is_profile_name(file) || fstatat(run, file, &st, AT_SYMLINK_NOFOLLOW) ||
	    !is_plain(&st) || !is_young(l->f, &st, l->now_ns))
		return;
	c = find_candidate(l->f, run_name, file);
	if (!c)
		c = add_candidate(l->f, run_name, file);
	if (!c)
		return;
	c->seen = l->f->looks;
	if (faccessat(run, file, R_OK, AT_EACCESS) && errno == EACCES) {
		note_error(l->f, run_name, errno);
		return;
	}
	if (has_settled(c, &st))
		read_candidate(l->f, run, c, l->fn, l->arg);
}

/* Calls `look` with each name in the folder; takes `fd`. */
static void each_name(int fd,
		      void (*look)(const struct looking *l, int fd, const char *above,
				   const char *name),
		      const struct looking *l, const char *above)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		close(fd);
		return;
	}
	for (size_t n = 0; n < WATCH_RUNS_MAX && (entry = readdir(dir)); n++)
		look(l, dirfd(dir), above, entry->d_name);
	closedir(dir);
}

static void look_at_run(const struct looking *l, int runs, const char *above, const char *name)
{
	struct stat st;
	int fd;

	(void)above;
	/* The name must be a single path component. A new file updates the folder's mtime, but later writes
	 * to it do not: so twice WATCH_YOUNG_NS. */
	if (name_check_run(name, NULL) || fstatat(runs, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISDIR(st.st_mode) || changed_ns(&st) < l->now_ns - 2 * WATCH_YOUNG_NS)
		return;
	fd = open_folder_at(runs, name, O_NOFOLLOW);
	if (fd >= 0)
		each_name(fd, look_at_file, l, name);
	else
		note_error(l->f, name, errno);
}

static void forget_unseen(struct watch_folder *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (f->files[i].seen == f->looks)
			f->files[kept++] = f->files[i];
	}
	f->n = kept;
}

void watch_folder_look(struct watch_folder *f, int64_t now_real_ns, watch_fn fn, void *arg)
{
	const struct looking l = { .f = f, .now_ns = now_real_ns, .fn = fn, .arg = arg };
	int fd;

	f->looks++;
	f->error = 0;
	*f->problem = '\0';
	fd = open_runs(f->path);
	if (fd >= 0)
		each_name(fd, look_at_run, &l, "");
	else
		note_error(f, "", errno);
	forget_unseen(f);
}

/* ---- copying ---- */

static int check_copy(const struct watch_profile *p, int fd, struct err *e)
{
	int64_t from_ns, to_ns;
	int rc = read_times(fd, p->bytes, &from_ns, &to_ns, e);

	if (!rc && from_ns != p->from_real_ns)
		rc = err_set(e, ERR_INVALID, "it is another profile by now");
	return rc;
}

int watch_profile_copy(const struct watch_profile *p, const char *to, struct err *e)
{
	int runs = open_runs(p->folder), run = -1, from = -1, fd = -1, rc;
	struct stat st;

	if (runs >= 0)
		run = open_folder_at(runs, p->run, O_NOFOLLOW);
	if (run >= 0)
		from = open_plain(run, p->file, &st);
	if (from < 0 || (uint64_t)st.st_size != p->bytes) {
		rc = err_set(e, ERR_INVALID, "it was removed or changed");
		goto out;
	}
	fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	rc = fd < 0 ? err_errno(e, "making %s", to)
		    : file_copy(from, fd, p->bytes, "the profile", e);
	if (!rc)
		rc = check_copy(p, fd, e);
	if (rc && fd >= 0)
		unlink(to);
out:
	if (fd >= 0)
		close(fd);
	if (from >= 0)
		close(from);
	if (run >= 0)
		close(run);
	if (runs >= 0)
		close(runs);
	return rc;
}
