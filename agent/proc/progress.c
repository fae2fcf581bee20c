/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

/* What it does now: nothing if that could not be read, as of a process that has ended. */
static struct proc_progress now(uint32_t pid)
{
	struct proc_progress out = { .is_asleep = false };
	struct buf text = BUF_INIT;
	char path[32];
	const char *state;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	if (!file_load(path, 1 << 20, &text, NULL)) {
		state = strstr(buf_str(&text), "\nState:\t");
		out.is_asleep = state && state[8] != 'R';
		out.switches = number_after(buf_str(&text), "\nvoluntary_ctxt_switches:") +
			       number_after(buf_str(&text), "\nnonvoluntary_ctxt_switches:");
	}
	buf_release(&text);
	return out;
}

int proc_progress_look(struct proc_progress *p, uint32_t pid)
{
	struct proc_progress is = now(pid);

	if (is.is_asleep && p->is_asleep && is.switches == p->switches)
		is.same = p->same + 1;
	*p = is;
	return p->same;
}
