/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over the tree of a file:// store: the listing, and the sweep of temporary files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "storage/folder.h"
#include "storage/kinds.h"

/* The entries of one folder. The name of a folder among them ends with '/', so that it sorts like the keys
 * below it. */
struct names {
	char **items;
	size_t n;
	size_t cap;
};

static void names_add(struct names *names, char *take)
{
	if (names->n == names->cap) {
		names->cap = names->cap ? 2 * names->cap : 64;
		names->items = xrealloc(names->items, names->cap * sizeof(*names->items));
	}
	names->items[names->n++] = take;
}

static void names_release(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->items[i]);
	free(names->items);
}

static int names_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* DT_DIR, DT_REG, DT_LNK or a type to ignore; reads the inode where the folder has no type. */
static unsigned char entry_type(int folder, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	if (fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
		return DT_UNKNOWN;
	return (unsigned char)IFTODT(st.st_mode);
}

struct listing {
	const struct store_list *request;
	bool stopped;
	char key[STORE_KEY_MAX + 1]; /* of the folder being listed, with its '/' */
	size_t len;
};

/* Whether l->key + name may be a key of the listing, or a folder of such keys. */
static bool may_contain_listed_key(struct listing *l, const char *name)
{
	size_t len = l->len + strlen(name);
	size_t prefix_len = strlen(l->request->prefix);

	if (len > STORE_KEY_MAX)
		return false;
	memcpy(l->key + l->len, name, len - l->len + 1);
	if (l->key[len - 1] != '/')
		return store_listed(l->key, l->request->prefix, l->request->after);
	return !strncmp(l->key, l->request->prefix, len < prefix_len ? len : prefix_len) &&
	       (!l->request->after || strncmp(l->key, l->request->after, len) >= 0);
}

/* A link in the place of a key or its folder is an error, so that the objects behind it do not look missing. */
static int read_name(struct listing *l, int folder, const struct dirent *entry, struct names *names,
		     struct err *e)
{
	unsigned char type = entry_type(folder, entry);
	char *name = xasprintf("%s%s", entry->d_name, type == DT_DIR ? "/" : "");
	bool is_wanted = may_contain_listed_key(l, name);
	int rc = 0;

	if (is_wanted && type == DT_LNK)
		rc = err_set(e, ERR_INVALID, "\"%.120s\" is a link", l->key);
	if (is_wanted && (type == DT_DIR || type == DT_REG))
		names_add(names, name);
	else
		free(name);
	return rc;
}

static int read_names(struct listing *l, DIR *dir, struct names *names, struct err *e)
{
	struct dirent *entry;

	while ((errno = 0, entry = readdir(dir))) {
		int rc = 0;

		if (store_part_is_valid(entry->d_name, strlen(entry->d_name)))
			rc = read_name(l, dirfd(dir), entry, names, e);
		if (rc)
			return rc;
	}
	if (errno)
		return err_errno(e, "read folder \"%.*s\"", (int)(l->len < 80 ? l->len : 80),
				 l->key);
	if (names->n > 1)
		sort_array(names->items, names->n, sizeof(*names->items), names_order);
	return 0;
}

static int list_folder(struct listing *l, int take_fd, struct err *e);

/* Skips an entry that vanished since its folder was read. */
static int list_subfolder(struct listing *l, int folder, const char *name, struct err *e)
{
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		return list_folder(l, fd, e);
	return errno == ENOENT ? 0 : err_errno(e, "open folder \"%.80s\"", l->key);
}

static int list_entry(struct listing *l, int folder, char *name, struct err *e)
{
	size_t outer = l->len;
	size_t len = strlen(name);
	struct store_stat st;
	int rc = 0;

	memcpy(l->key + outer, name, len + 1);
	if (name[len - 1] == '/') {
		l->len += len;
		name[len - 1] = '\0'; /* "link/" would follow a link despite O_NOFOLLOW */
		rc = list_subfolder(l, folder, name, e);
		l->len = outer;
	} else if (!folder_stat(folder, name, &st)) {
		*st.tag = '\0';
		l->stopped = !l->request->each(l->request->arg, l->key, &st);
	}
	return rc;
}

static int list_folder(struct listing *l, int take_fd, struct err *e)
{
	struct names names = { 0 };
	DIR *dir = fdopendir(take_fd);
	int rc;

	if (!dir) {
		rc = err_errno(e, "fdopendir");
		close(take_fd);
		return rc;
	}
	rc = store_check_deadline(l->request->deadline_mono_ns, e);
	if (!rc)
		rc = read_names(l, dir, &names, e);
	for (size_t i = 0; !rc && !l->stopped && i < names.n; i++)
		rc = list_entry(l, dirfd(dir), names.items[i], e);
	names_release(&names);
	closedir(dir);
	return rc;
}

int folder_list(int root, const struct store_list *list, struct err *e)
{
	struct listing l = { .request = list };
	const char *leaf;
	/* Begins in the folder of the prefix: the folders beside it may be many. */
	int fd = folder_of(root, list->prefix, false, &leaf);

	if (fd < 0 && errno == ELOOP)
		return err_set(e, ERR_INVALID, "one of its folders is a link");
	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(e, "open folder");
	l.len = (size_t)(leaf - list->prefix);
	memcpy(l.key, list->prefix, l.len);
	return list_folder(&l, fd, e);
}

/* A put holds a lock on its file. The lock is kept until the file is removed, so a put that has just made it notices. */
static bool sweep_file(int folder, const char *name, int64_t before_ns)
{
	struct store_stat st;
	bool swept;
	int fd;

	if (strncmp(name, STORE_TEMP_PREFIX, strlen(STORE_TEMP_PREFIX)) != 0 ||
	    folder_stat(folder, name, &st))
		return false;
	/* NFS locks only what is open for writing */
	fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	swept = (st.modified_ns < before_ns || (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))) &&
		!unlinkat(folder, name, 0);
	folder_close(fd);
	return swept;
}

static size_t sweep_folder(int take_fd, int64_t before_ns);

static size_t sweep_entry(int folder, const struct dirent *entry, int64_t before_ns)
{
	unsigned char type = entry_type(folder, entry);
	size_t swept;
	int fd;

	if (type == DT_REG)
		return sweep_file(folder, entry->d_name, before_ns);
	if (type != DT_DIR || !store_part_is_valid(entry->d_name, strlen(entry->d_name)))
		return 0;
	fd = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	swept = fd < 0 ? 0 : sweep_folder(fd, before_ns);
	if (swept > 0)
		unlinkat(folder, entry->d_name,
			 AT_REMOVEDIR); /* fails if it is not empty, as intended */
	return swept;
}

static size_t sweep_folder(int take_fd, int64_t before_ns)
{
	DIR *dir = fdopendir(take_fd);
	struct dirent *entry;
	size_t swept = 0;

	if (!dir) {
		close(take_fd);
		return 0;
	}
	while ((entry = readdir(dir)))
		swept += sweep_entry(dirfd(dir), entry, before_ns);
	closedir(dir);
	return swept;
}

size_t folder_sweep(int root, int64_t before_ns)
{
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? 0 : sweep_folder(fd, before_ns);
}
