/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel of this host allows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/doctor.h"

#define MOUNTS_MOST (1 << 20)

/* Whether the agent says that a tracer works: then its permission is there, whatever the setting. */
static bool works(const struct doctor *d, const char *tracer)
{
	return !strcmp(doctor_tracer_state(d, tracer), "ok");
}

static void check_version(struct doctor *d)
{
	char release[128];
	int major = 0, minor = 0;

	if (!doctor_line(d, "proc/sys/kernel/osrelease", release, sizeof(release)) ||
	    sscanf(release, "%d.%d", &major, &minor) != 2) {
		doctor_add(d, "kernel.version", VERDICT_FAILED, "there is no /proc of Linux");
		doctor_fix(d, "mount -t proc proc /proc, or name the host's folder: --root");
		return;
	}
	if (major > 5 || (major == 5 && minor >= 8)) {
		doctor_add(d, "kernel.version", VERDICT_OK, "Linux %s", release);
		return;
	}
	doctor_add(d, "kernel.version", VERDICT_WARNING,
		   "Linux %s has no CAP_PERFMON and no CAP_BPF: they came with 5.8", release);
	doctor_fix(d, "grant CAP_SYS_ADMIN to the agent instead, or run Linux 5.8 or later");
}

static void check_perf(struct doctor *d)
{
	char text[32];

	if (!doctor_line(d, "proc/sys/kernel/perf_event_paranoid", text, sizeof(text))) {
		doctor_add(d, "kernel.perf_events", VERDICT_FAILED,
			   "the kernel has no perf events: no samples, no switches");
		doctor_fix(d, "run a kernel with CONFIG_PERF_EVENTS=y");
		return;
	}
	if (strtol(text, NULL, 10) <= 2 || works(d, "cpu")) {
		doctor_add(d, "kernel.perf_events", VERDICT_OK, "perf_event_paranoid is %s", text);
		return;
	}
	doctor_add(d, "kernel.perf_events", VERDICT_WARNING,
		   "perf_event_paranoid is %s: only programs with CAP_PERFMON may sample, and with "
		   "some kernels of distributions only those with CAP_SYS_ADMIN",
		   text);
	doctor_fix(d, "sysctl -w kernel.perf_event_paranoid=2 (to stay: a line "
		      "kernel.perf_event_paranoid = 2 in /etc/sysctl.d/50-tutti.conf)");
}

static void check_names(struct doctor *d)
{
	char text[32];

	if (!doctor_line(d, "proc/sys/kernel/kptr_restrict", text, sizeof(text)) ||
	    strcmp(text, "2") != 0) {
		doctor_add(d, "kernel.kptr_restrict", VERDICT_OK,
			   "programs with CAP_SYSLOG see the kernel's addresses");
		return;
	}
	doctor_add(d, "kernel.kptr_restrict", VERDICT_WARNING,
		   "kptr_restrict is 2: functions of the kernel have no names, even with "
		   "CAP_SYSLOG");
	doctor_fix(d, "sysctl -w kernel.kptr_restrict=1");
}

static void check_ptrace(struct doctor *d)
{
	char text[32];

	if (!doctor_line(d, "proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) ||
	    strcmp(text, "3") != 0) {
		doctor_add(d, "kernel.ptrace_scope", VERDICT_OK,
			   "programs with CAP_SYS_PTRACE may read others' memory");
		return;
	}
	doctor_add(d, "kernel.ptrace_scope", VERDICT_FAILED,
		   "ptrace_scope is 3: no program may read another's memory, so there are no "
		   "Python stacks and no annotations of other users");
	doctor_fix(d, "set kernel.yama.ptrace_scope = 1 in /etc/sysctl.d and boot again: 3 cannot "
		      "be taken back");
}

static void check_cgroups(struct doctor *d)
{
	if (doctor_has_file(d, "sys/fs/cgroup/cgroup.controllers") ||
	    doctor_has_file(d, "sys/fs/cgroup/unified/cgroup.controllers")) {
		doctor_add(d, "kernel.cgroups", VERDICT_OK, "cgroup v2 is mounted");
		return;
	}
	doctor_add(d, "kernel.cgroups", VERDICT_WARNING,
		   "no cgroup v2 at /sys/fs/cgroup: no numbers of pods and containers");
	doctor_fix(d, "boot with systemd.unified_cgroup_hierarchy=1; in a container, mount the "
		      "host's /sys/fs/cgroup into it");
}

/* The options of the mount at /proc. */
static bool has_hidden_processes(const struct doctor *d)
{
	struct buf mounts = BUF_INIT;
	char *path = xasprintf("%s/proc/mounts", d->conf->root);
	bool hidden = false;

	if (!file_load(path, MOUNTS_MOST, &mounts, NULL)) {
		for (const char *line = buf_str(&mounts); *line;) {
			size_t len = strcspn(line, "\n");
			char at[256] = "", options[512] = "";

			sscanf(line, "%*s %255s %*s %511s", at, options);
			if (!strcmp(at, "/proc")) {
				const char *o = strstr(options, "hidepid=");

				hidden = o && strncmp(o, "hidepid=0", 9) != 0 &&
					 strncmp(o, "hidepid=off", 11) != 0;
			}
			line += len + (line[len] == '\n');
		}
	}
	buf_release(&mounts);
	free(path);
	return hidden;
}

static void check_processes(struct doctor *d)
{
	if (!has_hidden_processes(d)) {
		doctor_add(d, "kernel.hidepid", VERDICT_OK, "/proc shows all processes");
		return;
	}
	doctor_add(d, "kernel.hidepid", VERDICT_FAILED,
		   "/proc is mounted with hidepid: an agent that is not root sees no process of "
		   "others");
	doctor_fix(d, "mount -o remount,hidepid=0 /proc, or gid=GROUP with a group of the agent's "
		      "user");
}

static void check_lockdown(struct doctor *d)
{
	char text[128];

	if (!doctor_line(d, "sys/kernel/security/lockdown", text, sizeof(text)) ||
	    !strstr(text, "[confidentiality]")) {
		doctor_add(d, "kernel.lockdown", VERDICT_OK, "the kernel may be looked at");
		return;
	}
	doctor_add(d, "kernel.lockdown", VERDICT_WARNING,
		   "the kernel is locked down (confidentiality): no wake-ups, no names of its "
		   "functions");
	doctor_fix(d, "boot with lockdown=integrity");
}

static void check_clocksource(struct doctor *d)
{
	static const char *const slow[] = { "hpet", "acpi_pm", "jiffies", "refined-jiffies" };
	static const char folder[] = "sys/devices/system/clocksource/clocksource0";
	char path[128], source[64], others[256];

	snprintf(path, sizeof(path), "%s/current_clocksource", folder);
	if (!doctor_line(d, path, source, sizeof(source))) {
		doctor_add(d, "kernel.clocksource", VERDICT_SKIPPED, "not known");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
		if (strcmp(source, slow[i]) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/available_clocksource", folder);
		doctor_line(d, path, others, sizeof(others));
		doctor_add(d, "kernel.clocksource", VERDICT_WARNING,
			   "the clock is %s: a look at it costs a microsecond (there are: %s)",
			   source, others);
		doctor_fix(d, "boot with clocksource=tsc tsc=reliable, or find out in the kernel's "
			      "log why it left tsc: dmesg | grep -i clocksource");
		return;
	}
	doctor_add(d, "kernel.clocksource", VERDICT_OK, "%s", source);
}

void doctor_check_kernel(struct doctor *d)
{
	check_version(d);
	check_perf(d);
	check_names(d);
	check_ptrace(d);
	check_cgroups(d);
	check_processes(d);
	check_lockdown(d);
	check_clocksource(d);
}
