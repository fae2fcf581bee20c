/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/proc/slurm_task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clean_text.h"
#include "base/file.h"

#define ENVIRON_BYTES_MAX (2 << 20)
#define NUMBER_CHARS	  18

/* The value of a variable, with its length; NULL = it is not there. */
static const char *find(const char *environment, size_t len, const char *name, size_t *n)
{
	size_t name_len = strlen(name);

	for (size_t at = 0; at < len;) {
		const char *entry = environment + at;
		size_t entry_len = strnlen(entry, len - at);

		if (entry_len > name_len && !memcmp(entry, name, name_len) &&
		    entry[name_len] == '=') {
			*n = entry_len - name_len - 1;
			return entry + name_len + 1;
		}
		at += entry_len + 1;
	}
	return NULL;
}

static void keep(char *out, size_t size, const char *environment, size_t len, const char *name)
{
	size_t n;
	const char *value = find(environment, len, name, &n);

	*out = '\0';
	if (value)
		clean_text(out, size, value, n);
}

/* A whole number in digits, or -1. */
static int64_t read_number(const char *text, size_t n)
{
	char digits[NUMBER_CHARS + 1];

	if (!text || !n || n > NUMBER_CHARS)
		return -1;
	memcpy(digits, text, n);
	digits[n] = '\0';
	return strspn(digits, "0123456789") == n ? strtoll(digits, NULL, 10) : -1;
}

static int64_t number(const char *environment, size_t len, const char *name)
{
	size_t n = 0;
	const char *value = find(environment, len, name, &n);

	return read_number(value, n);
}

/* Half a name would be another host. */
static void cut_nodes(char *nodes, size_t size)
{
	char *comma;

	if (strlen(nodes) + 1 < size)
		return;
	comma = strrchr(nodes, ',');
	if (comma)
		comma[1] = '\0';
	else
		*nodes = '\0';
}

bool slurm_task_read(struct slurm_task *out, const char *environment, size_t len)
{
	int64_t job = number(environment, len, "SLURM_JOB_ID");
	size_t n;

	*out = (struct slurm_task){ .rank = -1 };
	if (job <= 0)
		return false;
	snprintf(out->job, sizeof(out->job), "%" PRId64, job);
	keep(out->node, sizeof(out->node), environment, len, "SLURMD_NODENAME");
	keep(out->nodes, sizeof(out->nodes), environment, len, "SLURM_JOB_NODELIST");
	cut_nodes(out->nodes, sizeof(out->nodes));
	/* The batch script, and what it starts without srun, has a PROCID of 0 but is no task of a step. */
	if (find(environment, len, "SLURM_STEP_ID", &n))
		out->rank = number(environment, len, "SLURM_PROCID");
	return true;
}

bool slurm_task_of_process(struct slurm_task *out, const char *proc, int64_t pid)
{
	struct buf text = BUF_INIT;
	char path[256];
	bool found;

	*out = (struct slurm_task){ .rank = -1 };
	snprintf(path, sizeof(path), "%s/%" PRId64 "/environ", proc, pid);
	found = !file_load(path, ENVIRON_BYTES_MAX, &text, NULL) &&
		slurm_task_read(out, buf_str(&text), text.len);
	buf_release(&text);
	return found;
}
