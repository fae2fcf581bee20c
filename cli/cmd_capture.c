/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/follow.h"

struct conf {
	struct api_conf api;
	char *hosts;
	int64_t duration_ns;
	char *run;
	struct conf_list set;
	struct conf_list tracer;
	int64_t wait_ns;
	char *refine;
	char *at_step;
	int steps;
};

static const struct conf_field fields[] = {
	CONF(struct conf, hosts, "all", "who: all, NAME,NAME or LABEL=VALUE"),
	CONF(struct conf, duration_ns, "2s", "how long"),
	CONF(struct conf, run, NULL, "name of the run that the session belongs to"),
	CONF(struct conf, set, NULL, "KEY=VALUE for the tracers, like host_tracer_level=3"),
	CONF(struct conf, tracer, NULL, "record with this tracer only"),
	CONF_ONCE(struct conf, refine, NULL,
		  "events: work out from flows and barriers how far hosts' times are to be moved"),
	CONF_ONCE(struct conf, at_step, NULL,
		  "begin where this training step does: a number, or next"),
	CONF_ONCE(struct conf, steps, "0", "how many steps long; without it, --duration"),
	CONF(struct conf, wait_ns, "10m", "for captures that have the profilers; 0s = not at all"),
	API_FIELDS(struct conf),
	{ 0 }
};

/* A word that JSON cannot hold must not be left out: the request would be another one. */
static int not_utf8(const char *flag, struct err *e)
{
	return err_set(e, ERR_INVALID, "%s: the value is not UTF-8 text", flag);
}

static int add_setting(json_t *settings, const char *text, struct err *e)
{
	const char *eq = strchr(text, '=');
	char *key;
	int rc = 0;

	if (!eq || eq == text)
		return err_set(e, ERR_INVALID, "--set '%s': expected KEY=VALUE", text);
	key = xstrndup(text, (size_t)(eq - text));
	if (json_object_set_new(settings, key, json_string(eq + 1)))
		rc = not_utf8("--set", e);
	free(key);
	return rc;
}

static int add_steps(json_t *request, const struct conf *conf, struct err *e)
{
	const char *step = conf->at_step;
	char *end;
	json_int_t number;

	if (conf->steps < 0)
		return err_set(e, ERR_INVALID, "--steps %d: use 1 or more", conf->steps);
	if (conf->steps)
		json_object_set_new(request, "steps", json_integer(conf->steps));
	if (!step)
		return 0;
	errno = 0;
	number = strtoll(step, &end, 10);
	if (!strcmp(step, "next"))
		json_object_set_new(request, "at_step", json_string(step));
	else if (*step && !*end && !errno && number >= 0)
		json_object_set_new(request, "at_step", json_integer(number));
	else
		return err_set(e, ERR_INVALID, "--at-step '%s': use a step's number, or next",
			       step);
	return 0;
}

static int make_request(const struct conf *conf, json_t **out, struct err *e)
{
	json_t *settings = json_object();
	json_t *names = json_array();
	int rc = 0;

	for (size_t i = 0; i < conf->set.n && !rc; i++)
		rc = add_setting(settings, conf->set.items[i], e);
	for (size_t i = 0; i < conf->tracer.n && !rc; i++) {
		if (json_array_append_new(names, json_string(conf->tracer.items[i])))
			rc = not_utf8("--tracer", e);
	}
	if (!rc) {
		*out = json_pack("{s:s, s:I, s:I, s:s, s:O, s:O}", "hosts", conf->hosts,
				 "duration_ns", (json_int_t)conf->duration_ns, "wait_ns",
				 (json_int_t)conf->wait_ns, "run", conf->run ? conf->run : "",
				 "settings", settings, "tracers", names);
		if (!*out)
			rc = not_utf8("--hosts or --run", e);
	}
	if (!rc)
		rc = add_steps(*out, conf, e);
	if (!rc && conf->refine && json_object_set_new(*out, "refine", json_string(conf->refine)))
		rc = not_utf8("--refine", e);
	json_decref(settings);
	json_decref(names);
	return rc;
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *request = NULL;
	json_t *capture = NULL;
	int rc;

	(void)argc;
	(void)argv;
	rc = make_request(conf, &request, e);
	if (!rc)
		rc = api_call(&conf->api, "POST", "/api/v1/captures", request, &capture, e);
	if (rc == ERR_NOT_FOUND) {
		fprintf(stderr, "tutti capture: %s\n", e->msg);
		rc = EXIT_NOBODY;
		goto out;
	}
	if (!rc && json_is_true(json_object_get(capture, "shared")))
		fprintf(stderr, "%s: asked for by somebody else as well, and shared\n",
			get_str(capture, "session"));
	if (!rc)
		rc = follow_capture(&conf->api, get_str(capture, "session"), e);
out:
	json_decref(capture);
	json_decref(request);
	return rc;
}

const struct cmd cmd_capture = {
	.name = "capture",
	.summary = "profile hosts together and store the session",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
