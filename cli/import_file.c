/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/import_file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"
#include "cli/import_paths.h"
#include "proto/names.h"
#include "xspace/entries/entries.h"
#include "xspace/kineto.h"

#define PIECE	       ((size_t)1 << 20)
#define BEGIN	       64 /* bytes that tell the kind of a file */
#define UNIX_MIN_NS    INT64_C(100000000000000000) /* 1973: a line time beyond it is Unix time */
#define CONVERT_MEMORY ((size_t)2 << 30) /* of a conversion from JSON */

static const char *scratch_folder(void)
{
	const char *folder = getenv("TMPDIR");

	return folder && *folder ? folder : "/var/tmp";
}

static int open_scratch(int *fd, struct err *e)
{
	*fd = file_open_nameless(scratch_folder());
	return *fd < 0 ? err_errno(e, "%.200s: a temporary file (TMPDIR names another folder)",
				   scratch_folder())
		       : 0;
}

/* ---- compressed files ---- */

static int unpack(const char *path, int from, int to, uint64_t *bytes, struct err *e)
{
	gzFile gz = gzdopen(dup(from), "rb");
	uint8_t *piece = xmalloc(PIECE);
	int rc = gz ? 0 : err_set(e, ERR_IO, "%.300s: cannot be unpacked", path);
	int n = 0, code = 0;
	const char *why;

	*bytes = 0;
	while (!rc && (n = gzread(gz, piece, PIECE)) > 0) {
		*bytes += (uint64_t)n;
		rc = *bytes > IMPORT_UNPACKED_BYTES
			     ? err_set(e, ERR_LIMIT, "%.300s: more than %" PRIu64 " GiB unpacked",
				       path, IMPORT_UNPACKED_BYTES >> 30)
			     : file_write_all(to, piece, (size_t)n, "the unpacked file", e);
	}
	why = gz ? gzerror(gz, &code) : "";
	if (!rc && (n < 0 || code < 0))
		rc = err_set(e, ERR_INVALID,
			     "%.300s: gzip, behind byte %" PRIu64 " of the content: %s", path,
			     *bytes, why);
	if (gz)
		gzclose(gz);
	free(piece);
	return rc;
}

static int replace_by_unpacked(struct import_file *f, struct err *e)
{
	int to, rc = open_scratch(&to, e);

	if (rc)
		return rc;
	rc = unpack(f->path, f->fd, to, &f->bytes, e);
	close(f->fd);
	f->fd = to;
	return rc;
}

/* ---- JSON ---- */

static int read_pytorch(const void *data, uint64_t bytes, struct xs_builder *b,
			struct entry_counts *counts, struct err *e)
{
	const struct kineto_conf conf = { .max_memory = CONVERT_MEMORY };
	struct kineto_counts found;
	int rc = kineto_read(data, bytes, &conf, b, &found, e);

	*counts = (struct entry_counts){ .events = found.events,
					 .left_out = found.left_out,
					 .start_unix_ns = found.start_unix_ns };
	return rc;
}

/* The host is named by the instance, if it has a name. */
static int read_neuron(struct import_file *f, const void *data, size_t nth, size_t *n_hosts,
		       struct xs_builder *b, struct entry_counts *counts, struct err *e)
{
	char **hosts;
	int rc = neuron_hosts(data, f->bytes, &hosts, n_hosts, e);

	*counts = (struct entry_counts){ 0 };
	if (!rc && nth < *n_hosts) {
		rc = neuron_read(data, f->bytes, hosts[nth], CONVERT_MEMORY, b, counts, e);
		if (*hosts[nth])
			f->host = import_host_of(hosts[nth]);
	}
	neuron_hosts_free(hosts, *n_hosts);
	return rc;
}

static int convert(struct import_file *f, const void *data, size_t nth, size_t *n_hosts,
		   struct err *e)
{
	struct xs_builder *b = xs_builder_new();
	struct entry_counts counts;
	struct buf space = BUF_INIT;
	int to = -1, rc;

	switch (entry_format_of(data, f->bytes)) {
	case ENTRY_PYTORCH:
		f->format = "PyTorch trace";
		rc = read_pytorch(data, f->bytes, b, &counts, e);
		break;
	case ENTRY_NEURON:
		f->format = "Neuron system profile";
		rc = read_neuron(f, data, nth, n_hosts, b, &counts, e);
		break;
	default:
		f->format = "Chrome trace";
		rc = chrome_read(data, f->bytes, CONVERT_MEMORY, b, &counts, e);
	}
	if (!rc && !counts.events)
		rc = err_set(e, ERR_INVALID, "no event in it");
	if (!rc) {
		char text[80];

		snprintf(text, sizeof(text), "%" PRIu64 " events of the imported file are left out",
			 counts.left_out);
		if (counts.left_out)
			xs_warning(b, text);
		xs_finish(b, &space);
		rc = open_scratch(&to, e);
	}
	if (!rc)
		rc = file_write_all(to, space.data, space.len, "the converted file", e);
	if (!rc) {
		close(f->fd);
		f->fd = to;
		f->bytes = space.len;
		f->has_time = counts.start_unix_ns > UNIX_MIN_NS;
		f->zero_ns = counts.start_unix_ns;
	} else if (to >= 0) {
		close(to);
	}
	xs_builder_free(b);
	buf_release(&space);
	return rc;
}

static int convert_mapped(struct import_file *f, size_t nth, size_t *n_hosts, struct err *e)
{
	void *data = mmap(NULL, (size_t)f->bytes, PROT_READ, MAP_PRIVATE, f->fd, 0);
	uint64_t bytes = f->bytes;
	int rc;

	if (data == MAP_FAILED)
		return err_errno(e, "%.300s", f->path);
	rc = convert(f, data, nth, n_hosts, e);
	munmap(data, (size_t)bytes);
	return rc ? err_prefix(e, "%.300s", f->path) : 0;
}

/* ---- XSpaces ---- */

static int read_space(void *arg, uint64_t offset, void *buf, size_t len, struct err *e)
{
	const struct import_file *f = arg;

	return file_read_exact(f->fd, offset, buf, len, f->path, e);
}

static struct xs_source source_of(struct import_file *f)
{
	return (struct xs_source){ .read = read_space, .arg = f, .size = f->bytes };
}

/* XProf and all that reads protobufs would refuse the whole file for a name with a wrong byte. */
static int check_space(struct import_file *f, struct err *e)
{
	const struct xs_source source = source_of(f);
	int rc = xs_summarize(&source, &f->summary, e);

	return rc ? rc : xs_clean_new(&f->clean, &source, e);
}

/* When it was recorded: line times are Unix times, or they count from the plane Task Environment's begin. */
static void find_time(struct import_file *f)
{
	const struct xs_summary *sum = &f->summary;
	int64_t start = (int64_t)sum->profile_start_ns, stop = (int64_t)sum->profile_stop_ns;
	bool has_start = start > UNIX_MIN_NS && start < LIMIT_TIME_NS;

	if (f->has_time)
		has_start = false;
	else if (sum->first_ns > UNIX_MIN_NS)
		f->has_time = true;
	else if (has_start)
		f->zero_ns = start;
	f->has_time |= has_start;
	f->begin_ns = f->zero_ns + sum->first_ns;
	f->end_ns = f->zero_ns + sum->last_ns;
	if (has_start && (start < f->begin_ns || !sum->events))
		f->begin_ns = start;
	if (has_start && stop > f->end_ns && stop - start <= LIMIT_DURATION_NS)
		f->end_ns = stop;
}

/* The first bytes, with zeros behind a file that has fewer. */
static int read_begin(struct import_file *f, uint8_t begin[BEGIN], struct err *e)
{
	ssize_t n;

	memset(begin, 0, BEGIN);
	n = file_read_up_to(f->fd, 0, begin, BEGIN);
	if (n < 0)
		return err_errno(e, "%.300s", f->path);
	return n ? 0 : err_set(e, ERR_INVALID, "%.300s: empty", f->path);
}

static size_t skip_space(const uint8_t begin[BEGIN], size_t at)
{
	while (at < BEGIN && begin[at] && strchr(" \t\r\n", begin[at]))
		at++;
	return at;
}

/* PyTorch's traces begin with a newline, and so does every XSpace: "\n{" is a plane of 123 bytes. Then binary bytes follow,
 * in JSON text. */
static bool is_json(const uint8_t begin[BEGIN])
{
	size_t at = skip_space(begin, 0);

	if (at + 8 > BEGIN || (begin[at] != '{' && begin[at] != '['))
		return false;
	at = skip_space(begin, at + 1);
	if (at + 4 > BEGIN)
		return true;
	return (begin[at] == '"' && begin[at + 1] >= ' ' && begin[at + 2] >= ' ' &&
		begin[at + 3] >= ' ') ||
	       (begin[at] && strchr("{}[]", begin[at]));
}

static int begin_open(struct import_file *f, uint8_t begin[BEGIN], struct err *e)
{
	struct stat st;

	f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (f->fd < 0 || fstat(f->fd, &st))
		return err_errno(e, "%.300s", f->path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%.300s: not a regular file", f->path);
	f->bytes = (uint64_t)st.st_size;
	f->modified_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
	return read_begin(f, begin, e);
}

int import_file_open(struct import_file *f, const char *path, size_t nth, size_t *n_hosts,
		     struct err *e)
{
	uint8_t begin[BEGIN];
	int rc;

	*f = (struct import_file){ .path = path, .format = "XSpace", .fd = -1, .out = -1 };
	*n_hosts = 1;
	rc = begin_open(f, begin, e);
	if (!rc && begin[0] == 0x1f && begin[1] == 0x8b) {
		rc = replace_by_unpacked(f, e);
		if (!rc)
			rc = read_begin(f, begin, e);
	}
	if (!rc && is_json(begin))
		rc = convert_mapped(f, nth, n_hosts, e);
	if (rc)
		return rc;
	rc = check_space(f, e);
	if (rc)
		return err_prefix(e, "%.300s: no XSpace", path);
	find_time(f);
	if (!f->host)
		f->host = import_host_of(path);
	return 0;
}

void import_file_release(struct import_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->out >= 0)
		close(f->out);
	xs_clean_free(f->clean);
	free(f->host);
}

/* ---- writing ---- */

/* The merge in progress. */
struct writing {
	struct import_file *file;
	const struct import_window *window;
	char name[NAME_FILE_BYTES]; /* of the present part */
	int64_t shift_ns;
};

static int write_part(void *arg, const void *data, size_t len, struct err *e)
{
	struct writing *w = arg;
	struct import_part *part = &w->file->parts[w->file->n_parts - 1];

	part->bytes += len;
	part->crc32c = crc32c(part->crc32c, data, len);
	return file_write_all(w->file->out, data, len, "the temporary file", e);
}

static const char *next_part(void *arg, unsigned int n)
{
	struct writing *w = arg;
	struct import_file *f = w->file;
	const struct import_part *last = f->n_parts ? &f->parts[f->n_parts - 1] : NULL;

	if (f->n_parts == IMPORT_PARTS_MAX || w->window->n_before + n > LIMIT_HOST_FILES)
		return NULL;
	f->parts[f->n_parts++] = (struct import_part){ .offset = last ? last->offset + last->bytes
								      : 0 };
	name_of_file(f->host, w->window->n_before + n, w->name);
	return w->name;
}

static int64_t shifted(void *arg, int64_t ns)
{
	int64_t out;

	/* beyond the window in any case */
	return __builtin_add_overflow(ns, ((struct writing *)arg)->shift_ns, &out) ? INT64_MIN
										   : out;
}

static void add_environment(void *arg, struct xs_builder *b)
{
	const struct writing *w = arg;

	xs_stat_str(b, "tutti_version", TUTTI_VERSION);
	xs_stat_str(b, "tutti_imported", w->file->format);
	xs_stat_int(b, "clock_calibrated", 0);
	xs_stat_int(b, "clock_corrected", 0);
	xs_stat_str(b, "clock_grade", "X");
	xs_stat_str(b, "clock_method", "none");
}

int import_file_write(struct import_file *f, const struct import_window *window, struct err *e)
{
	struct writing w = { .file = f, .window = window };
	const struct xs_sink out = { .write = write_part, .arg = &w };
	/* a file without a time of its own begins with the session */
	int64_t zero_ns = f->has_time ? f->zero_ns
				      : window->t0_ns -
						(f->summary.first_ns < 0 ? f->summary.first_ns : 0);
	const struct xs_source source = source_of(f);
	const struct xs_input input = {
		.source = xs_clean_source(f->clean, &source),
		.rebase = { .map = shifted, .arg = &w, .window_ns = window->duration_ns },
		.pid = XS_PID_UNKNOWN,
	};
	const char *warnings[] = { NULL, NULL };
	const struct xs_host host = {
		.hostname = next_part(&w, 1),
		.profile_start_ns = (uint64_t)window->t0_ns,
		.profile_stop_ns = (uint64_t)(window->t0_ns + window->duration_ns),
		.environment = add_environment,
		.arg = &w,
		.warnings = warnings,
		.file_bytes = IMPORT_FILE_BYTES,
		.next_file = next_part,
	};
	struct xs_counts counts;
	int rc;

	if (!f->has_time)
		warnings[0] =
			"this file does not say when it was recorded: it begins with the session";
	if (!host.hostname)
		return err_set(e, ERR_LIMIT, "%.300s: more than %d files of host %.128s", f->path,
			       LIMIT_HOST_FILES, f->host);
	w.shift_ns = zero_ns - window->t0_ns;
	rc = open_scratch(&f->out, e);
	if (!rc)
		rc = xs_merge(&input, 1, &host, &out, &counts, e);
	if (rc)
		return err_prefix(e, "%.300s", f->path);
	f->events = counts.events;
	return counts.trimmed ? err_set(e, ERR_INVALID,
					"%.300s: %" PRIu64 " events lie outside of its own window",
					f->path, counts.trimmed)
			      : 0;
}
