/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/captures/arm_message.h"

#include <stdio.h>
#include <stdlib.h>

#include "aggregator/captures/capture_impl.h"
#include "aggregator/captures/options.h"
#include "aggregator/fleet/messages.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/limits.h"
#include "proto/setting.h"
#include "proto/tutti/v1/control.pb-c.h"

typedef Tutti__V1__Arm__SettingsEntry settings_entry;

/* Adds an entry to the protobuf map; copies the text. */
static void add_setting(Tutti__V1__Arm *arm, const char *key, const json_t *value)
{
	settings_entry *entry = xmalloc(sizeof(*entry));
	char number[24];
	const char *text = setting_text(value, number);

	tutti__v1__arm__settings_entry__init(entry);
	entry->key = (char *)key;
	entry->value = xstrdup(text ? text : "");
	arm->settings[arm->n_settings++] = entry;
}

/* Steps for a tracer whose processes count them. Not for a retry: the steps have passed. */
static void add_steps(Tutti__V1__Arm *arm, const struct capture *c, char keys[2][64])
{
	int64_t values[] = { c->step_plan.step, c->n_steps };

	if (!*c->step_tracer || capture_is_retry(c))
		return;
	snprintf(keys[0], sizeof(keys[0]), "%s.first_step", c->step_tracer);
	snprintf(keys[1], sizeof(keys[1]), "%s.steps", c->step_tracer);
	for (size_t i = 0; i < 2; i++) {
		json_t *value = json_integer(values[i]);

		if (!json_object_get(c->settings, keys[i]))
			add_setting(arm, keys[i], value);
		json_decref(value);
	}
}

static size_t count_names(char **names)
{
	size_t n = 0;

	while (names && names[n])
		n++;
	return n;
}

/* Each host sends two probes per gap, and all hosts together at most LIMIT_PROBES_PER_S. */
static uint32_t probe_gap_ms(const struct capture *c)
{
	return (uint32_t)(c->n_hosts * 2 * 1000 / LIMIT_PROBES_PER_S);
}

void message_arm(struct buf *out, const struct capture *c, int64_t t0_ns)
{
	Tutti__V1__Arm arm = TUTTI__V1__ARM__INIT;
	Tutti__V1__AggregatorMessage m = TUTTI__V1__AGGREGATOR_MESSAGE__INIT;
	char note[160], *notes[] = { note }, keys[2][64];
	const char *key;
	json_t *value;

	arm.session = c->session;
	arm.t0_ns = t0_ns;
	arm.duration_ns = c->duration_ns;
	arm.profile_options = (ProtobufCBinaryData){ c->options_len, c->options };
	arm.tracers = c->tracers;
	arm.n_tracers = count_names(c->tracers);
	arm.upload_deadline_ns = c->last_ns;
	arm.gather_by_ns = capture_gather_by(c, t0_ns + c->duration_ns);
	arm.probe_gap_ms = probe_gap_ms(c);
	if (t0_ns != c->t0_ns) {
		snprintf(note, sizeof(note),
			 "recorded again by a retry: this window begins %.3f s after that of the "
			 "session's other hosts",
			 (double)(t0_ns - c->t0_ns) / NS_PER_S);
		arm.notes = notes;
		arm.n_notes = 1;
	}
	arm.settings = xcalloc(json_object_size(c->settings) + 2, sizeof(settings_entry *));
	json_object_foreach(c->settings, key, value)
	{
		if (setting_is_of_tracer(key) || !strcmp(key, "python_tracer_level"))
			add_setting(&arm, key, value);
	}
	add_steps(&arm, c, keys);
	m.kind_case = TUTTI__V1__AGGREGATOR_MESSAGE__KIND_ARM;
	m.arm = &arm;
	message_pack(out, &m);
	for (size_t i = 0; i < arm.n_settings; i++) {
		free(arm.settings[i]->value);
		free(arm.settings[i]);
	}
	free(arm.settings);
}
