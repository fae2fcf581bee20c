/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/metrics/readings.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc/numbers.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/now.h"

/* The quantities in the files; each parser below fills in those of its file. */
enum quantity {
	CPU_USER,
	CPU_NICE,
	CPU_SYSTEM,
	CPU_IDLE,
	CPU_IOWAIT,
	CPU_IRQ,
	CPU_STEAL,
	SWITCHES,
	INTERRUPTS,
	FORKS,
	RUNNING,
	BLOCKED,
	MEM_TOTAL,
	MEM_FREE,
	MEM_AVAILABLE,
	MEM_CACHED,
	MEM_DIRTY,
	SWAP_TOTAL,
	SWAP_FREE,
	LOAD,
	NET_RX_BYTES,
	NET_TX_BYTES,
	NET_RX_PACKETS,
	NET_TX_PACKETS,
	NET_LOST,
	DISK_READ,
	DISK_WRITTEN,
	DISK_OPS,
	FAULTS,
	MAJOR_FAULTS,
	SWAP_IN,
	SWAP_OUT,
	PSI_CPU_SOME,
	PSI_MEMORY_SOME,
	PSI_MEMORY_FULL,
	PSI_IO_SOME,
	PSI_IO_FULL,
	QUANTITIES
};

enum computation {
	AS_IS, /* the quantity itself */
	MINUS, /* the quantity `other` minus this one */
	PER_SECOND, /* growth of a counter per second */
	CPU_SHARE, /* growth of a counter as a share of the growth of all CPU modes */
};

static const struct column {
	const char *name;
	enum quantity what;
	enum computation computation;
	double scale;
	enum quantity other;
} columns[] = {
	{ "cpu user %", CPU_USER, CPU_SHARE, 100, 0 },
	{ "cpu nice %", CPU_NICE, CPU_SHARE, 100, 0 },
	{ "cpu system %", CPU_SYSTEM, CPU_SHARE, 100, 0 },
	{ "cpu idle %", CPU_IDLE, CPU_SHARE, 100, 0 },
	{ "cpu iowait %", CPU_IOWAIT, CPU_SHARE, 100, 0 },
	{ "cpu irq %", CPU_IRQ, CPU_SHARE, 100, 0 },
	{ "cpu steal %", CPU_STEAL, CPU_SHARE, 100, 0 },
	{ "context switches per s", SWITCHES, PER_SECOND, 1, 0 },
	{ "interrupts per s", INTERRUPTS, PER_SECOND, 1, 0 },
	{ "forks per s", FORKS, PER_SECOND, 1, 0 },
	{ "tasks running", RUNNING, AS_IS, 1, 0 },
	{ "tasks blocked", BLOCKED, AS_IS, 1, 0 },
	{ "load 1 min", LOAD, AS_IS, 1, 0 },
	{ "mem available MB", MEM_AVAILABLE, AS_IS, 1e-6, 0 },
	{ "mem used MB", MEM_AVAILABLE, MINUS, 1e-6, MEM_TOTAL },
	{ "mem free MB", MEM_FREE, AS_IS, 1e-6, 0 },
	{ "mem page cache MB", MEM_CACHED, AS_IS, 1e-6, 0 },
	{ "mem dirty MB", MEM_DIRTY, AS_IS, 1e-6, 0 },
	{ "swap used MB", SWAP_FREE, MINUS, 1e-6, SWAP_TOTAL },
	{ "net rx MB/s", NET_RX_BYTES, PER_SECOND, 1e-6, 0 },
	{ "net tx MB/s", NET_TX_BYTES, PER_SECOND, 1e-6, 0 },
	{ "net rx packets per s", NET_RX_PACKETS, PER_SECOND, 1, 0 },
	{ "net tx packets per s", NET_TX_PACKETS, PER_SECOND, 1, 0 },
	{ "net errors and drops per s", NET_LOST, PER_SECOND, 1, 0 },
	{ "disk read MB/s", DISK_READ, PER_SECOND, 1e-6, 0 },
	{ "disk write MB/s", DISK_WRITTEN, PER_SECOND, 1e-6, 0 },
	{ "disk operations per s", DISK_OPS, PER_SECOND, 1, 0 },
	{ "page faults per s", FAULTS, PER_SECOND, 1, 0 },
	{ "major page faults per s", MAJOR_FAULTS, PER_SECOND, 1, 0 },
	{ "swap in pages per s", SWAP_IN, PER_SECOND, 1, 0 },
	{ "swap out pages per s", SWAP_OUT, PER_SECOND, 1, 0 },
	/* Pressure stall totals are microseconds: growth per second as a share of time. */
	{ "pressure cpu some %", PSI_CPU_SOME, PER_SECOND, 1e-4, 0 },
	{ "pressure memory some %", PSI_MEMORY_SOME, PER_SECOND, 1e-4, 0 },
	{ "pressure memory full %", PSI_MEMORY_FULL, PER_SECOND, 1e-4, 0 },
	{ "pressure io some %", PSI_IO_SOME, PER_SECOND, 1e-4, 0 },
	{ "pressure io full %", PSI_IO_FULL, PER_SECOND, 1e-4, 0 },
};

/* Linux counts sectors of 512 bytes, whatever the disk's are. */
#define SECTOR_BYTES   512.0
#define FILE_BYTES_MAX (256 << 10)

#define SLOW_NS (500 * NS_PER_MS)

/* Counters of one CPU, in ticks. */
struct core {
	double busy, total; /* NaN = not seen */
};

struct reading {
	double v[QUANTITIES]; /* NaN = not seen */
	struct core *cores;
	size_t n_cores;
};

static void add_to(struct reading *r, enum quantity q, double v)
{
	r->v[q] = isnan(r->v[q]) ? v : r->v[q] + v;
}

/* "key value" or "key: value kB". */
struct keyed {
	const char *key;
	enum quantity what;
	double scale;
};

static void parse_keyed(const struct keyed *table, const char *line, struct reading *r)
{
	for (; table->key; table++) {
		const char *rest;
		double v;

		if (table->key[0] != line[0])
			continue;
		rest = text_after(line, table->key);
		if (rest && numbers_parse(rest, &v, 1) == 1)
			r->v[table->what] = v * table->scale;
	}
}

/* "cpu17 user nice system idle iowait irq softirq steal ..." */
static void parse_core(const char *line, struct reading *r)
{
	enum { IDLE = 3, IOWAIT = 4, MODES = 8 };
	const char *rest = text_after(line, "cpu");
	double number, v[MODES], total = 0;

	if (!rest || numbers_parse(rest, &number, 1) != 1 || number >= (double)r->n_cores ||
	    numbers_parse(strchr(rest, ' ') ? strchr(rest, ' ') : "", v, MODES) < MODES)
		return;
	for (size_t i = 0; i < MODES; i++)
		total += v[i];
	r->cores[(size_t)number] = (struct core){ .busy = total - v[IDLE] - v[IOWAIT],
						  .total = total };
}

static void parse_stat(const char *line, struct reading *r)
{
	static const struct keyed keys[] = {
		{ "ctxt ", SWITCHES, 1 },	  { "intr ", INTERRUPTS, 1 },
		{ "processes ", FORKS, 1 },	  { "procs_running ", RUNNING, 1 },
		{ "procs_blocked ", BLOCKED, 1 }, { NULL, 0, 0 },
	};
	static const enum quantity modes[] = { CPU_USER,   CPU_NICE, CPU_SYSTEM, CPU_IDLE,
					       CPU_IOWAIT, CPU_IRQ,  CPU_IRQ,	 CPU_STEAL };
	const char *rest = text_after(line, "cpu ");
	double v[ARRAY_SIZE(modes)];
	size_t n = rest ? numbers_parse(rest, v, ARRAY_SIZE(v)) : 0;

	for (size_t i = 0; i < n; i++)
		add_to(r, modes[i], v[i]);
	if (text_after(line, "cpu"))
		parse_core(line, r);
	else
		parse_keyed(keys, line, r);
}

static void parse_meminfo(const char *line, struct reading *r)
{
	static const struct keyed keys[] = {
		{ "MemTotal:", MEM_TOTAL, 1024 },
		{ "MemFree:", MEM_FREE, 1024 },
		{ "MemAvailable:", MEM_AVAILABLE, 1024 },
		{ "Cached:", MEM_CACHED, 1024 },
		{ "Dirty:", MEM_DIRTY, 1024 },
		{ "SwapTotal:", SWAP_TOTAL, 1024 },
		{ "SwapFree:", SWAP_FREE, 1024 },
		{ NULL, 0, 0 },
	};

	parse_keyed(keys, line, r);
}

static void parse_vmstat(const char *line, struct reading *r)
{
	static const struct keyed keys[] = {
		{ "pgfault ", FAULTS, 1 },
		{ "pgmajfault ", MAJOR_FAULTS, 1 },
		{ "pswpin ", SWAP_IN, 1 },
		{ "pswpout ", SWAP_OUT, 1 },
		{ NULL, 0, 0 },
	};

	parse_keyed(keys, line, r);
}

static void parse_loadavg(const char *line, struct reading *r)
{
	double v;

	if (numbers_parse(line, &v, 1) == 1)
		r->v[LOAD] = v;
}

/* "eth0: rx bytes packets errs drop fifo frame compressed multicast, tx the same first five". */
static void parse_net_dev(const char *line, struct reading *r)
{
	const char *colon = strchr(line, ':');
	double v[12];

	line += strspn(line, " ");
	if (!colon || text_after(line, "lo:") ||
	    numbers_parse(colon + 1, v, ARRAY_SIZE(v)) < ARRAY_SIZE(v))
		return;
	add_to(r, NET_RX_BYTES, v[0]);
	add_to(r, NET_RX_PACKETS, v[1]);
	add_to(r, NET_TX_BYTES, v[8]);
	add_to(r, NET_TX_PACKETS, v[9]);
	add_to(r, NET_LOST, v[2] + v[3] + v[10] + v[11]);
}

/* Whether to leave a device out: it is no disk, or its traffic is counted at the disks below it. */
static bool is_excluded_device(const char *name)
{
	static const char *const prefixes[] = { "loop", "ram", "zram", "dm-",
						"md",	"sr",  "fd",   "nbd" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (text_after(name, prefixes[i]))
			return true;
	return false;
}

/* Whether this is a partition: sda1 of sda, nvme0n1p1 of nvme0n1. There is a 'p' only after a disk's name
 * that ends in a digit. */
static bool is_partition(const char *name)
{
	size_t stem = strlen(name);

	while (stem && name[stem - 1] >= '0' && name[stem - 1] <= '9')
		stem--;
	if (!name[stem] || stem < 2)
		return false;
	if (text_after(name, "sd") || text_after(name, "vd") || text_after(name, "hd") ||
	    text_after(name, "xvd"))
		return true;
	return name[stem - 1] == 'p' && name[stem - 2] >= '0' && name[stem - 2] <= '9';
}

/* "major minor name reads merged sectors ms writes merged sectors ms ..." */
static void parse_diskstats(const char *line, struct reading *r)
{
	char name[64];
	int at = 0;
	double v[7];

	if (sscanf(line, "%*d %*d %63s%n", name, &at) != 1 || is_excluded_device(name) ||
	    is_partition(name))
		return;
	if (numbers_parse(line + at, v, ARRAY_SIZE(v)) < ARRAY_SIZE(v))
		return;
	add_to(r, DISK_OPS, v[0] + v[4]);
	add_to(r, DISK_READ, v[2] * SECTOR_BYTES);
	add_to(r, DISK_WRITTEN, v[6] * SECTOR_BYTES);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123" */
static void parse_pressure(const char *line, struct reading *r, enum quantity some,
			   enum quantity full)
{
	const char *total = strstr(line, "total=");
	double v;

	if (!total || numbers_parse(total + 6, &v, 1) != 1)
		return;
	if (text_after(line, "some "))
		r->v[some] = v;
	else if (text_after(line, "full ") && full != QUANTITIES)
		r->v[full] = v;
}

static void parse_pressure_cpu(const char *line, struct reading *r)
{
	parse_pressure(line, r, PSI_CPU_SOME, QUANTITIES);
}

static void parse_pressure_memory(const char *line, struct reading *r)
{
	parse_pressure(line, r, PSI_MEMORY_SOME, PSI_MEMORY_FULL);
}

static void parse_pressure_io(const char *line, struct reading *r)
{
	parse_pressure(line, r, PSI_IO_SOME, PSI_IO_FULL);
}

/* Each file takes the kernel some 10 us, and more with cold caches. So the slow ones are read only twice a second:
 * all but those of CPUs and network, which show collectives and stalls. */
static const struct source {
	const char *path;
	void (*parse_line)(const char *line, struct reading *r);
	bool slow;
} sources[] = {
	{ "stat", parse_stat, false },
	{ "net/dev", parse_net_dev, false },
	{ "meminfo", parse_meminfo, true },
	{ "loadavg", parse_loadavg, true },
	{ "diskstats", parse_diskstats, true },
	{ "vmstat", parse_vmstat, true },
	{ "pressure/cpu", parse_pressure_cpu, true },
	{ "pressure/memory", parse_pressure_memory, true },
	{ "pressure/io", parse_pressure_io, true },
};

struct readings {
	int fds[ARRAY_SIZE(sources)]; /* -1 = not there */
	char *text; /* FILE_BYTES_MAX + 1 */
	int64_t slow_raw_ns; /* when the slow files were last read; 0 = never */
	struct reading last; /* the newest value of each quantity */
	int64_t last_raw_ns[QUANTITIES]; /* and its time */
	struct reading now;
};

size_t readings_count(const struct readings *pm)
{
	return ARRAY_SIZE(columns) + pm->last.n_cores;
}

const char *readings_name(size_t column, char text[READINGS_NAME_BYTES])
{
	if (column < ARRAY_SIZE(columns))
		return columns[column].name;
	snprintf(text, READINGS_NAME_BYTES, "cpu %zu busy %%", column - ARRAY_SIZE(columns));
	return text;
}

static void clear(struct reading *r)
{
	for (size_t q = 0; q < QUANTITIES; q++)
		r->v[q] = NAN;
	for (size_t i = 0; i < r->n_cores; i++)
		r->cores[i] = (struct core){ NAN, NAN };
}

/* As many columns as the host may have CPUs: one may come online later. */
static void make_cores(struct readings *pm)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);

	pm->now.n_cores = pm->last.n_cores = n > 0 ? (size_t)n : 1;
	pm->now.cores = xcalloc(pm->now.n_cores, sizeof(*pm->now.cores));
	pm->last.cores = xcalloc(pm->now.n_cores, sizeof(*pm->last.cores));
}

struct readings *readings_open(const char *root)
{
	struct readings *pm = xcalloc(1, sizeof(*pm));

	pm->text = xmalloc(FILE_BYTES_MAX + 1);
	make_cores(pm);
	clear(&pm->last);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		char *path = xasprintf("%s/%s", root, sources[i].path);

		pm->fds[i] = open(path, O_RDONLY | O_CLOEXEC);
		free(path);
	}
	return pm;
}

void readings_free(struct readings *pm)
{
	if (!pm)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (pm->fds[i] >= 0)
			close(pm->fds[i]);
	free(pm->now.cores);
	free(pm->last.cores);
	free(pm->text);
	free(pm);
}

size_t readings_files(const struct readings *pm)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		n += pm->fds[i] >= 0;
	return n;
}

static size_t read_whole(int fd, char *text)
{
	ssize_t n = file_read_up_to(fd, 0, text, FILE_BYTES_MAX);
	size_t len = n < 0 ? 0 : (size_t)n;

	text[len] = '\0';
	return len;
}

static void read_source(struct readings *pm, size_t i, struct reading *r)
{
	char *line = pm->text, *end;

	if (pm->fds[i] < 0 || !read_whole(pm->fds[i], pm->text))
		return;
	for (; *line; line = end + 1) {
		end = strchr(line, '\n');
		if (!end)
			return; /* an incomplete last line: its numbers may be cut */
		*end = '\0';
		sources[i].parse_line(line, r);
	}
}

/* NaN if the counter is new or went back (the sum loses the share of a removed device). */
static double counter_growth(const struct reading *now, const struct reading *last, enum quantity q)
{
	double d = now->v[q] - last->v[q];

	return d >= 0 ? d : NAN;
}

static double cpu_total(const struct reading *now, const struct reading *last)
{
	double sum = 0;

	for (enum quantity q = CPU_USER; q <= CPU_STEAL; q++) {
		double d = counter_growth(now, last, q);

		sum += isnan(d) ? 0 : d;
	}
	return sum;
}

static double column_value(const struct readings *pm, const struct column *c,
			   const struct reading *now, int64_t raw_ns)
{
	double by;

	if (c->computation == AS_IS)
		return now->v[c->what] * c->scale;
	if (c->computation == MINUS)
		return (now->v[c->other] - now->v[c->what]) * c->scale;
	if (c->computation == CPU_SHARE)
		by = cpu_total(now, &pm->last);
	else
		by = (double)(raw_ns - pm->last_raw_ns[c->what]) / (double)NS_PER_S;
	return by > 0 ? counter_growth(now, &pm->last, c->what) / by * c->scale : NAN;
}

static void keep(struct readings *pm, const struct reading *now, int64_t raw_ns)
{
	for (size_t q = 0; q < QUANTITIES; q++) {
		if (isnan(now->v[q]))
			continue;
		pm->last.v[q] = now->v[q];
		pm->last_raw_ns[q] = raw_ns;
	}
	for (size_t i = 0; i < now->n_cores; i++) {
		if (!isnan(now->cores[i].total))
			pm->last.cores[i] = now->cores[i];
	}
}

/* NaN as for other counters, and for a CPU that was offline and counted nothing. */
static double core_busy(const struct core *now, const struct core *last)
{
	double busy = now->busy - last->busy, total = now->total - last->total;

	return total > 0 && busy >= 0 ? 100 * busy / total : NAN;
}

void readings_read(struct readings *pm, int64_t raw_ns, double *row)
{
	/* A little less than SLOW_NS, because after a late reading the next one comes sooner. */
	bool slow = !pm->slow_raw_ns || raw_ns - pm->slow_raw_ns >= SLOW_NS - SLOW_NS / 10;
	struct reading *now = &pm->now;

	clear(now);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (slow || !sources[i].slow)
			read_source(pm, i, now);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		row[i] = column_value(pm, &columns[i], now, raw_ns);
	for (size_t i = 0; i < now->n_cores; i++)
		row[ARRAY_SIZE(columns) + i] = core_busy(&now->cores[i], &pm->last.cores[i]);
	keep(pm, now, raw_ns);
	if (slow)
		pm->slow_raw_ns = raw_ns;
}
