/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symbols/symbols.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/clean_text.h"
#include "agent/symbols/debug_file.h"
#include "agent/symbols/elf_symbols.h"
#include "agent/proc/far_file.h"
#include "agent/symbols/kallsyms.h"
#include "agent/symbols/name_pool.h"
#include "agent/symbols/perf_map.h"
#include "agent/proc/status.h"
#include "base/file.h"
#include "base/mem.h"

#define NAME_BYTES	 1000 /* mangled C++ names have no limit */
#define NAMES_BYTES_MAX	 (32U << 20) /* with more names, all are dropped and a new epoch begins */
#define KNOWN_IMAGES_MAX 512 /* files and processes remembered between jobs */
#define OPEN_MAX	 64 /* files open at once during a job */
#define INDEX_BYTES_MAX	 (64U << 20) /* all indexes together, between jobs */
/* During a job, of all and of the processes of one user: beyond it functions have no names. Any process can bring files with
 * millions of names. */
#define JOB_BYTES_MAX	   (144U << 20)
#define JOB_OF_USER_MAX	   (96U << 20)
#define FILE_BYTES_MAX	   ((uint64_t)8 << 30)
#define PERF_MAP_READ_MAX  (64U << 20) /* bytes of a process's map in a job */
#define PERF_MAP_CHUNK	   (1U << 20)
#define KALLSYMS_BYTES_MAX (64U << 20)

/* What has been read of an image: of a file, or of a process with code made at run time. */
struct known_image {
	struct image image; /* owns its path */
	uint32_t uid; /* of the process through which it became known */
	uint64_t used; /* the job that used it last */
	struct far_file file; /* of a file, during a job */
	struct stat st; /* what was indexed */
	bool indexed;
	/* the last process through which the file could not be opened; 0 = none */
	uint32_t failed_pid;
	struct elf_symbols elf;
	struct debug_file debug; /* the debug file of a stripped file */
	uint64_t maps_read, perf_map_read; /* the job that read it last; 0 = never */
	bool has_maps;
	struct proc_maps maps;
	struct perf_map jit;
};

struct symbols {
	atomic_bool stopped;
	struct far_files *files;
	struct err denied; /* the last denied access; code 0, "": none was denied */
	struct name_pool names;
	uint32_t epoch;
	uint64_t job;
	struct known_image **known;
	size_t n, cap, n_open;
	bool has_kernel, is_kernel_hidden, has_vdso;
	struct kallsyms kernel;
	struct elf_source vdso_source;
	struct elf_symbols vdso;
};

struct symbols *symbols_new(const struct file_keeper *keeper)
{
	struct symbols *sy = xcalloc(1, sizeof(*sy));

	sy->files = far_files_new(keeper);
	sy->epoch = 1;
	return sy;
}

static void close_file(struct symbols *sy, struct known_image *m)
{
	if (m->file.fd < 0)
		return;
	far_file_close(&m->file);
	sy->n_open--;
}

static void close_known_image(struct symbols *sy, struct known_image *m)
{
	debug_file_close(&m->debug);
	close_file(sy, m);
}

static void drop_known_image(struct symbols *sy, size_t i)
{
	struct known_image *m = sy->known[i];

	close_known_image(sy, m);
	elf_symbols_release(&m->elf);
	debug_file_release(&m->debug);
	proc_maps_release(&m->maps);
	perf_map_release(&m->jit);
	free(m->image.path);
	free(m);
	sy->known[i] = sy->known[--sy->n];
}

void symbols_free(struct symbols *sy)
{
	if (!sy)
		return;
	while (sy->n)
		drop_known_image(sy, sy->n - 1);
	free(sy->known);
	name_pool_release(&sy->names);
	kallsyms_release(&sy->kernel);
	elf_symbols_release(&sy->vdso);
	far_files_free(sy->files);
	free(sy);
}

void symbols_stop(struct symbols *sy)
{
	atomic_store(&sy->stopped, true);
	far_files_stop(sy->files);
}

/* Files that hung may be read again: all names are asked for once more. */
static void try_again(struct symbols *sy)
{
	for (size_t i = 0; i < sy->n; i++)
		sy->known[i]->failed_pid = 0;
	sy->epoch++;
}

void symbols_begin(struct symbols *sy)
{
	sy->job++;
	if (far_files_begin(sy->files))
		try_again(sy);
	if (sy->names.text.len <= NAMES_BYTES_MAX)
		return;
	name_pool_release(&sy->names);
	for (size_t i = 0; i < sy->n; i++) {
		elf_symbols_clear_numbers(&sy->known[i]->elf);
		elf_symbols_clear_numbers(&sy->known[i]->debug.elf);
	}
	sy->epoch++;
}

uint32_t symbols_epoch(const struct symbols *sy)
{
	return sy->epoch;
}

const char *symbols_text(const struct symbols *sy, uint32_t name)
{
	return name_pool_get(&sy->names, name);
}

/* ---- known images ---- */

static size_t least_used(const struct symbols *sy)
{
	size_t least = 0;

	for (size_t i = 1; i < sy->n; i++)
		if (sy->known[i]->used < sy->known[least]->used)
			least = i;
	return least;
}

static size_t known_image_bytes(const struct known_image *m)
{
	return elf_symbols_bytes(&m->elf) + debug_file_bytes(&m->debug) + perf_map_bytes(&m->jit) +
	       proc_maps_bytes(&m->maps);
}

/* How many bytes more the image may have. */
static size_t room_for(const struct symbols *sy, const struct known_image *m)
{
	size_t all = 0, of_user = 0, left, left_of_user;

	for (size_t i = 0; i < sy->n; i++) {
		size_t bytes = known_image_bytes(sy->known[i]);

		all += bytes;
		of_user += sy->known[i]->uid == m->uid ? bytes : 0;
	}
	left = all < JOB_BYTES_MAX ? JOB_BYTES_MAX - all : 0;
	left_of_user = of_user < JOB_OF_USER_MAX ? JOB_OF_USER_MAX - of_user : 0;
	return left < left_of_user ? left : left_of_user;
}

void symbols_end(struct symbols *sy)
{
	size_t bytes = 0;

	for (size_t i = 0; i < sy->n; i++) {
		close_known_image(sy, sy->known[i]);
		proc_maps_release(&sy->known[i]->maps); /* each job reads them */
		bytes += known_image_bytes(sy->known[i]);
	}
	while (sy->n && (bytes > INDEX_BYTES_MAX || sy->n > KNOWN_IMAGES_MAX)) {
		size_t i = least_used(sy);

		bytes -= known_image_bytes(sy->known[i]);
		drop_known_image(sy, i);
	}
}

static bool holds_image(const struct known_image *m, const struct image *image)
{
	if (m->image.kind != image->kind)
		return false;
	if (image->kind == IMAGE_KIND_PROCESS)
		return m->image.serial == image->serial;
	return m->image.inode == image->inode && m->image.major == image->major &&
	       m->image.minor == image->minor && !strcmp(m->image.path, image->path);
}

/* Whose process it is; a number that no user has if it has ended. */
static uint32_t user_of(uint32_t pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	return stat(path, &st) ? UINT32_MAX : st.st_uid;
}

static struct known_image *known_image_of(struct symbols *sy, const struct image *image)
{
	struct known_image *m;

	for (size_t i = 0; i < sy->n; i++) {
		m = sy->known[i];
		if (!holds_image(m, image))
			continue;
		m->used = sy->job;
		m->image.pid = image->pid;
		return m;
	}
	if (sy->n == sy->cap) {
		sy->cap = sy->cap ? 2 * sy->cap : 64;
		sy->known = xrealloc(sy->known, sy->cap * sizeof(struct known_image *));
	}
	m = xcalloc(1, sizeof(*m));
	m->image = *image;
	m->image.path = image->path ? xstrdup(image->path) : NULL;
	m->uid = user_of(image->pid);
	m->used = sy->job;
	m->file = FAR_FILE_CLOSED;
	m->debug.file = FAR_FILE_CLOSED;
	sy->known[sy->n++] = m;
	return m;
}

/* ---- files ---- */

int symbols_missing(const struct symbols *sy, struct err *e)
{
	if (*far_files_hung(sy->files))
		return err_set(e, ERR_TIMEOUT, "%s", far_files_hung(sy->files));
	if (!sy->denied.code && sy->is_kernel_hidden)
		return err_set(e, ERR_DENIED,
			       "/proc/kallsyms hides the kernel's addresses: grant CAP_SYSLOG, "
			       "with kernel.kptr_restrict 0 or 1");
	*e = sy->denied;
	return e->code;
}

static void note_denied(struct symbols *sy, int rc, const struct err *e)
{
	if (rc == ERR_DENIED)
		sy->denied = *e;
}

/* Files of a device hang together. */
static struct far_place place_of(const struct known_image *m)
{
	return (struct far_place){
		.major = m->image.major, .minor = m->image.minor, .pid = m->image.pid, .uid = m->uid
	};
}

static int open_mapped(struct symbols *sy, const struct known_image *m, struct far_file *out,
		       struct stat *st)
{
	const struct far_place place = place_of(m);
	struct err e;
	int rc = far_open_mapped(sy->files, &place, m->image.path, m->image.inode, out, st, &e);

	note_denied(sy, rc, &e);
	if (!rc && (st->st_size < 0 || (uint64_t)st->st_size > FILE_BYTES_MAX)) {
		far_file_close(out);
		rc = ERR_LIMIT;
	}
	return rc;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void close_all(struct symbols *sy)
{
	for (size_t i = 0; i < sy->n; i++)
		close_known_image(sy, sy->known[i]);
}

/* True if the image's file is open, and is the one that was indexed. */
static bool open_known_image(struct symbols *sy, struct known_image *m)
{
	struct far_file file;
	struct stat st;

	if (far_file_is_open(&m->file))
		return true;
	close_file(sy, m); /* its reader was given up */
	if (sy->n_open == OPEN_MAX)
		close_all(sy);
	if (open_mapped(sy, m, &file, &st))
		return false;
	if (m->indexed && !same_file(&st, &m->st)) {
		far_file_close(&file);
		return false;
	}
	m->file = file;
	m->st = st;
	sy->n_open++;
	return true;
}

/* Tried once for each process that maps the file. */
static bool index_known_image(struct symbols *sy, struct known_image *m)
{
	struct elf_source src = { .read = far_file_read, .arg = &m->file };
	const struct far_place own = { .pid = m->image.pid, .uid = m->uid };

	if (m->indexed || m->failed_pid == m->image.pid)
		return m->indexed;
	if (!room_for(sy, m) || !open_known_image(sy, m)) {
		m->failed_pid = m->image.pid;
		return false;
	}
	m->indexed = true;
	src.size = (uint64_t)m->st.st_size;
	if (elf_symbols_load(&m->elf, &src, NULL))
		m->elf = (struct elf_symbols){ 0 };
	else if (!m->elf.has_symtab)
		debug_file_find(&m->debug, sy->files, &own, m->image.path, &src);
	if (far_file_is_open(&m->file))
		return true;
	/* What was read of a file that hung is not all of it. */
	m->indexed = false;
	elf_symbols_release(&m->elf);
	debug_file_release(&m->debug);
	return false;
}

/* The number of the name of the function at the address; NULL if its file has none. A file is opened only
 * for functions that are seen for the first time. */
static uint32_t *function_number(struct known_image *m, uint64_t address)
{
	uint32_t *number = elf_symbols_number(&m->debug.elf, address);

	return number ? number : elf_symbols_number(&m->elf, address);
}

/* False if there is no function at the address, or none with a name. */
static bool read_function_name(struct symbols *sy, struct known_image *m, uint64_t address,
			       char *out, size_t size)
{
	struct elf_source src = { .read = far_file_read, .arg = &m->file };

	if (!debug_file_name(&m->debug, address, out, size))
		return true;
	if (!open_known_image(sy, m))
		return false;
	src.size = (uint64_t)m->st.st_size;
	return !elf_symbols_name(&m->elf, &src, address, out, size, NULL);
}

static uint32_t add_name(struct symbols *sy, const char *raw)
{
	char name[NAME_BYTES];

	clean_text(name, sizeof(name), raw, strlen(raw));
	return name_pool_add(&sy->names, name);
}

static uint32_t file_name(struct symbols *sy, const struct image *image, uint64_t offset)
{
	const char *slash = strrchr(image->path, '/'), *base = slash ? slash + 1 : image->path;
	struct known_image *m = known_image_of(sy, image);
	uint32_t *number = NULL, name;
	char raw[NAME_BYTES];
	uint64_t address;
	bool found = index_known_image(sy, m) && elf_symbols_address(&m->elf, offset, &address);

	if (found)
		number = function_number(m, address);
	if (number && *number)
		return *number;
	found = found && read_function_name(sy, m, address, raw, sizeof(raw));
	if (!found)
		snprintf(raw, sizeof(raw), "[%.200s+0x%" PRIx64 "]", base, offset);
	name = add_name(sy, raw);
	if (found && number)
		*number = name;
	return name;
}

/* ---- kernel ---- */

static uint32_t kernel_name(struct symbols *sy, uint64_t address)
{
	char raw[NAME_BYTES];
	const char *name;

	if (!sy->has_kernel) {
		struct buf text = BUF_INIT;

		if (!file_load("/proc/kallsyms", KALLSYMS_BYTES_MAX, &text, NULL)) {
			kallsyms_parse(&sy->kernel, buf_str(&text));
			sy->is_kernel_hidden = text.len && !sy->kernel.n;
		}
		buf_release(&text);
		sy->has_kernel = true;
	}
	name = kallsyms_find(&sy->kernel, address);
	if (!name)
		return add_name(sy, "[kernel]");
	snprintf(raw, sizeof(raw), "[k] %s", name);
	return add_name(sy, raw);
}

/* ---- vdso: the same bytes in every process, so the agent's own are used ---- */

static int read_vdso(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	(void)e;
	memcpy(out, (const uint8_t *)arg + offset, len);
	return 0;
}

static void load_vdso(struct symbols *sy)
{
	void *start = (void *)getauxval(AT_SYSINFO_EHDR);
	struct proc_maps maps;
	const struct proc_map *map;

	sy->has_vdso = true;
	sy->vdso_source = (struct elf_source){ .read = read_vdso, .arg = start };
	if (!start || proc_maps_read(&maps, (uint32_t)getpid(), NULL))
		return;
	map = proc_maps_find(&maps, (uint64_t)(uintptr_t)start);
	if (map && map->start == (uint64_t)(uintptr_t)start)
		sy->vdso_source.size = map->end - map->start;
	proc_maps_release(&maps);
	if (elf_symbols_load(&sy->vdso, &sy->vdso_source, NULL))
		sy->vdso = (struct elf_symbols){ 0 };
}

static uint32_t vdso_name(struct symbols *sy, uint64_t offset)
{
	char raw[NAME_BYTES];
	uint64_t address;

	if (!sy->has_vdso)
		load_vdso(sy);
	if (!elf_symbols_address(&sy->vdso, offset, &address) ||
	    elf_symbols_name(&sy->vdso, &sy->vdso_source, address, raw, sizeof(raw), NULL))
		return add_name(sy, "[vdso]");
	return add_name(sy, raw);
}

/* ---- processes ---- */

static const struct proc_maps *maps_of(struct symbols *sy, struct known_image *m)
{
	struct err e;
	int rc;

	if (m->maps_read != sy->job) {
		proc_maps_release(&m->maps);
		rc = room_for(sy, m) ? proc_maps_read(&m->maps, m->image.pid, &e) : ERR_LIMIT;
		note_denied(sy, rc, &e);
		m->has_maps = !rc;
		m->maps_read = sy->job;
	}
	return m->has_maps ? &m->maps : NULL;
}

const struct proc_maps *symbols_maps(struct symbols *sy, const struct image *image)
{
	return atomic_load(&sy->stopped) ? NULL : maps_of(sy, known_image_of(sy, image));
}

/* Opens the process's map only if it is a file of the process's user: in /tmp other users could write false
 * names, or link to files that they must not read. */
static int open_perf_map(struct symbols *sy, const struct known_image *m, struct far_file *out,
			 struct stat *st)
{
	const struct far_place place = { .pid = m->image.pid, .uid = m->uid };
	struct proc_status status;
	char path[48];
	int rc;

	if (!proc_status_of(place.pid, &status))
		return ERR_NOT_FOUND;
	snprintf(path, sizeof(path), "/tmp/perf-%" PRId32 ".map", status.inner_id);
	rc = far_open(sy->files, &place, path, out, st, NULL);
	if (rc || st->st_uid == status.uid)
		return rc;
	far_file_close(out);
	return ERR_DENIED;
}

/* Reads from where the last call ended. A line that is longer than a chunk is no name: nothing after it is read. */
static void append_perf_map(struct symbols *sy, struct known_image *m, struct far_file *file)
{
	size_t max_bytes = perf_map_bytes(&m->jit) + room_for(sy, m), left = PERF_MAP_READ_MAX;
	char *text = xmalloc(PERF_MAP_CHUNK);
	ssize_t n;

	while (left &&
	       (n = far_file_read_up_to(file, m->jit.parsed, text, PERF_MAP_CHUNK, NULL)) > 0) {
		size_t taken = perf_map_parse(&m->jit, text, (size_t)n, max_bytes);

		if (!taken)
			break;
		left -= taken < left ? taken : left;
	}
	free(text);
}

/* Parses what the compiler appended since the last call, or all of another file. */
static void read_perf_map(struct symbols *sy, struct known_image *m)
{
	struct far_file file;
	struct stat st;

	if (m->perf_map_read == sy->job)
		return;
	m->perf_map_read = sy->job;
	if (open_perf_map(sy, m, &file, &st))
		return;
	if ((uint64_t)st.st_size < m->jit.parsed)
		perf_map_release(&m->jit);
	append_perf_map(sy, m, &file);
	far_file_close(&file);
}

static uint32_t process_name(struct symbols *sy, const struct image *image, uint64_t address)
{
	struct known_image *m = known_image_of(sy, image);
	const struct proc_maps *maps = maps_of(sy, m);
	const struct proc_map *map = maps ? proc_maps_find(maps, address) : NULL;
	const char *name;

	if (map && map_kind_of(map->path) == MAP_KIND_VDSO) {
		return vdso_name(sy, address - map->start);
	} else if (map && map_kind_of(map->path) == MAP_KIND_FILE) {
		struct image file = { .kind = IMAGE_KIND_FILE,
				      .pid = image->pid,
				      .path = map->path,
				      .major = map->major,
				      .minor = map->minor,
				      .inode = map->inode };

		return file_name(sy, &file, address - map->start + map->offset);
	}
	read_perf_map(sy, m);
	name = perf_map_find(&m->jit, address);
	return add_name(sy, name ? name : map ? "[jit]" : "[unknown]");
}

uint32_t symbols_resolve(struct symbols *sy, const struct image *image, uint64_t offset)
{
	switch (atomic_load_explicit(&sy->stopped, memory_order_relaxed) ? IMAGE_KIND_UNKNOWN
									 : image->kind) {
	case IMAGE_KIND_KERNEL:
		return kernel_name(sy, offset);
	case IMAGE_KIND_VDSO:
		return vdso_name(sy, offset);
	case IMAGE_KIND_FILE:
		return file_name(sy, image, offset);
	case IMAGE_KIND_PROCESS:
		return process_name(sy, image, offset);
	case IMAGE_KIND_UNKNOWN:
		break;
	}
	return add_name(sy, "[unknown]");
}

uint32_t symbols_group(struct symbols *sy, uint32_t name)
{
	const char *text = symbols_text(sy, name), *plus = strrchr(text, '+');
	char group[NAME_BYTES];

	if (text[0] != '[' || !plus || strncmp(plus, "+0x", 3) || text[strlen(text) - 1] != ']')
		return name;
	snprintf(group, sizeof(group), "%.*s]", (int)(plus - text), text);
	return name_pool_add(&sy->names, group);
}
