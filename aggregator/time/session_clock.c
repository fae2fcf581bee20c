/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/time/session_clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/aggregator.h"
#include "base/file.h"
#include "json/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"

#define DRIFT_MAX_NS NS_PER_S

static void read_boot_id(char *out, size_t size)
{
	if (!file_first_line("/proc/sys/kernel/random/boot_id", out, size))
		snprintf(out, size, "unknown");
}

/* False: there is none, or it is of another boot, where RAW began anew. */
static bool load(const char *path, const char *boot_id, int64_t *shift_ns, uint64_t *epoch)
{
	json_error_t why;
	json_t *doc = json_load_file(path, 0, &why);
	bool ok = doc && !strcmp(json_get_text(doc, "boot_id"), boot_id);

	if (ok) {
		*shift_ns = json_get_int(doc, "shift_ns");
		*epoch = strtoull(json_get_text(doc, "epoch"), NULL, 16);
	}
	json_decref(doc);
	return ok;
}

/* Written beside and renamed: a crash leaves the old one or the new. It need not outlive the boot. */
static void save(const struct aggregator *agg, const char *path, const char *boot_id)
{
	char *fresh = xasprintf("%s.new", path), epoch[24];
	json_t *doc = json_object();

	snprintf(epoch, sizeof(epoch), "%" PRIx64, agg->clock_epoch);
	json_put_text(doc, "boot_id", boot_id);
	json_put_int(doc, "shift_ns", agg->session_clock_shift_ns);
	json_put_text(doc, "epoch", epoch);
	if (json_dump_file(doc, fresh, JSON_COMPACT) || rename(fresh, path))
		log_warn("AGG-CLOCK",
			 "path=%s reason=\"the session clock is not kept over a restart\"", path);
	json_decref(doc);
	free(fresh);
}

void session_clock_start(struct aggregator *agg)
{
	char *path = xasprintf("%s/" SESSION_CLOCK_FILE, agg->conf.spool);
	int64_t raw_ns, real_ns, shift_ns = 0;
	char boot_id[64];
	uint64_t epoch;

	read_boot_id(boot_id, sizeof(boot_id));
	now_pair_ns(&raw_ns, &real_ns, NULL);
	agg->clock_kept = load(path, boot_id, &shift_ns, &epoch) &&
			  (json_array_size(agg->plans) ||
			   llabs(raw_ns + shift_ns - real_ns) < DRIFT_MAX_NS);
	if (agg->clock_kept) {
		agg->session_clock_shift_ns = shift_ns;
		agg->clock_epoch = epoch;
	} else {
		agg->session_clock_shift_ns = real_ns - raw_ns;
		random_bytes(&agg->clock_epoch, sizeof(agg->clock_epoch));
		save(agg, path, boot_id);
	}
	free(path);
}
