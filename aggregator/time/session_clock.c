/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/time/session_clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* False if there is no file, or if it is of an earlier boot: the raw clock began again at zero. */
static bool load(struct session_clock *c, const char *path, const char *boot_id)
{
	json_error_t why;
	json_t *doc = json_load_file(path, 0, &why);
	bool ok = doc && !strcmp(json_get_text(doc, "boot_id"), boot_id);

	if (ok) {
		c->shift_ns = json_get_int(doc, "shift_ns");
		c->epoch = strtoull(json_get_text(doc, "epoch"), NULL, 16);
	}
	json_decref(doc);
	return ok;
}

/* Written under another name and renamed: a crash leaves the old file or the new one. No flush: after a
 * reboot the file has no use. */
static void save(const struct session_clock *c, const char *path, const char *boot_id)
{
	char *fresh = xasprintf("%s.new", path), epoch[24];
	json_t *doc = json_object();

	snprintf(epoch, sizeof(epoch), "%" PRIx64, c->epoch);
	json_put_text(doc, "boot_id", boot_id);
	json_put_int(doc, "shift_ns", c->shift_ns);
	json_put_text(doc, "epoch", epoch);
	if (json_dump_file(doc, fresh, JSON_COMPACT) || rename(fresh, path))
		log_warn("AGG-CLOCK",
			 "path=%s reason=\"not written: a restart sets a new session clock\"",
			 path);
	json_decref(doc);
	free(fresh);
}

int64_t session_clock_now(const struct session_clock *c)
{
	return now_raw_ns() + c->shift_ns;
}

void session_clock_load(struct session_clock *c, const char *spool, bool needed)
{
	char *path = xasprintf("%s/" SESSION_CLOCK_FILE, spool);
	int64_t raw_ns, real_ns;
	char boot_id[64];

	c->tick_ns = now_raw_tick_ns();
	read_boot_id(boot_id, sizeof(boot_id));
	now_pair_ns(&raw_ns, &real_ns, NULL);
	c->kept = load(c, path, boot_id) &&
		  (needed || llabs(raw_ns + c->shift_ns - real_ns) < DRIFT_MAX_NS);
	if (!c->kept) {
		c->shift_ns = real_ns - raw_ns;
		random_bytes(&c->epoch, sizeof(c->epoch));
		save(c, path, boot_id);
	}
	free(path);
}
