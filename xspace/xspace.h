/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, builds, rebases and merges XSpaces. Pure functions: no files, no clock, no threads; the caller
 * provides a source of bytes and a sink for them.
 *
 * An XSpace is a host's profile: planes (a device or the host's threads) of lines (one thread, one
 * stream) of events. An event's time is line.timestamp_ns * 1000 + event.offset_ps. Files that leave
 * Tutti have line times relative to the session's T0, the same for all hosts.
 *
 * Nothing here unpacks a whole XSpace: memory is a table of lines plus one window of the input, for
 * inputs of any size (offsets are 64 bit). Input is never trusted; ERR_INVALID names the offset.
 */
#ifndef XSPACE_XSPACE_H
#define XSPACE_XSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- limits: ERR_LIMIT above them ---- */

#define XS_MAX_PLANES 65536 /* of one XSpace */
#define XS_MAX_LINES  524288 /* of one XSpace */
#define XS_MAX_STATS  65536 /* of one event that is read with its stats */
#define XS_MAX_SPAN   (16 << 20) /* bytes of one event, name or value that is read through a window */
#define XS_MAX_TEXTS  1000 /* errors or warnings that a merge keeps; it counts further ones */

/* ---- bytes in and out ---- */

/* Random-access input. `read` fills `buf` with exactly `len` bytes from `offset`, or fails. */
struct xs_source {
	int (*read)(void *arg, uint64_t offset, void *buf, size_t len, struct err *e);
	void *arg;
	uint64_t size;
	const uint8_t *memory; /* set if the bytes are in memory: `read` is not used then */
	size_t window_bytes; /* largest read; 0 = 1 MiB */
};

struct xs_source xs_source_memory(const void *data, size_t len);

struct xs_sink {
	int (*write)(void *arg, const void *data, size_t len, struct err *e);
	void *arg;
	void (*expect)(void *arg,
		       uint64_t bytes); /* before the first write: what will come; or NULL */
};

struct xs_sink xs_sink_buf(struct buf *b);

/* ---- read ---- */

enum xs_stat_kind { XS_NONE, XS_DOUBLE, XS_UINT, XS_INT, XS_STR, XS_BYTES, XS_REF };

struct xs_stat {
	int64_t metadata_id;
	enum xs_stat_kind kind;
	union {
		double d;
		uint64_t u; /* XS_UINT, and XS_REF: an id in the plane's stat metadata */
		int64_t i;
	};
	const uint8_t *bytes; /* XS_STR, XS_BYTES; borrowed for the callback, no NUL */
	size_t len;
};

struct xs_plane {
	uint64_t index; /* 0, 1, ... in the file */
	int64_t id;
	const char *name; /* NUL-terminated, cut at 1023 bytes; borrowed */
};

struct xs_line {
	int64_t id, display_id;
	const char *name; /* NUL-terminated, cut at 1023 bytes; borrowed */
	const char *display_name; /* "" if none */
	int64_t timestamp_ns;
};

struct xs_event {
	int64_t metadata_id;
	bool is_aggregate; /* num_occurrences is set: the event has no time */
	int64_t offset_ps, duration_ps, num_occurrences;
	const struct xs_stat *stats; /* decoded only if the visitor has want_stats */
	size_t n_stats;
};

/*
 * The callbacks of a reading. Planes come in the order of the file. Within a plane the order is always the
 * same, and may differ from that of the file: plane_begin, stat metadata, event metadata, plane stats, lines,
 * then each line (line_begin, events, line_end), then plane_end. Members may be NULL: parts without a callback
 * are skipped and not checked. A negative result of a callback stops the reading and becomes its result. A
 * positive result of line_begin skips that line's events, one of `lines` skips all lines of the plane. The last
 * occurrence of a singular field counts; unknown fields are skipped. Texts are passed unchanged: any bytes,
 * UTF-8 or not.
 */
struct xs_visitor {
	int (*plane_begin)(void *arg, const struct xs_plane *p);
	int (*stat_metadata)(void *arg, int64_t id, const char *name, size_t len);
	int (*event_metadata)(void *arg, int64_t id, const char *name, size_t len);
	int (*plane_stat)(void *arg, const struct xs_stat *s);
	int (*lines)(void *arg);
	int (*line_begin)(void *arg, const struct xs_line *l);
	int (*event)(void *arg, const struct xs_event *ev);
	int (*line_end)(void *arg);
	int (*plane_end)(void *arg);
	/* XSpace.errors (2), .warnings (3), .hostnames (4), after the planes. */
	int (*text)(void *arg, int field, const char *s, size_t len);
	bool want_stats; /* decode the stats of events too */
	bool want_shown_names; /* event_metadata gets the display name of what has one, as XProf shows it */
};

MUST_CHECK int xs_read(const struct xs_source *in, const struct xs_visitor *v, void *arg,
		       struct err *e);

/* Summary of a file, from one reading. */
struct xs_summary {
	uint64_t planes, lines, events;
	int64_t first_ns, last_ns; /* of events with a time; 0, 0 if there is none */
	uint64_t profile_start_ns; /* Task Environment, Unix ns; 0 if absent */
	uint64_t profile_stop_ns;
};
MUST_CHECK int xs_summarize(const struct xs_source *in, struct xs_summary *out, struct err *e);

/* Reads only the profile_start_ns of a file. Lines are not decoded: malformed lines are not an error. */
MUST_CHECK int xs_profile_start(const struct xs_source *in, uint64_t *start_ns, struct err *e);

/*
 * Whether the file is a whole XSpace: each message in it is walked to its end, also what no reading visits. Of a file that
 * passes a viewer's index can be built (tvx/tvx.h), and each of its events be read, up to the limits. ERR_INVALID names the
 * byte.
 */
MUST_CHECK int xs_check(const struct xs_source *in, struct err *e);

/* A field that should be UTF-8: its message's name, and its number there. */
struct xs_bad_text {
	const char *message;
	uint32_t field;
};

/* A byte of a text that is not UTF-8. An error ends the check with it. */
typedef int (*xs_bad_text_fn)(void *arg, const struct xs_bad_text *where, uint64_t at,
			      struct err *e);

/* As xs_check(), and calls `bad` for each such byte, in the order of the file: readers in other languages refuse a whole file
 * for one of them. */
MUST_CHECK int xs_check_texts(const struct xs_source *in, xs_bad_text_fn bad, void *arg,
			      struct err *e);

/* An xs_bad_text_fn: ERR_INVALID, names the field and the byte. */
int xs_refuse_bad_text(void *arg, const struct xs_bad_text *where, uint64_t at, struct err *e);

/* ---- clean ---- */

/* A file as it is but for texts that are not UTF-8: each wrong byte of them reads as '?'. ERR_LIMIT if there are more than
 * XS_MAX_BAD_BYTES. */
#define XS_MAX_BAD_BYTES (1u << 22)
struct xs_clean;

/* Checks the file as xs_check() does. After an error `*out` is NULL. */
MUST_CHECK int xs_clean_new(struct xs_clean **out, const struct xs_source *in, struct err *e);
void xs_clean_free(struct xs_clean *c); /* NULL is fine */
uint64_t xs_clean_bytes(const struct xs_clean *c); /* how many are replaced */

/* Reads `in`, which has the bytes of the file that was checked. Borrows `c`, as long as no other source of it is made. */
struct xs_source xs_clean_source(struct xs_clean *c, const struct xs_source *in);

/* ---- build ---- */

/*
 * Builds one XSpace plane by plane, line by line. Events of a line are given in order of time.
 * Names are interned per plane: the same name has the same metadata id. Zero values of oneofs are
 * written, map keys equal ids, ids start at 1. Each byte that is not UTF-8 becomes a '?', since C++
 * readers refuse a whole file for one of them.
 */
struct xs_builder;

struct xs_builder *xs_builder_new(void);
void xs_builder_free(struct xs_builder *b); /* NULL is fine */
size_t xs_builder_bytes(const struct xs_builder *b); /* what it has allocated, about */

/* One plane, then its lines, one at a time; a new plane or line ends the one before. */
void xs_plane(struct xs_builder *b, int64_t id, const char *name);
void xs_line(struct xs_builder *b, int64_t id, const char *name, int64_t timestamp_ns);

/* The next event of the line; the offset is from the line's timestamp, duration 0 = an instant. */
void xs_event(struct xs_builder *b, const char *name, int64_t offset_ps, int64_t duration_ps);

/* How many names the events of the open plane have, and whether this is one of them: 140 bytes each, until its end. */
size_t xs_event_names(const struct xs_builder *b);
bool xs_has_event_name(struct xs_builder *b, const char *name);

/* A stat of the last event or, before the first line of a plane, of the plane. `name` must be plain
 * ASCII without quotes or backslashes (XProf does not escape it); doubles that are not finite are
 * dropped. */
void xs_stat_int(struct xs_builder *b, const char *name, int64_t v);
void xs_stat_uint(struct xs_builder *b, const char *name, uint64_t v);
void xs_stat_double(struct xs_builder *b, const char *name, double v);
void xs_stat_str(struct xs_builder *b, const char *name, const char *v); /* interned as a ref */
void xs_stat_bytes(struct xs_builder *b, const char *name, const void *v, size_t len);

/* Top-level texts. */
void xs_hostname(struct xs_builder *b, const char *name);
void xs_warning(struct xs_builder *b, const char *text);
void xs_error(struct xs_builder *b, const char *text);

/* Appends the XSpace to `out`; the builder is empty then. */
void xs_finish(struct xs_builder *b, struct buf *out);

/* ---- rebase ---- */

/* New time of a line from its old timestamp_ns. Called once per line. */
typedef int64_t (*xs_map_fn)(void *arg, int64_t timestamp_ns);

/* A point of the map: from_ns of one clock is to_ns of the other. */
struct xs_knot {
	int64_t from_ns, to_ns;
};

/*
 * With knots the begin and the end of each event are moved separately, by the straight line between the two
 * knots around them: that corrects a clock whose rate changed within a line. Order, nesting and adjacency of
 * events stay, to the picosecond. Before the first knot and after the last the two clocks have the same rate.
 *
 * With a window, an event's new time decides its treatment:
 *   - wholly inside [0, window_ns]: copied verbatim (an instant exactly at window_ns is outside);
 *   - overlapping it: clipped: offset and duration are those of the part inside;
 *   - outside: removed;
 *   - aggregates have no time and are kept.
 * With cut_ns the window [0, cut_ns] decides instead, and what is at or after window_ns then is moved to its end.
 * A line whose events are all removed is left out; a line that never had events is kept. A line that would
 * begin before 0 is written with timestamp 0, and its events' offsets hold the difference. All other bytes
 * are copied verbatim, including XLine.duration_ps and metadata that is not used any more.
 */
struct xs_rebase {
	xs_map_fn map; /* NULL: times stay */
	void *arg;
	int64_t window_ns; /* 0 = no window: nothing is cut, and lines may begin before 0 */
	int64_t cut_ns; /* where the window ends on a clock of another rate; 0 = window_ns. Only without knots */

	/* Applied to the result of `map`: from_ns ascending, to_ns not descending, each less than 104
	 * days after the one before. NULL: lines move as wholes. */
	const struct xs_knot *knots;
	size_t n_knots;
};

struct xs_counts {
	uint64_t planes, lines, events; /* written */
	uint64_t clipped; /* written events that the window shortened */
	uint64_t trimmed; /* events that the window removed */
	uint64_t bytes; /* written */
};

/*
 * Moves every line's timestamp_ns and copies everything else verbatim. `counts` may be NULL. Without a window
 * and without knots, events are neither decoded nor counted. The input is walked to its end before the first
 * byte is written, so a malformed one leaves no partial output (an error of the source's `read` or the sink's
 * `write` may). The source must not change meanwhile.
 */
MUST_CHECK int xs_rebase(const struct xs_source *in, const struct xs_rebase *conf,
			 const struct xs_sink *out, struct xs_counts *counts, struct err *e);

/* ---- merge ---- */

#define XS_PID_UNKNOWN (-1)

/* One process's XSpace of a host. */
struct xs_input {
	struct xs_source source;
	struct xs_rebase rebase;
	int64_t pid; /* of the process that it is from, or XS_PID_UNKNOWN; 0 = Tutti's own planes */
	const char *label; /* prefix of its warnings and errors: "jax 4711"; NULL or "": none */
};

/* A stat that is added to planes: a text, or a number where `text` is NULL. */
struct xs_known {
	const char *name, *text;
	int64_t number;
};
#define XS_KNOWN_MOST 8

struct xs_host {
	const char *hostname; /* the file's only hostname */

	/* The new Task Environment has these, and the plane stats that `environment` adds. */
	uint64_t profile_start_ns, profile_stop_ns; /* T0 and T1, Unix ns */
	const void *profile_options; /* serialized ProfileOptions, or NULL */
	size_t profile_options_len;

	/* Adds further plane stats (clock_offset_ns, ...) with xs_stat_*(); may be NULL. */
	void (*environment)(void *arg, struct xs_builder *b);
	void *arg;

	/* What is known of the process that a plane is of: sets and returns so many stats, which the plane gets, too. The
	 * process is that of the input; for Tutti's own planes, that of their stat process_id. The result must be the same
	 * each time. May be NULL. */
	size_t (*process)(void *arg, int64_t pid, struct xs_known out[XS_KNOWN_MOST]);

	const char *const *warnings, *const *errors; /* NULL-terminated, or NULL */

	/* Largest size of a file; 0: one file, of any size. */
	uint64_t file_bytes;

	/* Called before the host's n-th file (2, 3, ...) is written. Returns that file's hostname, borrowed
	 * until the next call; NULL stops the merge with ERR_LIMIT. Required with file_bytes. */
	const char *(*next_file)(void *arg, unsigned int n);

	/* Called for each plane that is left out because it is larger than a file. The errors in the files
	 * name it, too. May be NULL. */
	void (*too_large)(void *arg, size_t input, const char *plane, uint64_t bytes);
};

/*
 * Merges the inputs into one XSpace by XProf's rules (reference: docs/format.md):
 *   - exactly one plane has the name "/host:CPU": that of the first input with one, processes (pid != 0)
 *     before Tutti's own; the others become "/host:CPU [<pid>]", those of an unknown process "/host:CPU [?]",
 *     Tutti's own "/host:CPU samples";
 *   - other equal names are made distinct with " [<pid>]", and with " #2" where that is not enough;
 *   - /device:GPU:<n> and TPU planes whose number is taken get the next free one, the same for all
 *     planes of that device in that input; ids of device planes are unique and, while such ids are free,
 *     within the range that XProf shows: 499 for GPU and TPU together, 199 for CUSTOM;
 *   - each input's Task Environment and hostnames are dropped; errors and warnings are kept with their
 *     label, each once, XS_MAX_TEXTS of each;
 *   - planes of a process get the int64 stat process_id if they lack it, and what xs_host.process() knows of it;
 *   - a warning names each process whose /host:metadata, with its HLO, could not keep that name.
 * Names, ids and that stat are spliced in; everything else is as xs_rebase() writes it. Order: planes by
 * input, then Task Environment and texts. Counts are sums over all files.
 *
 * With file_bytes the output is several complete XSpaces, one after the other: planes in the same order,
 * never divided, each XSpace with Task Environment, texts and a hostname of its own.
 */
MUST_CHECK int xs_merge(const struct xs_input *inputs, size_t n, const struct xs_host *host,
			const struct xs_sink *out, struct xs_counts *counts, struct err *e);

#endif
