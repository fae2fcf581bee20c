/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/interpreter.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/proc/far_file.h"
#include "agent/proc/maps.h"
#include "agent/proc/status.h"
#include "agent/symbols/elf_object.h"
#include "base/mem.h"

#define FILES_KNOWN    32
#define FILE_BYTES_MAX (UINT64_C(4) << 30)

enum { RUNTIME, VERSION, OBJECTS };
static const char *const object_names[OBJECTS] = { "_PyRuntime", "Py_Version" };

/* What was read from a file; addresses are those in the file. */
struct python_file {
	dev_t dev;
	ino_t inode;
	struct timespec modified;
	uint64_t objects[OBJECTS]; /* 0 = the file has none */
};

struct python_files {
	struct python_file v[FILES_KNOWN];
	size_t next; /* the oldest entry, to be replaced next */
	struct far_files *far;
};

struct python_files *python_files_new(const struct file_keeper *keeper)
{
	struct python_files *files = xcalloc(1, sizeof(*files));

	files->far = far_files_new(keeper);
	return files;
}

void python_files_free(struct python_files *files)
{
	if (files)
		far_files_free(files->far);
	free(files);
}

void python_files_begin(struct python_files *files)
{
	(void)far_files_begin(files->far); /* who hung is looked at in each round */
}

void python_files_stop(struct python_files *files)
{
	far_files_stop(files->far);
}

/* ---- files ---- */

static struct python_file *find_file(struct python_files *files, const struct stat *st)
{
	for (size_t i = 0; i < FILES_KNOWN; i++) {
		struct python_file *f = &files->v[i];

		if (f->inode == st->st_ino && f->dev == st->st_dev &&
		    !memcmp(&f->modified, &st->st_mtim, sizeof(f->modified)))
			return f;
	}
	return NULL;
}

static int read_file(struct python_files *files, const struct elf_source *src,
		     const struct stat *st, struct python_file **out, struct err *e)
{
	struct python_file f = { st->st_dev, st->st_ino, st->st_mtim, { 0 } };
	int rc = elf_objects_find(src, object_names, OBJECTS, f.objects, e);

	if (rc)
		return rc;
	*out = &files->v[files->next++ % FILES_KNOWN];
	**out = f;
	return 0;
}

/* Where the objects of the mapped file are in the process. */
static int load_objects(struct python_files *files, uint32_t pid, const struct proc_map *map,
			uint64_t objects[OBJECTS], struct err *e)
{
	struct far_place place = { .major = map->major, .minor = map->minor, .pid = pid };
	struct elf_source src = { .read = far_file_read };
	struct proc_status status;
	struct python_file *f;
	struct far_file file;
	uint64_t loaded;
	struct stat st;
	int rc;

	place.uid = proc_status_of(pid, &status) ? status.uid : UINT32_MAX;
	rc = far_open_mapped(files->far, &place, map->path, map->inode, &file, &st, e);
	if (rc)
		return rc;
	src.arg = &file;
	src.size = (uint64_t)st.st_size;
	f = find_file(files, &st);
	rc = f ? 0 : read_file(files, &src, &st, &f, e);
	if (!rc)
		rc = elf_load_address(&src, map->offset, &loaded, e);
	for (size_t i = 0; !rc && i < OBJECTS; i++)
		objects[i] = f->objects[i] ? map->start + (f->objects[i] - loaded) : 0;
	far_file_close(&file);
	return rc;
}

/* ---- the process ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The mapping that may have CPython: libpython, else an executable whose name begins with "python". NULL: no
 * Python. */
static const struct proc_map *choose_map(const struct proc_maps *maps)
{
	const struct proc_map *program = NULL;

	for (size_t i = 0; i < maps->n; i++) {
		const struct proc_map *m = &maps->v[i];

		if (map_kind_of(m->path) != MAP_KIND_FILE)
			continue;
		if (!strncmp(base_name(m->path), "libpython3.", 11))
			return m;
		if (!program && !strncmp(base_name(m->path), "python", 6))
			program = m;
	}
	return program;
}

static int read_error(struct err *e, const char *what)
{
	if (errno == EPERM || errno == EACCES)
		return err_set(e, ERR_DENIED,
			       "reading %s by process_vm_readv: Operation not permitted: grant "
			       "CAP_SYS_PTRACE",
			       what);
	if (errno == ENOSYS)
		return err_set(
			e, ERR_UNSUPPORTED,
			"process_vm_readv is not permitted by seccomp, or not in this kernel");
	return err_set(e, ERR_CLOSED, "reading %s: %s", what, strerror(errno));
}

/* Reads the version and the begin of _PyRuntime, where the table of offsets is. */
static int load_layout(struct python_interpreter *out, const uint64_t objects[OBJECTS],
		       const struct python_memory *memory, struct err *e)
{
	uint8_t table[PYTHON_TABLE_BYTES];
	uint64_t version = 0;

	if (!python_memory_get(memory, objects[VERSION], &version, sizeof(version)))
		return read_error(e, "Py_Version");
	if (!python_memory_get(memory, objects[RUNTIME], table, sizeof(table)))
		return read_error(e, "_PyRuntime");
	out->runtime = objects[RUNTIME];
	return python_layout_load(&out->layout, version, table, sizeof(table), e);
}

int python_interpreter_find(struct python_interpreter *out, struct python_files *files,
			    uint32_t pid, const struct python_memory *memory, struct err *e)
{
	uint64_t objects[OBJECTS] = { 0 };
	const struct proc_map *map;
	struct proc_maps maps;
	int rc = proc_maps_read(&maps, pid, e);

	if (rc)
		return rc == ERR_DENIED ? rc : ERR_CLOSED;
	map = choose_map(&maps);
	if (!map)
		rc = err_set(e, ERR_NOT_FOUND, "no file of CPython is mapped");
	else
		rc = load_objects(files, pid, map, objects, e);
	if (!rc && !objects[RUNTIME])
		rc = err_set(e, ERR_NOT_FOUND, "%.150s has no symbol _PyRuntime", map->path);
	else if (!rc && !objects[VERSION])
		rc = err_set(e, ERR_UNSUPPORTED, "%.100s is a CPython before 3.11",
			     base_name(map->path));
	if (!rc)
		rc = load_layout(out, objects, memory, e);
	proc_maps_release(&maps);
	return rc;
}
