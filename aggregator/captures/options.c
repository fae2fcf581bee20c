/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/captures/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_text.h"
#include "base/mem.h"
#include "base/now.h"
#include "proto/control_check.h"
#include "proto/limits.h"
#include "proto/profiler_request.h"
#include "proto/setting.h"
#include "proto/tensorflow/profiler_options.pb-c.h"

#define MAX_KEY_BYTES	128
#define MAX_VALUE_BYTES 1024
#define ADVANCED	"advanced."
#define ADVANCED_LEN	(sizeof(ADVANCED) - 1)

typedef Tensorflow__ProfileOptions options_msg;
typedef Tensorflow__ProfileOptions__AdvancedConfigValue advanced_value;
typedef Tensorflow__ProfileOptions__AdvancedConfigurationEntry advanced_entry;

enum option_kind { OPTION_BOOL, OPTION_LEVEL, OPTION_DEVICE, OPTION_MASK };

struct option {
	const char *name;
	enum option_kind kind;
	size_t offset;
	const char *help;
};

#define OPTION(kind, member, help) \
	{ \
#member, kind, offsetof(options_msg, member), help \
	}

static const struct option options[] = {
	OPTION(OPTION_LEVEL, host_tracer_level,
	       "detail of the host's events. Frameworks: 0 = off, 1 = critical, 2 = informative, "
	       "3 = verbose. Agents: 1 = annotations, 2 = also samples, context switches and "
	       "metrics"),
	OPTION(OPTION_LEVEL, device_tracer_level,
	       "detail of the devices' events: 0 = off, for frameworks and for the agents' device "
	       "metrics"),
	OPTION(OPTION_LEVEL, python_tracer_level,
	       "trace Python calls: 0 = off, 1 = on. If given, it also switches the agents' Python "
	       "stacks off or on"),
	OPTION(OPTION_BOOL, include_dataset_ops, "record tf.data operations"),
	OPTION(OPTION_BOOL, enable_hlo_proto, "put the HLO modules into the trace"),
	OPTION(OPTION_BOOL, raise_error_on_start_failure,
	       "fail the trace if one of the framework's tracers does not start"),
	OPTION(OPTION_DEVICE, device_type, "record these devices only"),
	{ "host_traceme_filter_mask", OPTION_MASK, offsetof(options_msg, trace_options),
	  "record the host's events of these groups, one bit each" },
};

static const char *const devices[] = { "UNSPECIFIED", "CPU", "GPU", "TPU", "PLUGGABLE_DEVICE" };

/* ---- text to values ---- */

const char *setting_text(const json_t *value, char number[24])
{
	if (json_is_string(value))
		return json_string_value(value);
	if (json_is_boolean(value))
		return json_is_true(value) ? "true" : "false";
	if (!json_is_integer(value))
		return NULL;
	snprintf(number, 24, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	return number;
}

static bool parse_bool(const char *text, protobuf_c_boolean *out)
{
	bool yes = !strcasecmp(text, "true") || !strcmp(text, "1");

	*out = yes;
	return yes || !strcasecmp(text, "false") || !strcmp(text, "0");
}

/* Decimal or 0x..., without sign and blanks. */
static bool parse_unsigned(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*out = strtoull(text, &end, !strncasecmp(text, "0x", 2) ? 16 : 10);
	return !*end && !errno && *out <= max;
}

static bool parse_integer(const char *text, int64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)text[*text == '-']))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return !*end && !errno;
}

static bool parse_device(const char *text, Tensorflow__ProfileOptions__DeviceType *out)
{
	uint64_t number;

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		if (!strcasecmp(text, devices[i])) {
			*out = (Tensorflow__ProfileOptions__DeviceType)i;
			return true;
		}
	}
	if (!parse_unsigned(text, ARRAY_SIZE(devices) - 1, &number))
		return false;
	*out = (Tensorflow__ProfileOptions__DeviceType)number;
	return true;
}

static bool parse_mask(const char *text, options_msg *m)
{
	uint64_t mask;

	if (!parse_unsigned(text, UINT64_MAX, &mask))
		return false;
	if (!m->trace_options) {
		m->trace_options = xmalloc(sizeof(*m->trace_options));
		tensorflow__profile_options__trace_options__init(m->trace_options);
	}
	m->trace_options->host_traceme_filter_mask = mask;
	return true;
}

static int set_option(options_msg *m, const struct option *o, const char *text, struct err *e)
{
	void *member = (char *)m + o->offset;
	const char *expected = "true or false";
	uint64_t level = 0;
	bool good = false;

	switch (o->kind) {
	case OPTION_BOOL:
		good = parse_bool(text, member);
		break;
	case OPTION_LEVEL:
		expected = "a number from 0 to 4294967295";
		good = parse_unsigned(text, UINT32_MAX, &level);
		*(uint32_t *)member = (uint32_t)level;
		break;
	case OPTION_DEVICE:
		expected = "CPU, GPU, TPU or PLUGGABLE_DEVICE";
		good = parse_device(text, member);
		break;
	case OPTION_MASK:
		expected = "a 64 bit number";
		good = parse_mask(text, m);
		break;
	}
	if (!good)
		return err_set(e, ERR_INVALID, "option '%s': '%.60s' is not %s", o->name, text,
			       expected);
	return 0;
}

static advanced_value *advanced_parse(const char *text)
{
	advanced_value *v = xmalloc(sizeof(*v));

	tensorflow__profile_options__advanced_config_value__init(v);
	if (!strcmp(text, "true") || !strcmp(text, "false")) {
		v->value_case =
			TENSORFLOW__PROFILE_OPTIONS__ADVANCED_CONFIG_VALUE__VALUE_BOOL_VALUE;
		v->bool_value = *text == 't';
	} else if (parse_integer(text, &v->int64_value)) {
		v->value_case =
			TENSORFLOW__PROFILE_OPTIONS__ADVANCED_CONFIG_VALUE__VALUE_INT64_VALUE;
	} else {
		v->value_case =
			TENSORFLOW__PROFILE_OPTIONS__ADVANCED_CONFIG_VALUE__VALUE_STRING_VALUE;
		v->string_value = xstrdup(text);
	}
	return v;
}

static int set_advanced(options_msg *m, const char *name, const char *text, struct err *e)
{
	size_t n = m->n_advanced_configuration;
	advanced_entry *entry;

	for (const char *p = name; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return err_set(e, ERR_INVALID,
				       "option '" ADVANCED "%.60s': a name has letters, "
				       "digits, '.', '_', '-'",
				       name);
	}
	entry = xmalloc(sizeof(*entry));
	tensorflow__profile_options__advanced_configuration_entry__init(entry);
	entry->key = xstrdup(name);
	entry->value = advanced_parse(text);
	m->advanced_configuration = xrealloc(m->advanced_configuration,
					     (n + 1) * sizeof(advanced_entry *));
	m->advanced_configuration[n] = entry;
	m->n_advanced_configuration = n + 1;
	return 0;
}

static const struct option *option_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!strcmp(options[i].name, name))
			return &options[i];
	}
	return NULL;
}

static int refuse_unknown(const char *key, struct err *e)
{
	char known[256] = "";

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		size_t used = strlen(known);

		snprintf(known + used, sizeof(known) - used, "%s, ", options[i].name);
	}
	return err_set(e, ERR_INVALID, "unknown option '%.60s'; known: %sadvanced.NAME", key,
		       known);
}

static int apply_setting(options_msg *m, const char *key, const json_t *value, struct err *e)
{
	const struct option *o = option_find(key);
	char number[24];
	const char *text = setting_text(value, number);

	if (strlen(key) > MAX_KEY_BYTES || (!o && strncmp(key, ADVANCED, ADVANCED_LEN)))
		return refuse_unknown(key, e);
	if (!text || !text_is_clean(text, MAX_VALUE_BYTES))
		return err_set(e, ERR_INVALID,
			       "option '%s': the value is not a text of at most %d bytes", key,
			       MAX_VALUE_BYTES);
	if (o)
		return set_option(m, o, text, e);
	if (!key[ADVANCED_LEN])
		return refuse_unknown(key, e);
	return set_advanced(m, key + ADVANCED_LEN, text, e);
}

/* ---- the message ---- */

/* Sets the defaults of stock clients; keeps the levels that are set. */
static void set_defaults(options_msg *m)
{
	m->version = 1;
	m->include_dataset_ops = true;
	m->enable_hlo_proto = true;
	if (!m->host_tracer_level)
		m->host_tracer_level = 2;
	if (!m->device_tracer_level)
		m->device_tracer_level = 1;
}

static options_msg *options_new(void)
{
	options_msg *m = xmalloc(sizeof(*m));

	tensorflow__profile_options__init(m);
	set_defaults(m);
	return m;
}

static int options_pack(options_msg *m, int64_t duration_ns, uint8_t **out, size_t *len,
			struct err *e)
{
	m->duration_ms = (uint64_t)((duration_ns + NS_PER_MS - 1) / NS_PER_MS);
	*len = tensorflow__profile_options__get_packed_size(m);
	if (*len > LIMIT_OPTIONS_BYTES)
		return err_set(e, ERR_LIMIT, "options of %zu bytes, limit %d", *len,
			       LIMIT_OPTIONS_BYTES);
	*out = xmalloc(*len);
	tensorflow__profile_options__pack(m, *out);
	return 0;
}

int options_from_settings(const json_t *settings, int64_t duration_ns, uint8_t **out, size_t *len,
			  struct err *e)
{
	options_msg *m = options_new();
	const char *key;
	json_t *value;
	int rc = 0;

	if (json_object_size(settings) > LIMIT_SETTINGS)
		rc = err_set(e, ERR_LIMIT, "more than %d settings", LIMIT_SETTINGS);
	if (!rc) {
		json_object_foreach((json_t *)settings, key, value)
		{
			if (!setting_is_of_tracer(key))
				rc = apply_setting(m, key, value, e);
			if (rc)
				break;
		}
	}
	if (!rc)
		rc = options_pack(m, duration_ns, out, len, e);
	tensorflow__profile_options__free_unpacked(m, NULL);
	return rc;
}

/* ---- a client's options ---- */

static void clear_text(char **member)
{
	if (*member != protobuf_c_empty_string)
		free(*member);
	*member = (char *)protobuf_c_empty_string;
}

static json_t *advanced_json(const advanced_value *v)
{
	if (!v)
		return json_text("");
	switch (v->value_case) {
	case TENSORFLOW__PROFILE_OPTIONS__ADVANCED_CONFIG_VALUE__VALUE_BOOL_VALUE:
		return json_text(v->bool_value ? "true" : "false");
	case TENSORFLOW__PROFILE_OPTIONS__ADVANCED_CONFIG_VALUE__VALUE_INT64_VALUE:
		return json_sprintf("%" PRId64, v->int64_value);
	case TENSORFLOW__PROFILE_OPTIONS__ADVANCED_CONFIG_VALUE__VALUE_STRING_VALUE:
		return json_text(text_is_clean(v->string_value, MAX_VALUE_BYTES) ? v->string_value
										 : "?");
	default:
		return json_text("");
	}
}

static json_t *option_json(const options_msg *m, const struct option *o)
{
	const void *member = (const char *)m + o->offset;

	switch (o->kind) {
	case OPTION_BOOL:
		return json_text(*(const protobuf_c_boolean *)member ? "true" : "false");
	case OPTION_LEVEL:
		return json_sprintf("%" PRIu32, *(const uint32_t *)member);
	case OPTION_DEVICE:
		return (size_t)m->device_type < ARRAY_SIZE(devices)
			       ? json_text(devices[m->device_type])
			       : json_sprintf("%d", (int)m->device_type);
	case OPTION_MASK:
		return m->trace_options ? json_sprintf("%" PRIu64,
						       m->trace_options->host_traceme_filter_mask)
					: NULL;
	}
	return NULL;
}

static json_t *devices_json(void)
{
	json_t *values = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		json_array_append_new(values, json_text(devices[i]));
	return values;
}

static json_t *default_json(const options_msg *m, const struct option *o)
{
	const void *member = (const char *)m + o->offset;

	switch (o->kind) {
	case OPTION_BOOL:
		return json_boolean(*(const protobuf_c_boolean *)member);
	case OPTION_LEVEL:
		return json_integer(*(const uint32_t *)member);
	case OPTION_DEVICE:
		return json_text(devices[m->device_type]);
	case OPTION_MASK:
		return json_null();
	}
	return json_null();
}

/* A mask has 64 unsigned bits, and JSON's integers are signed: no range is listed. */
static json_t *row_json(const options_msg *m, const struct option *o)
{
	static const char *const types[] = { [OPTION_BOOL] = "bool",
					     [OPTION_LEVEL] = "int",
					     [OPTION_DEVICE] = "choice",
					     [OPTION_MASK] = "mask" };
	json_t *row = json_object();

	json_put_text(row, "name", o->name);
	json_put_text(row, "tracer", "profiler");
	json_put_text(row, "type", types[o->kind]);
	if (o->kind == OPTION_BOOL || o->kind == OPTION_LEVEL) {
		json_put_int(row, "min", 0);
		json_put_int(row, "max", o->kind == OPTION_BOOL ? 1 : UINT32_MAX);
	}
	if (o->kind == OPTION_DEVICE)
		json_put(row, "values", devices_json());
	json_put(row, "default", default_json(m, o));
	json_put_text(row, "help", o->help);
	return row;
}

json_t *options_list_json(void)
{
	options_msg *m = options_new();
	json_t *rows = json_array(), *advanced = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		json_array_append_new(rows, row_json(m, &options[i]));
	json_put_text(advanced, "name", ADVANCED "NAME");
	json_put_text(advanced, "tracer", "profiler");
	json_put_text(advanced, "type", "text");
	json_put(advanced, "default", json_null());
	json_put_text(advanced, "help",
		      "any other option that the framework knows: true, false, a number or a text");
	json_array_append_new(rows, advanced);
	tensorflow__profile_options__free_unpacked(m, NULL);
	return rows;
}

static json_t *options_json(const options_msg *m)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		json_t *value = option_json(m, &options[i]);

		if (value)
			json_put(o, options[i].name, value);
	}
	/* A client that does not set python_tracer_level sends 0. A setting of 0 would switch the agents'
	 * Python stacks off, so it is removed. */
	if (!m->python_tracer_level)
		json_object_del(o, "python_tracer_level");
	for (size_t i = 0; i < m->n_advanced_configuration; i++) {
		const advanced_entry *entry = m->advanced_configuration[i];
		char *key = xasprintf(ADVANCED "%s", entry->key);

		/* Makes settings from a client's options, for people and agents; the profilers get the
		 * options themselves. */
		if (text_is_clean(key, MAX_KEY_BYTES) && json_object_size(o) < LIMIT_SETTINGS)
			json_put(o, key, advanced_json(entry->value));
		free(key);
	}
	return o;
}

int options_adopt(const void *options_data, size_t options_len, int64_t duration_ns, uint8_t **out,
		  size_t *len, json_t **settings, struct err *e)
{
	options_msg *m;
	int rc = profile_options_unpack(&m, options_data, options_len, e);

	if (rc)
		return rc;
	/* Version 0: the client has set no options, and a stock server takes the defaults. */
	if (!m->version)
		set_defaults(m);
	m->start_timestamp_ns = 0;
	clear_text(&m->repository_path);
	clear_text(&m->session_id);
	clear_text(&m->override_hostname);
	rc = options_pack(m, duration_ns, out, len, e);
	if (!rc)
		*settings = options_json(m);
	tensorflow__profile_options__free_unpacked(m, NULL);
	return rc;
}
