/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tracer/nvml/devices.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/now.h"

/* ---- NVML's declarations: those of version 2 of its interface, which later drivers keep ---- */

struct utilization {
	unsigned int gpu, memory; /* per cent */
};

struct memory_v1 {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};

#define MEMORY_V2_VERSION ((unsigned int)sizeof(struct memory_v2) | 2U << 24)

enum { CLOCK_SM = 1, CLOCK_MEMORY = 2 };
enum { SENSOR_GPU = 0 };
enum { ECC_UNCORRECTED = 1, ECC_SINCE_BOOT = 0 };

typedef void (*any_fn)(void);
typedef int (*void_fn)(void);
typedef const char *(*error_fn)(int code);
typedef int (*count_fn)(unsigned int *n);
typedef int (*handle_fn)(unsigned int index, void **device);
typedef int (*struct_fn)(void *device, void *out);
typedef int (*uint_fn)(void *device, unsigned int *out);
typedef int (*kind_uint_fn)(void *device, int kind, unsigned int *out);
typedef int (*u64_fn)(void *device, unsigned long long *out);
typedef int (*ecc_fn)(void *device, int type, int since, unsigned long long *out);

/* ---- the counters: each calls one function; false = not supported ---- */

static bool read_gpu(any_fn fn, void *device, double *out)
{
	struct utilization u = { 0 };
	bool ok = !((struct_fn)fn)(device, &u);

	*out = u.gpu;
	return ok;
}

static bool read_memory_busy(any_fn fn, void *device, double *out)
{
	struct utilization u = { 0 };
	bool ok = !((struct_fn)fn)(device, &u);

	*out = u.memory;
	return ok;
}

static bool read_memory_used(any_fn fn, void *device, double *out)
{
	struct memory_v2 m = { .version = MEMORY_V2_VERSION };
	bool ok = !((struct_fn)fn)(device, &m);

	*out = (double)m.used / 1e6;
	return ok;
}

static bool read_memory_total(any_fn fn, void *device, double *out)
{
	struct memory_v1 m = { 0 };
	bool ok = !((struct_fn)fn)(device, &m);

	*out = (double)m.total / 1e6;
	return ok;
}

static bool read_milli(any_fn fn, void *device, double *out)
{
	unsigned int v = 0;
	bool ok = !((uint_fn)fn)(device, &v);

	*out = v / 1e3;
	return ok;
}

static bool read_energy(any_fn fn, void *device, double *out)
{
	unsigned long long v = 0;
	bool ok = !((u64_fn)fn)(device, &v);

	*out = (double)v / 1e3;
	return ok;
}

static bool read_temperature(any_fn fn, void *device, double *out)
{
	unsigned int v = 0;
	bool ok = !((kind_uint_fn)fn)(device, SENSOR_GPU, &v);

	*out = v;
	return ok;
}

static bool read_clock(any_fn fn, void *device, int kind, double *out)
{
	unsigned int v = 0;
	bool ok = !((kind_uint_fn)fn)(device, kind, &v);

	*out = v;
	return ok;
}

static bool read_sm_clock(any_fn fn, void *device, double *out)
{
	return read_clock(fn, device, CLOCK_SM, out);
}

static bool read_memory_clock(any_fn fn, void *device, double *out)
{
	return read_clock(fn, device, CLOCK_MEMORY, out);
}

static bool read_bits(any_fn fn, void *device, double *out)
{
	unsigned long long v = 0;
	bool ok = !((u64_fn)fn)(device, &v);

	*out = (double)v;
	return ok;
}

static bool read_ecc(any_fn fn, void *device, double *out)
{
	unsigned long long v = 0;
	bool ok = !((ecc_fn)fn)(device, ECC_UNCORRECTED, ECC_SINCE_BOOT, &v);

	*out = (double)v;
	return ok;
}

static const struct counter {
	const char *name, *symbol;
	bool (*read)(any_fn fn, void *device, double *out);
} counters[] = {
	{ "busy %", "nvmlDeviceGetUtilizationRates", read_gpu },
	{ "memory busy %", "nvmlDeviceGetUtilizationRates", read_memory_busy },
	{ "memory used MB", "nvmlDeviceGetMemoryInfo_v2", read_memory_used },
	{ "memory MB", "nvmlDeviceGetMemoryInfo", read_memory_total },
	{ "power W", "nvmlDeviceGetPowerUsage", read_milli },
	{ "energy J", "nvmlDeviceGetTotalEnergyConsumption", read_energy },
	{ "temperature C", "nvmlDeviceGetTemperature", read_temperature },
	{ "SM clock MHz", "nvmlDeviceGetClockInfo", read_sm_clock },
	{ "memory clock MHz", "nvmlDeviceGetClockInfo", read_memory_clock },
	{ "throttle reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", read_bits },
	{ "ECC errors", "nvmlDeviceGetTotalEccErrors", read_ecc },
};

/* ---- the library ---- */

struct devices {
	void *library;
	void_fn shutdown;
	any_fn fns[ARRAY_SIZE(counters)]; /* NULL = this library lacks it */
	int64_t next_mono_ns[ARRAY_SIZE(counters)]; /* not read before */
	void *v[DEVICES_MAX];
	size_t n;
};

/* The detour that POSIX gives for dlsym(): a function's address stored through a pointer to data. */
static any_fn symbol(void *library, const char *name)
{
	union {
		void *data;
		any_fn fn;
	} at = { .data = dlsym(library, name) };

	return at.fn;
}

static const char *error_text(void *library, int code)
{
	error_fn text_of = (error_fn)symbol(library, "nvmlErrorString");
	const char *text = text_of ? text_of(code) : NULL;

	return text ? text : "unknown error";
}

static int start(struct devices *d, const char *library, struct err *e)
{
	void_fn init = (void_fn)symbol(d->library, "nvmlInit_v2");
	count_fn count = (count_fn)symbol(d->library, "nvmlDeviceGetCount_v2");
	handle_fn handle = (handle_fn)symbol(d->library, "nvmlDeviceGetHandleByIndex_v2");
	unsigned int n = 0;
	int code;

	if (!init || !count || !handle)
		return err_set(e, ERR_UNSUPPORTED, "%.100s is no NVML, or one before version 4",
			       library);
	code = init();
	if (code)
		return err_set(e, ERR_IO, "NVML cannot begin: %.100s",
			       error_text(d->library, code));
	d->shutdown = (void_fn)symbol(d->library, "nvmlShutdown");
	code = count(&n);
	if (code)
		return err_set(e, ERR_IO, "NVML cannot count the devices: %.100s",
			       error_text(d->library, code));
	for (unsigned int i = 0; i < n && d->n < DEVICES_MAX; i++) {
		if (!handle(i, &d->v[d->n]))
			d->n++;
	}
	return 0;
}

int devices_open(struct devices **out, const char *library, struct err *e)
{
	struct devices *d;
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	int rc;

	if (!handle)
		return err_set(e, ERR_NOT_FOUND, "%.200s", dlerror());
	d = xcalloc(1, sizeof(*d));
	d->library = handle;
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		d->fns[i] = symbol(handle, counters[i].symbol);
	rc = start(d, library, e);
	if (rc)
		devices_free(d);
	else
		*out = d;
	return rc;
}

void devices_free(struct devices *d)
{
	if (!d)
		return;
	if (d->shutdown)
		d->shutdown();
	dlclose(d->library);
	free(d);
}

size_t devices_count(const struct devices *d)
{
	return d->n;
}

size_t devices_counters(void)
{
	return ARRAY_SIZE(counters);
}

void devices_name(size_t device, size_t counter, char *out, size_t size)
{
	snprintf(out, size, "gpu %zu %s", device, counters[counter].name);
}

/* One counter of all devices. */
static void read_counter(const struct devices *d, size_t k, double *row)
{
	for (size_t i = 0; i < d->n; i++) {
		double v;

		if (counters[k].read(d->fns[k], d->v[i], &v))
			row[i * ARRAY_SIZE(counters) + k] = v;
	}
}

void devices_read(struct devices *d, int64_t mono_ns, double *row)
{
	for (size_t i = 0; i < d->n * ARRAY_SIZE(counters); i++)
		row[i] = NAN;
	for (size_t k = 0; k < ARRAY_SIZE(counters); k++) {
		int64_t cpu_ns = now_thread_cpu_ns();

		if (!d->fns[k] || mono_ns < d->next_mono_ns[k])
			continue;
		read_counter(d, k, row);
		d->next_mono_ns[k] = mono_ns + DEVICES_REST * (now_thread_cpu_ns() - cpu_ns);
	}
}
