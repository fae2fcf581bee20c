/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/captures/options.h"

#include "base/now.h"
#include "proto/tensorflow/profiler_options.pb-c.h"
#include "tests/lib/check.h"

typedef Tensorflow__ProfileOptions options_msg;

static options_msg *parse(const char *json)
{
	json_t *settings = json ? json_loads(json, 0, NULL) : NULL;
	struct err e = { 0 };
	options_msg *m;
	uint8_t *data;
	size_t len;

	CHECK(!json || settings);
	CHECK_OK(options_from_settings(settings, 1500 * NS_PER_US, &data, &len, &e), e);
	m = tensorflow__profile_options__unpack(NULL, len, data);
	CHECK(m);
	free(data);
	json_decref(settings);
	return m;
}

static void release(options_msg *m)
{
	tensorflow__profile_options__free_unpacked(m, NULL);
}

static void refused(const char *json, const char *part)
{
	json_t *settings = json_loads(json, 0, NULL);
	struct err e = { 0 };
	uint8_t *data;
	size_t len;

	CHECK(settings);
	CHECK_EQ(options_from_settings(settings, 1, &data, &len, &e), ERR_INVALID);
	CHECK(strstr(e.msg, part));
	json_decref(settings);
}

static void test_defaults(void)
{
	options_msg *m = parse(NULL);

	CHECK_EQ(m->version, 1);
	CHECK_EQ(m->host_tracer_level, 2);
	CHECK_EQ(m->device_tracer_level, 1);
	CHECK_EQ(m->python_tracer_level, 0);
	CHECK(m->include_dataset_ops && m->enable_hlo_proto);
	CHECK_EQ(m->duration_ms, 2); /* 1.5 ms, rounded up */
	CHECK_EQ(m->start_timestamp_ns, 0);
	release(m);
}

static void test_fields(void)
{
	options_msg *m = parse(
		"{\"host_tracer_level\": \"3\", \"python_tracer_level\": 1,"
		" \"include_dataset_ops\": false, \"enable_hlo_proto\": \"0\","
		" \"device_type\": \"gpu\", \"raise_error_on_start_failure\": \"True\","
		" \"host_traceme_filter_mask\": \"0xff\"}");

	CHECK_EQ(m->host_tracer_level, 3);
	CHECK_EQ(m->python_tracer_level, 1);
	CHECK(!m->include_dataset_ops && !m->enable_hlo_proto);
	CHECK_EQ(m->device_type, TENSORFLOW__PROFILE_OPTIONS__DEVICE_TYPE__GPU);
	CHECK(m->raise_error_on_start_failure);
	CHECK_EQ(m->trace_options->host_traceme_filter_mask, 255);
	release(m);
}

static void test_advanced(void)
{
	options_msg *m = parse(
		"{\"advanced.a_bool\": \"true\", \"advanced.number\": \"-12\","
		" \"advanced.text\": \"12a\", \"advanced.big\": \"99999999999999999999\"}");

	CHECK_EQ(m->n_advanced_configuration, 4);
	CHECK_STR(m->advanced_configuration[0]->key, "a_bool");
	CHECK(m->advanced_configuration[0]->value->bool_value);
	CHECK_EQ(m->advanced_configuration[1]->value->int64_value, -12);
	CHECK_STR(m->advanced_configuration[2]->value->string_value, "12a");
	CHECK_STR(m->advanced_configuration[3]->value->string_value, "99999999999999999999");
	release(m);
}

static void test_refused(void)
{
	refused("{\"host_tracer_levels\": \"2\"}", "host_tracer_levels");
	refused("{\"version\": \"2\"}", "version");
	refused("{\"advanced.\": \"2\"}", "advanced.");
	refused("{\"advanced.a b\": \"2\"}", "a b");
	refused("{\"host_tracer_level\": \"-1\"}", "host_tracer_level");
	refused("{\"host_tracer_level\": \"4294967296\"}", "host_tracer_level");
	refused("{\"host_tracer_level\": \" 2\"}", "host_tracer_level");
	refused("{\"host_tracer_level\": {}}", "host_tracer_level");
	refused("{\"include_dataset_ops\": \"maybe\"}", "include_dataset_ops");
	refused("{\"device_type\": \"7\"}", "device_type");
}

/* A client's options come out as they went in, but for what names places of its own. */
static void test_adopt(void)
{
	options_msg given = TENSORFLOW__PROFILE_OPTIONS__INIT, *m;
	struct err e = { 0 };
	uint8_t in[256], *data;
	json_t *settings;
	size_t len;

	given.version = 1;
	given.python_tracer_level = 1;
	given.start_timestamp_ns = 12345;
	given.session_id = (char *)"2026_01_01";
	given.repository_path = (char *)"/x";
	given.override_hostname = (char *)"y";
	len = tensorflow__profile_options__pack(&given, in);
	CHECK_OK(options_adopt(in, len, NS_PER_S, &data, &len, &settings, &e), e);
	m = tensorflow__profile_options__unpack(NULL, len, data);
	CHECK_EQ(m->python_tracer_level, 1);
	CHECK_EQ(m->host_tracer_level, 0);
	CHECK_EQ(m->start_timestamp_ns, 0);
	CHECK_EQ(m->duration_ms, 1000);
	CHECK_STR(m->session_id, "");
	CHECK_STR(m->repository_path, "");
	CHECK_STR(m->override_hostname, "");
	CHECK_STR(json_string_value(json_object_get(settings, "python_tracer_level")), "1");
	json_decref(settings);
	release(m);
	free(data);
}

static void test_adopt_version_0(void)
{
	struct err e = { 0 };
	json_t *settings;
	options_msg *m;
	uint8_t *data;
	size_t len;

	CHECK_OK(options_adopt("", 0, NS_PER_S, &data, &len, &settings, &e), e);
	m = tensorflow__profile_options__unpack(NULL, len, data);
	CHECK_EQ(m->version, 1);
	CHECK_EQ(m->host_tracer_level, 2);
	/* 0 is what a client sends that does not set it. */
	CHECK(!json_object_get(settings, "python_tracer_level"));
	json_decref(settings);
	release(m);
	free(data);
	CHECK_EQ(options_adopt("\xff\xff", 2, NS_PER_S, &data, &len, &settings, &e), ERR_INVALID);
}

int main(void)
{
	test_defaults();
	test_fields();
	test_advanced();
	test_refused();
	test_adopt();
	test_adopt_version_0();
	return 0;
}
