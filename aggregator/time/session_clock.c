/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/time/session_clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/now.h"
#include "base/random.h"
#include "json/json_text.h"

#define DRIFT_MAX_NS NS_PER_S

/* Until then after a change hosts may still use the former clock: a link to an aggregator that froze ends within 20 s, and
 * a host that has not dialled within 35 s is lost to its captures. */
#define LEAVE_NS (60 * NS_PER_S)

#define HEX_BYTES 24

static void read_boot_id(char *out, size_t size)
{
	if (!file_first_line("/proc/sys/kernel/random/boot_id", out, size))
		snprintf(out, size, "unknown");
}

static void put_hex(json_t *object, const char *key, uint64_t v)
{
	char text[HEX_BYTES];

	snprintf(text, sizeof(text), "%" PRIx64, v);
	json_put_text(object, key, text);
}

static uint64_t get_hex(const json_t *object, const char *key)
{
	return strtoull(json_get_text(object, key), NULL, 16);
}

static void load_changes(struct session_clock *c, const json_t *changes)
{
	const json_t *o;
	size_t i;

	json_array_foreach(changes, i, o)
	{
		if (i == SESSION_CLOCK_CHANGES)
			break;
		c->changes[c->n_changes++] = (struct session_clock_change){
			.epoch = get_hex(o, "epoch"),
			.shift_ns = json_get_int(o, "shift_ns"),
			.from_ns = json_get_int(o, "from_ns"),
			.at_ns = json_get_int(o, "at_ns"),
			.bound_ns = json_get_int(o, "bound_ns"),
		};
	}
}

/* False if there is no file, or if it is of an earlier boot: the raw clock began again at zero. */
static bool load(struct session_clock *c, const char *path, const char *boot_id)
{
	json_error_t why;
	json_t *doc = json_load_file(path, 0, &why);
	bool ok = doc && !strcmp(json_get_text(doc, "boot_id"), boot_id);

	if (ok) {
		c->shift_ns = json_get_int(doc, "shift_ns");
		c->epoch = get_hex(doc, "epoch");
		load_changes(c, json_object_get(doc, "changes"));
	}
	json_decref(doc);
	return ok;
}

static json_t *new_document(const char *boot_id, int64_t shift_ns, uint64_t epoch)
{
	json_t *doc = json_object();

	json_put_text(doc, "boot_id", boot_id);
	json_put_int(doc, "shift_ns", shift_ns);
	put_hex(doc, "epoch", epoch);
	return doc;
}

/* Written under another name and renamed: a crash leaves the old file or the new one. No flush: after a
 * reboot the file has no use. */
static void save(json_t *doc_taken, const char *path)
{
	char *fresh = xasprintf("%s.new", path);

	if (json_dump_file(doc_taken, fresh, JSON_COMPACT) || rename(fresh, path))
		log_warn("AGG-CLOCK",
			 "path=%s reason=\"not written: a restart sets a new session clock\"",
			 path);
	json_decref(doc_taken);
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
	c->n_changes = 0;
	read_boot_id(boot_id, sizeof(boot_id));
	now_pair_ns(&raw_ns, &real_ns, NULL);
	c->kept = load(c, path, boot_id) &&
		  (needed || llabs(raw_ns + c->shift_ns - real_ns) < DRIFT_MAX_NS);
	if (!c->kept) {
		c->shift_ns = real_ns - raw_ns;
		c->n_changes = 0;
		random_bytes(&c->epoch, sizeof(c->epoch));
		save(new_document(boot_id, c->shift_ns, c->epoch), path);
	}
	free(path);
}

void session_clock_save_probe(const char *spool, int port, uint64_t cookie,
			      const struct siphash_key *key)
{
	char *path = xasprintf("%s/" SESSION_CLOCK_FILE, spool), hex[2 * sizeof(key->bytes) + 1];
	json_t *probe = json_object(), *doc;
	json_error_t why;

	doc = json_load_file(path, 0, &why);
	hex_text(hex, key->bytes, sizeof(key->bytes));
	json_put_int(probe, "port", port);
	put_hex(probe, "cookie", cookie);
	json_put_text(probe, "key", hex);
	if (doc) {
		json_put(doc, "probe", probe);
		save(doc, path);
	} else {
		json_decref(probe);
	}
	free(path);
}

/* ---- the clock of another machine ---- */

bool session_clock_is_here(const json_t *doc)
{
	char boot_id[64];

	read_boot_id(boot_id, sizeof(boot_id));
	return !strcmp(json_get_text(doc, "boot_id"), boot_id);
}

json_t *session_clock_go_on(const json_t *former, const struct session_clock_seen *seen)
{
	int64_t shift_ns = seen->lo_ns + (seen->hi_ns - seen->lo_ns) / 2;
	json_t *doc, *changes = json_array(), *o = json_object();
	const json_t *before;
	uint64_t epoch;
	char boot_id[64];
	size_t i;

	read_boot_id(boot_id, sizeof(boot_id));
	random_bytes(&epoch, sizeof(epoch));
	doc = new_document(boot_id, shift_ns, epoch);
	put_hex(o, "epoch", get_hex(former, "epoch"));
	json_put_int(o, "shift_ns", json_get_int(former, "shift_ns"));
	json_put_int(o, "from_ns", seen->from_ns);
	json_put_int(o, "at_ns", seen->raw_ns + shift_ns);
	json_put_int(o, "bound_ns", (seen->hi_ns - seen->lo_ns) / 2 + 1);
	json_array_append_new(changes, o);
	json_array_foreach(json_object_get(former, "changes"), i, before)
	{
		if (i + 1 < SESSION_CLOCK_CHANGES)
			json_array_append(changes, (json_t *)before);
	}
	json_put(doc, "changes", changes);
	return doc;
}

bool session_clock_knows(const struct session_clock *c, int64_t shift_ns)
{
	bool known = c->shift_ns == shift_ns;

	for (unsigned int i = 0; i < c->n_changes; i++)
		known = known || c->changes[i].shift_ns == shift_ns;
	return known;
}

int64_t session_clock_doubt_ns(const struct session_clock *c, int64_t t0_ns, int64_t t1_ns)
{
	int64_t doubt_ns = 0;

	for (unsigned int i = 0; i < c->n_changes; i++) {
		const struct session_clock_change *ch = &c->changes[i];
		int64_t left_ns = ch->at_ns + LEAVE_NS;
		int64_t last_ns = t1_ns < left_ns ? t1_ns : left_ns;

		if (t1_ns <= ch->from_ns || t0_ns >= left_ns)
			continue;
		doubt_ns += ch->bound_ns;
		if (last_ns > ch->at_ns)
			doubt_ns += (int64_t)(SESSION_CLOCK_DRIFT * (double)(last_ns - ch->at_ns));
	}
	return doubt_ns;
}
