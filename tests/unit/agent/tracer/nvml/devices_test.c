/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML by its stub: devices_test NEW OLD NO_DRIVER, the stub's three builds. devices_test --print NEW prints what is read, for
 * oracle.py.
 */
#include "agent/tracer/nvml/devices.h"

#include <math.h>

#include "base/mem.h"
#include "base/now.h"
#include "tests/lib/check.h"

static struct devices *open_stub(const char *path)
{
	struct devices *d;
	struct err e;

	CHECK_OK(devices_open(&d, path, &e), e);
	CHECK_EQ(devices_count(d), 2u);
	return d;
}

static double *read_row_at(struct devices *d, int64_t mono_ns)
{
	double *row = xcalloc(devices_count(d) * devices_counters(), sizeof(*row));

	devices_read(d, mono_ns, row);
	return row;
}

static double *read_row(struct devices *d)
{
	return read_row_at(d, 0);
}

static double value_of(const double *row, const char *wanted)
{
	char name[64];

	for (size_t i = 0; i < 2 * devices_counters(); i++) {
		devices_name(i / devices_counters(), i % devices_counters(), name, sizeof(name));
		if (!strcmp(name, wanted))
			return row[i];
	}
	fprintf(stderr, "no %s\n", wanted);
	exit(1);
}

static void test_new(const char *path)
{
	struct devices *d = open_stub(path);
	double *row = read_row(d);

	CHECK(value_of(row, "gpu 0 busy %") == 42 && value_of(row, "gpu 1 busy %") == 43);
	CHECK(value_of(row, "gpu 0 power W") == 312.5);
	CHECK(value_of(row, "gpu 0 memory used MB") == 19000);
	CHECK(value_of(row, "gpu 0 ECC errors") == 7);
	CHECK(isnan(value_of(row, "gpu 1 ECC errors"))); /* of a device that does not support it */
	CHECK(isnan(value_of(row, "gpu 1 energy J")));
	free(row);
	devices_free(d);
}

/* Each function that is missing is one number that is missing. */
static void test_old(const char *path)
{
	struct devices *d = open_stub(path);
	double *row = read_row(d);

	CHECK(isnan(value_of(row, "gpu 0 memory used MB")) &&
	      isnan(value_of(row, "gpu 0 energy J")));
	CHECK(value_of(row, "gpu 0 memory MB") == 80000 &&
	      value_of(row, "gpu 0 SM clock MHz") == 1755);
	free(row);
	devices_free(d);
}

/* What takes 4 ms is read every 8 s or less often, what takes no time always. */
static void test_slow(const char *path)
{
	static const struct {
		int64_t mono_ns;
		bool has_energy;
	} readings[] = { { 0, true },
			 { NS_PER_S, false },
			 { 7 * NS_PER_S, false },
			 { 3600 * NS_PER_S, true },
			 { 3601 * NS_PER_S, false } };
	struct devices *d = open_stub(path);

	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		double *row = read_row_at(d, readings[i].mono_ns);

		CHECK_EQ(isnan(value_of(row, "gpu 0 energy J")) == 0, readings[i].has_energy);
		CHECK(value_of(row, "gpu 0 memory MB") == 80000);
		free(row);
	}
	devices_free(d);
}

static void test_failures(const char *no_driver)
{
	struct devices *d;
	struct err e;

	CHECK_EQ(devices_open(&d, "libno-such-library.so.1", &e), ERR_NOT_FOUND);
	CHECK(strstr(e.msg, "libno-such-library.so.1"));
	CHECK_EQ(devices_open(&d, "libm.so.6", &e), ERR_UNSUPPORTED);
	CHECK_EQ(devices_open(&d, no_driver, &e), ERR_IO);
	CHECK(strstr(e.msg, "Driver Not Loaded"));
}

static void print(const char *path)
{
	struct devices *d = open_stub(path);
	double *row = read_row(d);
	char name[64];

	for (size_t i = 0; i < 2 * devices_counters(); i++) {
		devices_name(i / devices_counters(), i % devices_counters(), name, sizeof(name));
		printf("%s\t%.17g\n", name, row[i]);
	}
	free(row);
	devices_free(d);
}

int main(int argc, char **argv)
{
	CHECK(argc >= 3);
	if (!strcmp(argv[1], "--print")) {
		print(argv[2]);
		return 0;
	}
	CHECK_EQ(argc, 4);
	test_new(argv[1]);
	test_old(argv[2]);
	test_slow(argv[1]);
	test_failures(argv[3]);
	return 0;
}
