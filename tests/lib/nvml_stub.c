/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnvidia-ml.so.1 with two devices, for hosts without any. The second one supports less. NVML_STUB_OLD leaves out functions
 * that old drivers lack; NVML_STUB_NO_DRIVER does not begin. NVIDIA's Python binding loads it, too: it is the oracle for what
 * the functions take and give (tests/unit/agent/tracer/nvml/oracle.py).
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define OK	    0
#define INVALID	    2
#define UNSUPPORTED 3
#define NO_DRIVER   9

#define MEMORY_V2 (40U | 2U << 24)

static int devices[2];

static unsigned int number(const void *device)
{
	return device == &devices[1];
}

int nvmlInit_v2(void);
int nvmlInitWithFlags(unsigned int flags);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned int *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **device);
int nvmlDeviceGetUtilizationRates(void *device, unsigned int out[2]);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long out[3]);
int nvmlDeviceGetMemoryInfo_v2(void *device, void *out);
int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius);
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned int *mhz);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits);
int nvmlDeviceGetTotalEccErrors(void *device, int type, int since, unsigned long long *n);

int nvmlInit_v2(void)
{
#ifdef NVML_STUB_NO_DRIVER
	return NO_DRIVER;
#else
	return OK;
#endif
}

int nvmlInitWithFlags(unsigned int flags)
{
	(void)flags;
	return nvmlInit_v2();
}

int nvmlShutdown(void)
{
	return OK;
}

const char *nvmlErrorString(int code)
{
	return code == NO_DRIVER ? "Driver Not Loaded" : code ? "Not Supported" : "Success";
}

int nvmlDeviceGetCount_v2(unsigned int *n)
{
	*n = 2;
	return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **device)
{
	if (i > 1)
		return INVALID;
	*device = &devices[i];
	return OK;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned int out[2])
{
	out[0] = 42 + number(device);
	out[1] = 13;
	return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long out[3])
{
	out[0] = 80000000000 + number(device);
	out[1] = 60000000000;
	out[2] = 20000000000 + number(device);
	return OK;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts)
{
	*milliwatts = 312500 + number(device);
	return OK;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius)
{
	*celsius = 61 + number(device);
	return sensor ? INVALID : OK;
}

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned int *mhz)
{
	*mhz = (clock == 1 ? 1755 : 2619) + number(device);
	return clock == 1 || clock == 2 ? OK : INVALID;
}

#ifndef NVML_STUB_OLD

int nvmlDeviceGetMemoryInfo_v2(void *device, void *out)
{
	struct {
		unsigned int version;
		unsigned long long total, reserved, free, used;
	} *m = out;

	if (m->version != MEMORY_V2)
		return INVALID;
	m->total = 80000000000;
	m->reserved = 1000000;
	m->free = 60000000000;
	m->used = 19000000000 + number(device);
	return OK;
}

/* Driver 580 takes 4 ms of CPU for it on an H200, and 2 us for each of the others. */
static void take_time(void)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 4000000);
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
	take_time();
	*millijoules = 123456789;
	return number(device) ? UNSUPPORTED : OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits)
{
	*bits = 4;
	return number(device) ? UNSUPPORTED : OK;
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int since, unsigned long long *n)
{
	*n = 7;
	return number(device) || type != 1 || since ? UNSUPPORTED : OK;
}

#endif
