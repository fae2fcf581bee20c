/* SPDX-License-Identifier: Apache-2.0 */
/* Text that processes write or name: maps, command lines, the map files of JIT compilers, kallsyms, cgroups,
 * tracefs. */
#include "base/clean_text.h"
#include "agent/tracer/cgroups/groups.h"
#include "agent/tracer/cgroups/label.h"
#include "agent/perf/tracepoint.h"
#include "agent/symbols/kallsyms.h"
#include "agent/symbols/perf_map.h"
#include "agent/proc/cgroup_path.h"
#include "agent/proc/command.h"
#include "agent/proc/maps.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_cgroup(const char *text)
{
	double *v = xcalloc(cgroups_quantities(), sizeof(*v));
	char label[CGROUP_LABEL_BYTES];
	struct cgroup_owner owner;

	for (size_t i = 0; i < cgroups_files(); i++) {
		char *copy = xstrdup(text);

		cgroups_parse(i, copy, v);
		free(copy);
	}
	cgroup_label(text, label);
	cgroup_text_read(&owner, text);
	free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup(size ? (const char *)data : "", size), name[32];
	struct perf_map pm = { 0 };
	struct proc_maps maps;
	struct kallsyms ks;
	struct tracepoint tp;

	proc_maps_parse(&maps, text);
	for (size_t i = 0; i < maps.n; i++)
		if (!proc_maps_find(&maps, maps.v[i].start))
			abort();
	proc_maps_release(&maps);
	perf_map_parse(&pm, (const char *)data, size, 4096);
	for (uint64_t at = 0; at < 256; at++)
		perf_map_find(&pm, at << 4);
	perf_map_release(&pm);
	kallsyms_parse(&ks, text);
	kallsyms_find(&ks, 0xffffffff81000000);
	kallsyms_release(&ks);
	read_cgroup(text);
	if (tracepoint_parse(&tp, text, "pid") && tp.at > 4096)
		abort();
	clean_text(name, sizeof(name), (const char *)data, size);
	proc_command(text, size, name, sizeof(name));
	free(text);
	return 0;
}
