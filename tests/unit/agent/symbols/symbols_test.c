/* SPDX-License-Identifier: Apache-2.0 */
/* Names of code, from this very program, its libraries and texts as the kernel and JITs write them. */
#include "agent/symbols/symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/symbols/elf_symbols.h"
#include "agent/proc/file_keeper.h"
#include "agent/proc/foreign_file.h"
#include "agent/proc/living.h"
#include "agent/symbols/kallsyms.h"
#include "agent/symbols/name_pool.h"
#include "agent/symbols/perf_map.h"
#include "agent/proc/maps.h"
#include "base/child.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"
#include "tests/lib/file_reader.h"
#include "tests/lib/temp_dir.h"

int a_function_to_be_found(int x);

__attribute__((noinline)) int a_function_to_be_found(int x)
{
	return x * 3 + 1;
}

/* ---- ELF ---- */

static int read_memory(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	(void)e;
	memcpy(out, (const uint8_t *)arg + offset, len);
	return 0;
}

/* A file of one segment and three functions, the last without a size. */
struct small {
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	Elf64_Shdr sections[3];
	Elf64_Sym symbols[5];
	char names[32];
};

static void small_elf(struct small *f)
{
	memset(f, 0, sizeof(*f));
	memcpy(f->head.e_ident, ELFMAG, SELFMAG);
	f->head.e_ident[EI_CLASS] = ELFCLASS64;
	f->head.e_ident[EI_DATA] = ELFDATA2LSB;
	f->head.e_phoff = offsetof(struct small, segment);
	f->head.e_phnum = 1;
	f->head.e_phentsize = sizeof(f->segment);
	f->head.e_shoff = offsetof(struct small, sections);
	f->head.e_shnum = 3;
	f->head.e_shentsize = sizeof(f->sections[0]);
	f->segment = (Elf64_Phdr){ .p_type = PT_LOAD,
				   .p_flags = PF_X | PF_R,
				   .p_offset = 0x1000,
				   .p_vaddr = 0x401000,
				   .p_filesz = 0x1000 };
	f->sections[1] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
				       .sh_link = 2,
				       .sh_offset = offsetof(struct small, symbols),
				       .sh_size = sizeof(f->symbols),
				       .sh_entsize = sizeof(f->symbols[0]) };
	f->sections[2] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
				       .sh_offset = offsetof(struct small, names),
				       .sh_size = sizeof(f->names) };
	memcpy(f->names, "\0one\0two\0three\0data", 20);
	f->symbols[1] = (Elf64_Sym){
		.st_name = 9, .st_info = STT_FUNC, .st_shndx = 1, .st_value = 0x401300
	};
	f->symbols[2] = (Elf64_Sym){ .st_name = 1,
				     .st_info = STT_FUNC,
				     .st_shndx = 1,
				     .st_value = 0x401100,
				     .st_size = 0x10 };
	f->symbols[3] = (Elf64_Sym){ .st_name = 5,
				     .st_info = STT_FUNC,
				     .st_shndx = 1,
				     .st_value = 0x401200,
				     .st_size = 0x10 };
	f->symbols[4] = (Elf64_Sym){ .st_name = 15,
				     .st_info = STT_OBJECT,
				     .st_shndx = 1,
				     .st_value = 0x401208,
				     .st_size = 8 };
}

static const char *name_at(struct small *f, uint64_t offset)
{
	struct elf_source src = { .read = read_memory, .arg = f, .size = sizeof(*f) };
	static char name[64];
	struct elf_symbols es;
	uint64_t address;
	struct err e;

	CHECK_OK(elf_symbols_load(&es, &src, &e), e);
	if (!elf_symbols_address(&es, offset, &address) ||
	    elf_symbols_name(&es, &src, address, name, sizeof(name), &e))
		snprintf(name, sizeof(name), "-");
	elf_symbols_release(&es);
	return name;
}

static void elf_offsets_become_names(void)
{
	struct small *f = malloc(sizeof(*f));

	small_elf(f);
	CHECK_STR(name_at(f, 0x1100), "one");
	CHECK_STR(name_at(f, 0x110f), "one");
	CHECK_STR(name_at(f, 0x1110), "-"); /* between two functions */
	CHECK_STR(name_at(f, 0x10ff), "-");
	CHECK_STR(name_at(f, 0x1208), "two");
	CHECK_STR(name_at(f, 0x1fff), "three");
	CHECK_STR(name_at(f, 0x2000), "-"); /* not in the segment */
	CHECK_STR(name_at(f, 0x300), "-");
	f->sections[1].sh_type = SHT_DYNSYM;
	CHECK_STR(name_at(f, 0x1200), "two");
	/* Of two names for one place the exported one. */
	f->symbols[4] = f->symbols[3];
	f->symbols[4].st_name = 15;
	f->symbols[4].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	CHECK_STR(name_at(f, 0x1200), "data");
	f->symbols[4].st_info = STT_OBJECT;
	/* A section ends: what has no size ends with it. */
	f->sections[0] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
				       .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				       .sh_addr = 0x401000,
				       .sh_size = 0x400 };
	CHECK_STR(name_at(f, 0x13ff), "three");
	f->sections[0].sh_addr = 0x401400;
	CHECK_STR(name_at(f, 0x13ff), "three");
	CHECK_STR(name_at(f, 0x1400), "-");
	/* One function inside another. */
	f->symbols[2].st_size = 0x180;
	CHECK_STR(name_at(f, 0x120f), "two");
	CHECK_STR(name_at(f, 0x1210), "one");
	CHECK_STR(name_at(f, 0x1280), "-");
	f->symbols[3].st_name = 31; /* the last byte of the table: an empty name */
	CHECK_STR(name_at(f, 0x1200), "-");
	free(f);
}

/* Wherever one field lies, the answer is an error or an empty index, never a read outside. */
static void broken_elf_is_refused(void)
{
	static const uint64_t lies[] = { 0, 1, 0x7f, 0xffff, 0xfffffff0, UINT64_MAX, INT64_MAX };
	struct elf_source src = { .read = read_memory, .size = sizeof(struct small) };
	struct small *f = malloc(sizeof(*f));
	struct elf_symbols es;
	struct err e;
	char name[64];

	src.arg = f;
	for (size_t at = 0; at + 8 <= sizeof(*f); at++) {
		for (size_t k = 0; k < ARRAY_SIZE(lies); k++) {
			small_elf(f);
			memcpy((uint8_t *)f + at, &lies[k], 8);
			if (elf_symbols_load(&es, &src, &e))
				continue;
			for (size_t i = 0; i < es.n; i++)
				if (!elf_symbols_name(&es, &src, es.v[i].address, name, 64, &e))
					CHECK(strlen(name) < 64);
			elf_symbols_release(&es);
		}
	}
	small_elf(f);
	for (src.size = 0; src.size < offsetof(struct small, symbols); src.size++)
		CHECK(elf_symbols_load(&es, &src, &e) < 0);
	f->head.e_ident[EI_CLASS] = ELFCLASS32;
	src.size = sizeof(*f);
	CHECK_EQ(elf_symbols_load(&es, &src, &e), ERR_UNSUPPORTED);
	free(f);
}

/* ---- texts ---- */

static void kallsyms_are_functions_in_order(void)
{
	struct kallsyms ks;

	kallsyms_parse(&ks, "ffffffff81000200 T second\nffffffff81000100 t first\n"
			    "ffffffff81000180 D data\nffffffffc0000000 t in_module\t[nf_tables]\n"
			    "nonsense\n\nffffffff8100 Z\nffffffff81000300 T cut");
	CHECK_EQ(ks.n, 4);
	CHECK_STR(kallsyms_find(&ks, 0xffffffff81000100), "first");
	CHECK_STR(kallsyms_find(&ks, 0xffffffff810001ff), "first");
	CHECK_STR(kallsyms_find(&ks, 0xffffffff81000200), "second");
	CHECK_STR(kallsyms_find(&ks, 0xffffffffc0000001), "in_module");
	CHECK(!kallsyms_find(&ks, 0xffffffff810000ff));
	kallsyms_release(&ks);
	kallsyms_parse(&ks, "0000000000000000 T hidden\n0000000000000000 T from_us\n");
	CHECK_EQ(ks.n, 0);
	CHECK(!kallsyms_find(&ks, 0xffffffff81000100));
	kallsyms_release(&ks);
}

static size_t parse(struct perf_map *pm, const char *text)
{
	return perf_map_parse(pm, text, strlen(text), SIZE_MAX);
}

static void perf_map_is_read_as_it_grows(void)
{
	struct perf_map pm = { 0 };

	CHECK(!perf_map_find(&pm, 0x1000));
	CHECK_EQ(parse(&pm, "1000 20 py::train:/job.py\n2000 10 hal"), 26);
	CHECK_STR(perf_map_find(&pm, 0x101f), "py::train:/job.py");
	CHECK(!perf_map_find(&pm, 0x1020));
	CHECK(!perf_map_find(&pm, 0x2000));
	CHECK_EQ(pm.parsed, 26);
	CHECK_EQ(parse(&pm, "2000 10 half no more\n0x3000 0x8 with prefix\n"), 44);
	CHECK_STR(perf_map_find(&pm, 0x2008), "half no more");
	CHECK_STR(perf_map_find(&pm, 0x3007), "with prefix");
	/* Code is replaced: the later line is the one that counts. */
	parse(&pm, "1000 8 newer\n");
	CHECK_STR(perf_map_find(&pm, 0x1007), "newer");
	CHECK_STR(perf_map_find(&pm, 0x1008), "py::train:/job.py");
	parse(&pm,
	      "\n \nxyz 1 n\n5000\n5000 \n5000 10\n5000 10 \n11112222333344445 1 n\n:000 1 n\n");
	CHECK(!perf_map_find(&pm, 0x5000));
	CHECK_EQ(pm.n, 4);
	CHECK_EQ(perf_map_parse(&pm, "6000 10 too much\n", 17, perf_map_bytes(&pm) - 1), 17);
	CHECK_EQ(pm.n, 4);
	perf_map_release(&pm);
}

static void maps_are_the_executable_ones(void)
{
	struct proc_maps maps;

	proc_maps_parse(&maps,
			"55d0-55e0 r--p 00000000 08:01 10   /bin/cat\n"
			"55e0000-55f0000 r-xp 00010000 fe:01 4711     /bin/my cat\n"
			"5600000-5601000 rwxp 00000000 00:00 0 \n"
			"garbage\n"
			"5500000-5600000 r-xp 00000000 08:01 10 /overlaps\n"
			"7ffd000-7ffe000 r-xp 00000000 00:00 0                          [vdso]");
	CHECK_EQ(maps.n, 3);
	CHECK_STR(proc_maps_find(&maps, 0x55e0000)->path, "/bin/my cat");
	CHECK_EQ(proc_maps_find(&maps, 0x55effff)->inode, 4711);
	CHECK_EQ(maps.v[0].major, 0xfe);
	CHECK_EQ(maps.v[0].offset, 0x10000);
	CHECK_STR(proc_maps_find(&maps, 0x5600000)->path, "");
	CHECK(!proc_maps_find(&maps, 0x55f0000));
	CHECK(!proc_maps_find(&maps, 0x7ffe000));
	CHECK_EQ(map_kind_of(maps.v[0].path), MAP_KIND_FILE);
	CHECK_EQ(map_kind_of(maps.v[1].path), MAP_KIND_MEMORY);
	CHECK_EQ(map_kind_of(maps.v[2].path), MAP_KIND_VDSO);
	CHECK_EQ(map_kind_of("//anon"), MAP_KIND_MEMORY);
	CHECK_EQ(map_kind_of("/memfd:jit (deleted)"), MAP_KIND_MEMORY);
	proc_maps_release(&maps);
}

static void equal_names_are_one_number(void)
{
	struct name_pool p = { 0 };
	char name[32];

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 1; i <= 5000; i++) {
			snprintf(name, sizeof(name), "name %u", i);
			CHECK_EQ(name_pool_add(&p, name), i);
		}
	}
	CHECK_STR(name_pool_get(&p, 4711), "name 4711");
	name_pool_release(&p);
}

/* ---- this process ---- */

static const char *resolve(struct symbols *sy, const struct image *image, uint64_t offset)
{
	return symbols_text(sy, symbols_resolve(sy, image, offset));
}

static void own_code_has_names(const struct file_keeper *keeper)
{
	uint64_t here = (uint64_t)(uintptr_t)a_function_to_be_found;
	struct image self = { .kind = IMAGE_KIND_PROCESS, .pid = (uint32_t)getpid(), .serial = 1 };
	struct symbols *sy = symbols_new(keeper);
	const struct proc_maps *maps;
	const struct proc_map *map;
	struct image file;

	symbols_begin(sy);
	CHECK_STR(resolve(sy, &self, here), "a_function_to_be_found");
	CHECK_STR(resolve(sy, &self, 0x10), "[unknown]");
	maps = symbols_maps(sy, &self);
	CHECK(maps);
	map = proc_maps_find(maps, here);
	CHECK(map);
	file = (struct image){ .kind = IMAGE_KIND_FILE,
			       .pid = self.pid,
			       .inode = map->inode,
			       .major = map->major,
			       .minor = map->minor,
			       .path = map->path };
	CHECK_STR(resolve(sy, &file, here - map->start + map->offset), "a_function_to_be_found");

	/* The process is gone: the same file under the agent's own path will do. */
	file.minor++;
	file.pid = 999999999;
	CHECK_STR(resolve(sy, &file, here - map->start + map->offset), "a_function_to_be_found");

	/* Another file at that path is not: better no name than a wrong one. */
	file.inode++;
	CHECK(resolve(sy, &file, here - map->start + map->offset)[0] == '[');
	symbols_end(sy);
	symbols_free(sy);
}

/* ---- names that are kept outside the file ---- */

struct own_place {
	char *path; /* of this program */
	uint64_t offset; /* of a_function_to_be_found */
};

static struct own_place own_place(void)
{
	uint64_t here = (uint64_t)(uintptr_t)a_function_to_be_found;
	struct own_place out = { 0 };
	struct proc_maps maps;
	const struct proc_map *map;
	struct err e;

	CHECK_OK(proc_maps_read(&maps, (uint32_t)getpid(), &e), e);
	map = proc_maps_find(&maps, here);
	CHECK(map);
	out.path = xstrdup(map->path);
	out.offset = here - map->start + map->offset;
	proc_maps_release(&maps);
	return out;
}

__attribute__((format(printf, 1, 2))) static bool shell(const char *fmt, ...)
{
	char command[2000];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	return !system(command);
}

/* The name of the function in a copy of this program. */
static bool has_name(const char *path, uint64_t offset)
{
	struct image image = { .kind = IMAGE_KIND_FILE, .pid = (uint32_t)getpid() };
	struct symbols *sy = symbols_new(NULL);
	struct stat st;
	bool found;

	CHECK(!stat(path, &st));
	image.inode = st.st_ino;
	image.path = xstrdup(path);
	symbols_begin(sy);
	found = !strcmp(resolve(sy, &image, offset), "a_function_to_be_found");
	symbols_end(sy);
	symbols_begin(sy); /* with closed files */
	CHECK_EQ(!strcmp(resolve(sy, &image, offset), "a_function_to_be_found"), found);
	symbols_end(sy);
	symbols_free(sy);
	free(image.path);
	return found;
}

static void separate_debug_files_are_followed(void)
{
	struct own_place own = own_place();
	const char *dir = temp_dir();
	char *stripped = xasprintf("%s/stripped", dir), *linked = xasprintf("%s/linked", dir);
	char *packed = xasprintf("%s/packed", dir);

	CHECK(shell("cd %s && objcopy --only-keep-debug %s own.debug && objcopy --strip-all %s "
		    "stripped",
		    dir, own.path, own.path));
	CHECK(!has_name(stripped, own.offset));
	CHECK(shell("cd %s && objcopy --add-gnu-debuglink=own.debug stripped linked", dir));
	CHECK(has_name(linked, own.offset));
	CHECK(shell("cd %s && mkdir .debug && mv own.debug .debug/", dir));
	CHECK(has_name(linked, own.offset));
	/* Without a build id the checksum decides. */
	CHECK(shell("cd %s && objcopy --remove-section=.note.gnu.build-id linked a && mv a linked",
		    dir));
	CHECK(has_name(linked, own.offset));
	CHECK(shell("cd %s && printf x >>.debug/own.debug", dir));
	CHECK(!has_name(linked, own.offset));
	/* As Fedora does. */
	CHECK(shell("cd %s && echo a_function_to_be_found >keep && objcopy --strip-debug "
		    "--keep-symbols=keep .debug/own.debug mini "
		    "&& xz -f mini && objcopy --add-section .gnu_debugdata=mini.xz stripped packed",
		    dir));
	CHECK(has_name(packed, own.offset));
	CHECK(shell("cd %s && head -c 100 mini.xz >cut.xz && objcopy --update-section "
		    ".gnu_debugdata=cut.xz packed a && mv a packed",
		    dir));
	CHECK(!has_name(packed, own.offset));
	free(own.path);
	free(stripped);
	free(linked);
	free(packed);
}

/* libc's memmove is one of several that are not exported: libc6-dbg has their names. */
static void debug_files_of_the_system_are_followed(void)
{
	uint64_t here = (uint64_t)(uintptr_t)dlsym(dlopen("libc.so.6", RTLD_NOW), "memmove");
	struct image self = { .kind = IMAGE_KIND_PROCESS, .pid = (uint32_t)getpid(), .serial = 1 };
	struct symbols *sy = symbols_new(NULL);

	symbols_begin(sy);
	if (access("/usr/lib/debug/.build-id", R_OK))
		CHECK(strstr(resolve(sy, &self, here), "libc"));
	else
		CHECK(strstr(resolve(sy, &self, here), "mem"));
	symbols_end(sy);
	symbols_free(sy);
}

/* The vdso has its own table of functions; the linkage table has the names of what it calls. */
static void vdso_and_linkage_tables_have_names(void)
{
	void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	struct image self = { .kind = IMAGE_KIND_PROCESS, .pid = (uint32_t)getpid(), .serial = 1 };
	uint64_t start = (uint64_t)getauxval(AT_SYSINFO_EHDR);
	uint64_t at = (uint64_t)(uintptr_t)(vdso ? dlsym(vdso, "__vdso_clock_gettime") : NULL);
	struct image shared = { .kind = IMAGE_KIND_VDSO };
	struct symbols *sy = symbols_new(NULL);

	symbols_begin(sy);
	if (start && at) {
		CHECK(strstr(resolve(sy, &self, at), "clock_gettime"));
		CHECK(strstr(resolve(sy, &shared, at - start), "clock_gettime"));
	}
	symbols_end(sy);
	symbols_free(sy);
}

static int read_whole_fd(void *arg, uint64_t offset, void *out, size_t len, struct err *e)
{
	return file_read_exact(*(int *)arg, offset, out, len, "own file", e);
}

static void plt_entries_are_named_after_what_they_call(void)
{
	struct own_place own = own_place();
	bool in_order = false, found = false;
	struct elf_symbols es;
	struct elf_source src;
	struct stat st;
	int fd = foreign_open_here(own.path, &st, NULL);
	char name[128];
	struct err e;

	CHECK(fd >= 0);
	src = (struct elf_source){ .read = read_whole_fd,
				   .arg = &fd,
				   .size = (uint64_t)st.st_size };
	CHECK_OK(elf_symbols_load(&es, &src, &e), e);
	for (size_t i = 0; i < es.n_code; i++) {
		const struct elf_code *code = &es.code[i];

		in_order |= code->named;
		for (uint64_t at = code->address; code->plt && at < code->end; at += 8) {
			CHECK_OK(elf_symbols_name(&es, &src, at, name, sizeof(name), &e), e);
			CHECK(!strcmp(name, "[plt]") || strstr(name, "@plt"));
			found |= !strcmp(name, "mkfifo@plt");
		}
	}
	CHECK(!in_order || found);
	elf_symbols_release(&es);
	close(fd);
	free(own.path);
}

/* As a JIT compiler does: code in memory, its name in /tmp. */
static void own_jit_code_has_names(void)
{
	struct image self = { .kind = IMAGE_KIND_PROCESS, .pid = (uint32_t)getpid(), .serial = 1 };
	char *path = xasprintf("/tmp/perf-%d.map", getpid());
	struct symbols *sy = symbols_new(NULL);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *f = fopen(path, "w");

	CHECK(code != MAP_FAILED && f);
	symbols_begin(sy);
	CHECK_STR(resolve(sy, &self, (uint64_t)(uintptr_t)code + 8), "[jit]");
	symbols_end(sy);
	fprintf(f, "%llx 100 jitted\n", (unsigned long long)(uintptr_t)code);
	fclose(f);
	symbols_begin(sy);
	CHECK_STR(resolve(sy, &self, (uint64_t)(uintptr_t)code + 8), "jitted");
	CHECK_STR(resolve(sy, &self, (uint64_t)(uintptr_t)code + 0x100), "[jit]");
	symbols_end(sy);
	CHECK(!unlink(path));
	munmap(code, 4096);
	symbols_free(sy);
	free(path);
}

/* Anybody may write that file before the process does. */
static void names_of_other_users_are_not_read(void)
{
	struct image self = { .kind = IMAGE_KIND_PROCESS, .pid = (uint32_t)getpid(), .serial = 1 };
	char *path = xasprintf("/tmp/perf-%d.map", getpid());
	struct symbols *sy = symbols_new(NULL);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *f = fopen(path, "w");

	CHECK(code != MAP_FAILED && f);
	fprintf(f, "%llx 100 forged\n", (unsigned long long)(uintptr_t)code);
	fclose(f);
	if (!chown(path, 65534, 65534)) { /* only root can make a file of another user */
		symbols_begin(sy);
		CHECK_STR(resolve(sy, &self, (uint64_t)(uintptr_t)code + 8), "[jit]");
		symbols_end(sy);
	}
	CHECK(!unlink(path));
	munmap(code, 4096);
	symbols_free(sy);
	free(path);
}

/* A pipe or a link out of the process' root must not be waited for or followed; and what is no file must not be opened at all:
 * a device, at which any user may point a link, may do something then. */
static void only_regular_files_are_opened(void)
{
	const char *dir = temp_dir();
	int notes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char *path, *link;
	char note[1024];
	struct stat st;
	struct err e;

	path = xasprintf("%s/pipe", dir);
	link = xasprintf("%s/link", dir);
	CHECK(!mkfifo(path, 0600) && !symlink(path, link));
	CHECK(notes >= 0 && inotify_add_watch(notes, path, IN_OPEN) >= 0);
	CHECK_EQ(foreign_open((uint32_t)getpid(), path, &st, &e), ERR_INVALID);
	CHECK_EQ(foreign_open((uint32_t)getpid(), link, &st, &e), ERR_INVALID);
	CHECK_EQ(foreign_open_here(path, &st, &e), ERR_INVALID);
	CHECK_EQ(foreign_open_here(dir, &st, &e), ERR_INVALID);
	CHECK(foreign_open((uint32_t)getpid(), "/no/such/file", &st, &e) < 0);
	CHECK(read(notes, note, sizeof(note)) < 0 && errno == EAGAIN);
	close(notes);
	free(path);
	free(link);
}

/* As after an upgrade while the program runs. What was mapped is still there, under names of the kernel. */
static void removed_files_have_names(void)
{
	uint64_t here = (uint64_t)(uintptr_t)a_function_to_be_found;
	const char *dir = temp_dir();
	char *path = xasprintf("%s/library", dir);
	struct own_place own = own_place();
	struct image self = { .kind = IMAGE_KIND_PROCESS, .pid = (uint32_t)getpid(), .serial = 1 };
	struct image program = { .kind = IMAGE_KIND_FILE,
				 .pid = self.pid,
				 .path = (char *)"/no/such/program (deleted)" };
	struct symbols *sy = symbols_new(NULL);
	struct small small;
	void *code;
	struct stat st;
	FILE *f = fopen(path, "w+e");

	CHECK(!stat(own.path, &st));
	program.inode = st.st_ino;
	symbols_begin(sy);
	CHECK_STR(resolve(sy, &program, own.offset), "a_function_to_be_found");
	symbols_end(sy);
	small_elf(&small);
	CHECK(f && fwrite(&small, sizeof(small), 1, f) == 1 && !ftruncate(fileno(f), 8192) &&
	      !fflush(f));
	code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(f), 0);
	CHECK(code != MAP_FAILED);
	CHECK(!fclose(f) && !unlink(path));
	symbols_begin(sy);
	if (geteuid()) /* the kernel demands CAP_CHECKPOINT_RESTORE */
		CHECK_EQ(resolve(sy, &self, (uint64_t)(uintptr_t)code + 0x1104)[0], '[');
	else
		CHECK_STR(resolve(sy, &self, (uint64_t)(uintptr_t)code + 0x1104), "one");
	CHECK_STR(resolve(sy, &self, here), "a_function_to_be_found");
	symbols_end(sy);
	munmap(code, 8192);
	symbols_free(sy);
	free(own.path);
	free(path);
}

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* A program whose main thread has ended: its folder in /proc has neither root nor maps. */
static void threads_that_are_left_have_the_files(void)
{
	pid_t child = child_fork(SIGKILL);
	struct proc_maps maps;
	char path[32], exe;
	pthread_t thread;
	struct stat st;
	struct err e;
	int fd;

	CHECK(child >= 0);
	if (!child) {
		if (!pthread_create(&thread, NULL, wait_for_ever, NULL))
			pthread_exit(NULL);
		_exit(1);
	}
	snprintf(path, sizeof(path), "/proc/%d/exe", child);
	while (readlink(path, &exe, 1) >= 0)
		usleep(1000);
	CHECK_OK(proc_maps_read(&maps, (uint32_t)child, &e), e);
	CHECK(maps.n);
	proc_maps_release(&maps);
	fd = foreign_open((uint32_t)child, "/etc/passwd", &st, &e);
	CHECK(fd >= 0);
	close(fd);
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
	CHECK_EQ(proc_living((uint32_t)child), (uint32_t)child);
}

/* A kernel that hides its addresses shows zeros. */
static bool kernel_names_what_to_grant(void)
{
	struct image kernel = { .kind = IMAGE_KIND_KERNEL };
	struct symbols *sy = symbols_new(NULL);
	bool hidden, named;
	struct err e;

	symbols_begin(sy);
	hidden = !strcmp(resolve(sy, &kernel, UINT64_MAX - 4096), "[kernel]");
	symbols_end(sy);
	named = symbols_missing(sy, &e) == ERR_DENIED && strstr(e.msg, "grant CAP_SYSLOG");
	symbols_free(sy);
	return hidden == named;
}

static bool names_what_to_grant(void)
{
	struct image file = { .kind = IMAGE_KIND_FILE,
			      .pid = (uint32_t)getppid(),
			      .path = (char *)"/no/such/library.so" };
	struct image process = { .kind = IMAGE_KIND_PROCESS, .pid = file.pid, .serial = 1 };
	const struct image *images[] = { &file, &process };
	struct stat st;
	bool named = true;
	struct err e;

	named &= foreign_open(file.pid, "/etc/passwd", &st, &e) == ERR_DENIED &&
		 strstr(e.msg, "grant CAP_SYS_PTRACE");
	for (size_t i = 0; i < ARRAY_SIZE(images); i++) {
		struct symbols *sy = symbols_new(NULL);

		named &= !symbols_missing(sy, &e) && !*e.msg;
		symbols_begin(sy);
		symbols_resolve(sy, images[i], 4096);
		symbols_end(sy);
		named &= symbols_missing(sy, &e) == ERR_DENIED &&
			 strstr(e.msg, "grant CAP_SYS_PTRACE");
		symbols_free(sy);
	}
	return named;
}

/* An agent without capabilities: as a user that owns nothing. */
static void denied_root_names_what_to_grant(void)
{
	pid_t child = child_fork(SIGKILL);
	int status;

	CHECK(child >= 0);
	if (!child) {
		if (!getuid() && setuid(65534))
			_exit(1);
		_exit(names_what_to_grant() && kernel_names_what_to_grant() ? 0 : 2);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

/* A file of the three functions, which the caller frees. */
static struct image small_program(const char *dir)
{
	struct image file = { .kind = IMAGE_KIND_FILE, .pid = (uint32_t)getpid(), .minor = 99 };
	struct small small;
	struct stat st;
	struct err e;

	small_elf(&small);
	file.path = xasprintf("%s/program", dir);
	CHECK_OK(file_replace(file.path, 0600, &small, sizeof(small), &e), e);
	CHECK(!stat(file.path, &st));
	file.inode = st.st_ino;
	return file;
}

/* A function's name is read once: afterwards the file may be gone, as that of a process that ended. */
static void known_functions_need_no_file(void)
{
	const char *dir = temp_dir();
	struct image file = small_program(dir);
	struct symbols *sy = symbols_new(NULL);

	symbols_begin(sy);
	CHECK_STR(resolve(sy, &file, 0x1104), "one");
	symbols_end(sy);
	unlink(file.path);
	symbols_begin(sy);
	CHECK_STR(resolve(sy, &file, 0x1108), "one");
	CHECK_EQ(resolve(sy, &file, 0x1204)[0], '['); /* another function */
	symbols_end(sy);
	symbols_free(sy);
	free(file.path);
	temp_dir_remove(dir);
}

/* A stopped process stands for one that waits for a file system. */
static void files_that_hang_cost_only_their_names(const struct file_keeper *keeper)
{
	uint64_t here = (uint64_t)(uintptr_t)a_function_to_be_found;
	struct image self = { .kind = IMAGE_KIND_PROCESS, .pid = (uint32_t)getpid(), .serial = 1 };
	const char *dir = temp_dir();
	struct image file = small_program(dir);
	struct symbols *sy = symbols_new(keeper);
	uint32_t epoch = symbols_epoch(sy);
	struct err e;
	pid_t reader;

	symbols_begin(sy);
	CHECK_STR(resolve(sy, &self, 0x10), "[unknown]"); /* looks for a perf map */
	reader = file_reader(NULL, 0);
	CHECK(reader && !kill(reader, SIGSTOP));
	CHECK_STR(resolve(sy, &file, 0x1104), "[program+0x1104]");
	CHECK_STR(resolve(sy, &self, here), "a_function_to_be_found");
	CHECK(symbols_missing(sy, &e) == ERR_TIMEOUT && strstr(e.msg, file.path));
	symbols_end(sy);

	CHECK(!kill(reader, SIGCONT));
	while (symbols_epoch(sy) == epoch) {
		now_sleep_until_mono(now_mono_ns() + 20 * NS_PER_MS);
		symbols_begin(sy);
		symbols_end(sy);
	}
	CHECK_EQ(symbols_missing(sy, &e), 0);
	CHECK_STR(resolve(sy, &file, 0x1104), "one");
	symbols_end(sy);
	symbols_free(sy);
	free(file.path);
	temp_dir_remove(dir);
}

/* The agent is to end: what is not named yet stays without a name, so that the job ends at once. */
static void stopped_symbols_name_nothing_more(void)
{
	uint64_t here = (uint64_t)(uintptr_t)a_function_to_be_found;
	struct image self = { .kind = IMAGE_KIND_PROCESS, .pid = (uint32_t)getpid(), .serial = 1 };
	struct symbols *sy = symbols_new(NULL);

	symbols_begin(sy);
	CHECK_STR(resolve(sy, &self, here), "a_function_to_be_found");
	symbols_stop(sy);
	CHECK_STR(resolve(sy, &self, here), "[unknown]");
	CHECK(!symbols_maps(sy, &self));
	symbols_end(sy);
	symbols_free(sy);
}

int main(void)
{
	struct file_keeper *keeper;
	struct err e;

	CHECK_OK(file_keeper_start(&keeper, NULL, &e), e);
	elf_offsets_become_names();
	broken_elf_is_refused();
	kallsyms_are_functions_in_order();
	perf_map_is_read_as_it_grows();
	maps_are_the_executable_ones();
	equal_names_are_one_number();
	own_code_has_names(NULL);
	own_code_has_names(keeper);
	files_that_hang_cost_only_their_names(keeper);
	separate_debug_files_are_followed();
	debug_files_of_the_system_are_followed();
	vdso_and_linkage_tables_have_names();
	plt_entries_are_named_after_what_they_call();
	own_jit_code_has_names();
	names_of_other_users_are_not_read();
	only_regular_files_are_opened();
	if (!getuid())
		denied_root_names_what_to_grant();
	removed_files_have_names();
	threads_that_are_left_have_the_files();
	known_functions_need_no_file();
	stopped_symbols_name_nothing_more();
	file_keeper_free(keeper);
	return a_function_to_be_found(0) != 1;
}
