/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/now.h"
#include "cli/api.h"
#include "cli/cmd.h"

struct conf {
	struct api_conf api;
	int64_t for_ns;
};

static const struct conf_field fields[] = { CONF_RANGE(struct conf, for_ns, "7d", NS_PER_S,
						       7 * 24 * 3600 * NS_PER_S,
						       "how long the links are good, 1s to 7d"),
					    API_FIELDS(struct conf),
					    { 0 } };

/* A link of the aggregator has no host: it gets that of --server. */
static json_t *whole_url(const struct conf *conf, const char *url)
{
	char *whole = *url == '/' ? api_url(&conf->api, url) : NULL;
	json_t *text = json_string(whole ? whole : url);

	free(whole);
	return text;
}

static void complete(const struct conf *conf, json_t *doc)
{
	json_t *file;
	size_t i;

	json_object_set_new(doc, "page", whole_url(conf, json_get_text(doc, "page")));
	json_array_foreach(json_object_get(doc, "files"), i, file)
	{
		json_object_set_new(file, "url", whole_url(conf, json_get_text(file, "url")));
	}
}

static void print_links(const json_t *doc)
{
	time_t until = (time_t)(json_get_int(doc, "until_ns") / NS_PER_S);
	const json_t *file;
	struct tm tm;
	char text[32];
	size_t i;

	gmtime_r(&until, &tm);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm);
	printf("%s\n", json_get_text(doc, "page"));
	json_array_foreach(json_object_get(doc, "files"), i, file)
	{
		printf("%s  %s\n", json_get_text(file, "file"), json_get_text(file, "url"));
	}
	fprintf(stderr, "%zu links, good until %s for whoever has them\n", i, text);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	json_t *body = json_object(), *doc = NULL;
	char *word = api_escape(argv[0]);
	char *path = xasprintf("/api/v1/sessions/%s/links", word);
	int rc;

	(void)argc;
	json_put_int(body, "for_ns", conf->for_ns);
	rc = api_call(&conf->api, "POST", path, body, &doc, e);
	if (!rc) {
		complete(conf, doc);
		if (conf->api.json)
			api_print(doc);
		else
			print_links(doc);
		if (json_get_int(doc, "until_ns") < now_real_ns() + conf->for_ns - 60 * NS_PER_S)
			fprintf(stderr,
				"the links end before --for: they end with the keys that the "
				"aggregator has for its store\n");
	}
	json_decref(doc);
	json_decref(body);
	free(path);
	free(word);
	return rc;
}

const struct cmd cmd_share = {
	.name = "share",
	.args = "SESSION",
	.min_args = 1,
	.max_args = 1,
	.summary = "links to a session's page and files, good for a time",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
