/* SPDX-License-Identifier: Apache-2.0 */
/* Disks, GPUs and sockets of this host, and one process of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include "json/json_text.h"

#define TEXT_MOST      (8 << 20) /* of a file of /proc */
#define SPOOL	       "/var/tmp/tutti-agent" /* the agent's default */
#define SPOOL_LEAST    ((uint64_t)64 << 20) /* below it most captures fail */
#define SPOOL_PLEASANT ((uint64_t)1 << 30)
#define SHM_LEAST      ((uint64_t)16 << 20)
#define DRIVER_FOLDER  "proc/driver/nvidia"
#define ADMIN_ONLY     "RmProfilingAdminOnly: 1"

/* Whether a file of the host has this text. */
static bool file_has(const struct doctor *d, const char *path, const char *text)
{
	char *full = xasprintf("%s/%s", d->conf->root, path);
	struct buf content = BUF_INIT;
	bool found = !file_load(full, TEXT_MOST, &content, NULL) && content.len &&
		     memmem(content.data, content.len, text, strlen(text));

	buf_release(&content);
	free(full);
	return found;
}

/* ---- disks ---- */

/* Bytes that are free below the folder, or below the first one above it that is there. */
static uint64_t free_bytes(const char *folder)
{
	char *path = xstrdup(folder);
	struct statvfs s;
	uint64_t out = 0;
	char *slash;

	while (statvfs(path, &s) && (slash = strrchr(path, '/')) && slash != path)
		*slash = '\0';
	if (!statvfs(path, &s))
		out = (uint64_t)s.f_bavail * s.f_frsize;
	free(path);
	return out;
}

static void check_spool(struct doctor *d)
{
	const char *spool = json_get_text(d->agent, "spool");
	char *path = xasprintf("%s/%s", d->conf->root, *spool ? spool : SPOOL), text[16];
	uint64_t bytes = free_bytes(path);
	struct stat st;

	human_bytes((int64_t)bytes, text);
	if (!stat(path, &st) && !S_ISDIR(st.st_mode)) {
		doctor_add(d, "disk.spool", VERDICT_FAILED, "%s is no folder", path);
		doctor_fix(d, "remove it, or name another one: --spool of the agent");
	} else if (bytes < SPOOL_LEAST) {
		doctor_add(d, "disk.spool", VERDICT_FAILED, "%s free below %s", text, path);
		doctor_fix(d, "free space, or name a folder on another disk: --spool of the agent");
	} else if (bytes < SPOOL_PLEASANT) {
		doctor_add(d, "disk.spool", VERDICT_WARNING,
			   "%s free below %s: a capture of a minute may take more", text, path);
		doctor_fix(d, "free space, or name a folder on another disk: --spool of the agent");
	} else {
		doctor_add(d, "disk.spool", VERDICT_OK, "%s free below %s", text, path);
	}
	free(path);
}

/* Annotations of programs are rings in shared memory. */
static void check_shared_memory(struct doctor *d)
{
	char *path = xasprintf("%s/dev/shm", d->conf->root), text[16];
	struct stat st;
	uint64_t bytes = free_bytes(path);

	human_bytes((int64_t)bytes, text);
	if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
		doctor_add(d, "disk.shm", VERDICT_WARNING,
			   "there is no /dev/shm: programs cannot write annotations");
		doctor_fix(d, "mount -t tmpfs tmpfs /dev/shm");
	} else if (bytes < SHM_LEAST) {
		doctor_add(d, "disk.shm", VERDICT_WARNING, "%s free in /dev/shm", text);
		doctor_fix(d, "mount -o remount,size=1G /dev/shm; of a container: a larger "
			      "--shm-size, or a volume of medium Memory there");
	} else {
		doctor_add(d, "disk.shm", VERDICT_OK, "%s free in /dev/shm", text);
	}
	free(path);
}

/* ---- GPUs, PyTorch's socket ---- */

static void check_gpu(struct doctor *d)
{
	const char *nvml = doctor_tracer_state(d, "nvml");

	if (!doctor_has_file(d, DRIVER_FOLDER "/version")) {
		doctor_add(d, "gpu.counters", VERDICT_SKIPPED, "no driver of NVIDIA is loaded");
		return;
	}
	if (file_has(d, DRIVER_FOLDER "/params", ADMIN_ONLY)) {
		doctor_add(d, "gpu.counters", VERDICT_WARNING,
			   "the driver lets only root count on GPUs: jobs of others get "
			   "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES and no events of the device");
		doctor_fix(d, "echo 'options nvidia \"NVreg_RestrictProfilingToAdminUsers=0\"' > "
			      "/etc/modprobe.d/nvidia-tutti.conf && update-initramfs -u && reboot");
	} else {
		doctor_add(d, "gpu.counters", VERDICT_OK, "every program may count on GPUs");
	}
	if (!*nvml || !strcmp(nvml, "ok"))
		return;
	doctor_add(d, "gpu.nvml", VERDICT_WARNING,
		   "there is a driver of NVIDIA, and the agent cannot load libnvidia-ml.so.1");
	doctor_fix(d, "install the driver's libraries for the agent; in Kubernetes use "
		      "deploy/kubernetes/overlays/gpu");
}

static void check_kineto(struct doctor *d)
{
	bool is_taken = file_has(d, "proc/net/unix", "@dynolog\n");

	if (!strcmp(doctor_tracer_state(d, "pytorch"), "ok")) {
		doctor_add(d, "pytorch.socket", VERDICT_OK, "the agent has PyTorch's socket");
	} else if (is_taken) {
		doctor_add(d, "pytorch.socket", VERDICT_FAILED,
			   "another program has PyTorch's socket @dynolog: its processes ask "
			   "that one");
		doctor_fix(d,
			   "stop it (ss -xlp | grep dynolog names it), often dynologd: systemctl "
			   "stop dynolog; the agent takes the socket within 30 s");
	} else {
		doctor_add(d, "pytorch.socket", VERDICT_SKIPPED, "no program has PyTorch's socket");
	}
}

void doctor_check_host(struct doctor *d)
{
	check_spool(d);
	check_shared_memory(d);
	check_gpu(d);
	check_kineto(d);
}

/* ---- a process ---- */

/* Whether the agent shows a profiler of the process that answers. */
static bool has_profiler(const struct doctor *d)
{
	const json_t *jobs = json_object_get(d->agent, "jobs"), *job;
	size_t i;

	json_array_foreach(jobs, i, job)
	{
		if (json_get_int(job, "pid") == d->conf->pid &&
		    !strcmp(json_get_text(job, "state"), "ready"))
			return true;
	}
	return false;
}

static void check_pytorch(struct doctor *d, const char *environ_path)
{
	if (file_has(d, environ_path, "KINETO_USE_DAEMON=")) {
		doctor_add(d, "job.pytorch", VERDICT_OK, "PyTorch asks the agent");
		return;
	}
	doctor_add(d, "job.pytorch", VERDICT_FAILED,
		   "process %d runs PyTorch without KINETO_USE_DAEMON: it never asks the "
		   "agent",
		   d->conf->pid);
	doctor_fix(d, "start the job with KINETO_USE_DAEMON=1 in its environment");
}

static void check_profiler(struct doctor *d)
{
	if (!d->agent) {
		doctor_add(d, "job.profiler", VERDICT_SKIPPED, "only the agent knows");
	} else if (has_profiler(d)) {
		doctor_add(d, "job.profiler", VERDICT_OK, "its profiler answers the agent");
	} else {
		doctor_add(d, "job.profiler", VERDICT_FAILED,
			   "the agent finds no profiler server of process %d", d->conf->pid);
		doctor_fix(d, "call jax.profiler.start_server(9999) in the program, early; in a "
			      "pod with a network of its own, give the pod the annotation "
			      "tutti.dev/profiler-port: \"9999\"");
	}
}

void doctor_check_job(struct doctor *d)
{
	char maps[64], environment[64];
	bool is_torch, is_other;

	if (!d->conf->pid)
		return;
	snprintf(maps, sizeof(maps), "proc/%d/maps", d->conf->pid);
	snprintf(environment, sizeof(environment), "proc/%d/environ", d->conf->pid);
	if (!doctor_has_file(d, maps)) {
		doctor_add(d, "job.process", VERDICT_FAILED, "there is no process %d",
			   d->conf->pid);
		doctor_fix(d, "name a process of this host's own PID namespace: pgrep -f NAME");
		return;
	}
	is_torch = file_has(d, maps, "libtorch");
	is_other = file_has(d, maps, "xla_extension") || file_has(d, maps, "libjax") ||
		   file_has(d, maps, "_pywrap_tensorflow") || file_has(d, maps, "libtpu");
	if (is_torch)
		check_pytorch(d, environment);
	if (is_other)
		check_profiler(d);
	if (is_torch || is_other)
		return;
	doctor_add(d, "job.framework", VERDICT_WARNING,
		   "process %d has none of PyTorch, JAX, TensorFlow mapped, or its maps "
		   "may not be read",
		   d->conf->pid);
	doctor_fix(d, "run this as root; name the process that trains, not its launcher");
}
