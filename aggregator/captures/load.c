/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a capture, without its hosts, from the plan in its ledger or from its manifest. */
#include "aggregator/captures/capture_impl.h"

#include <string.h>

#include "json/json_text.h"
#include "aggregator/captures/options.h"
#include "base/mem.h"

static int hex_digit(char ch)
{
	return ch >= '0' && ch <= '9' ? ch - '0' : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* False if `hex` is not hex digits of whole bytes. */
static bool load_hex(struct capture *c, const char *hex)
{
	size_t n = strlen(hex) / 2;

	c->options = xmalloc(n + 1);
	c->options_len = n;
	for (size_t i = 0; i < n; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		c->options[i] = (uint8_t)(high << 4 | low);
	}
	return !hex[2 * n];
}

static void load_tracers(struct capture *c, const json_t *names)
{
	size_t n = json_array_size(names);

	if (!n)
		return;
	c->tracers = xcalloc(n + 1, sizeof(char *));
	for (size_t i = 0; i < n; i++) {
		const char *name = json_string_value(json_array_get(names, i));

		c->tracers[i] = xstrdup(name ? name : "");
	}
}

void capture_load(struct capture *c, const json_t *names, const json_t *doc)
{
	const json_t *settings = json_object_get(doc, "settings");
	const json_t *warnings = json_object_get(doc, "warnings");

	c->session = xstrdup(json_get_text(names, "session"));
	c->run = xstrdup(json_get_text(names, "run"));
	c->origin = xstrdup(json_get_text(doc, "origin"));
	c->owner = xstrdup(json_get_text(doc, "owner"));
	spaces_read(&c->spaces, json_object_get(doc, "namespaces"));
	c->client_session = xstrdup(json_get_text(doc, "client_session"));
	c->t0_ns = json_get_int(doc, "t0_ns");
	c->duration_ns = json_get_int(doc, "duration_ns");
	c->settings = json_is_object(settings) ? json_deep_copy(settings) : json_object();
	c->warnings = json_is_array(warnings) ? json_deep_copy(warnings) : json_array();
	c->refine = *json_get_text(doc, "refine");
	c->snapshot = json_is_true(json_object_get(doc, "snapshot"));
	capture_step_load(c, doc);
	capture_load_pods(c, doc);
}

int capture_load_options(struct capture *c, const json_t *doc, struct err *e)
{
	if (!doc)
		return options_from_settings(c->settings, c->duration_ns, &c->options,
					     &c->options_len, e);
	load_tracers(c, json_object_get(doc, "tracers"));
	if (!load_hex(c, json_get_text(doc, "options")))
		return err_set(e, ERR_INVALID, "the profiler options of session %s are damaged",
			       c->session);
	return 0;
}
