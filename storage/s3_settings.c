/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/s3_settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/aws_source.h"
#include "storage/cloud_settings.h"

#define BUCKET_MIN 3
#define BUCKET_MAX 63
#define REGION_MAX 63

enum setting { ENDPOINT, REGION, PATH_STYLE, CA, PROFILE, N_SETTINGS };

static const char *const names[N_SETTINGS] = { "endpoint", "region", "path-style", "ca",
					       "profile" };

void s3_settings_release(struct s3_settings *s)
{
	free(s->bucket);
	free(s->prefix);
	free(s->endpoint);
	free(s->region);
	free(s->ca_file);
	free(s->profile);
	*s = (struct s3_settings){ 0 };
}

/* AWS's rule for bucket names. Other servers allow more, but those names cannot be part of a host name. */
static int check_bucket(const char *bucket, struct err *e)
{
	size_t len = strlen(bucket);

	if (len < BUCKET_MIN || len > BUCKET_MAX ||
	    strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != len || *bucket == '.' ||
	    *bucket == '-')
		return err_set(e, ERR_INVALID,
			       "bucket \"%.70s\": expected s3://BUCKET/PREFIX, with a bucket of %d "
			       "to %d of a-z 0-9 . -",
			       bucket, BUCKET_MIN, BUCKET_MAX);
	return 0;
}

static int check_region(const char *region, struct err *e)
{
	size_t len = strlen(region);

	if (!len || len > REGION_MAX ||
	    strspn(region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
		    len)
		return err_set(e, ERR_INVALID, "region \"%.70s\" is no name of a region", region);
	return 0;
}

/* The first of these that has a value; a copy, or NULL. */
static char *first_of(const char *given, const char *name, const char *other_name)
{
	const char *value = given ? given : keys_setting(name);

	if (!value && other_name)
		value = keys_setting(other_name);
	return value ? xstrdup(value) : NULL;
}

static void set_region(struct s3_settings *out, const char *given)
{
	const char *profile = out->profile ? out->profile : keys_setting("AWS_PROFILE");
	char region[REGION_MAX + 2];

	out->region = first_of(given, "AWS_REGION", "AWS_DEFAULT_REGION");
	if (!out->region &&
	    aws_profile_region(profile ? profile : "default", region, sizeof(region)))
		out->region = xstrdup(region);
	if (!out->region)
		out->region = xstrdup("us-east-1");
}

static int set_path_style(struct s3_settings *out, const char *given, struct err *e)
{
	/* A dot in a bucket's name would be one label too many for the server's certificate. */
	out->path_style = out->endpoint || strchr(out->bucket, '.');
	if (given && strcmp(given, "true") && strcmp(given, "false"))
		return err_set(e, ERR_INVALID, "path-style: true or false, not \"%.20s\"", given);
	if (given)
		out->path_style = !strcmp(given, "true");
	return 0;
}

static int set_values(struct s3_settings *out, char *const values[N_SETTINGS], struct err *e)
{
	int rc;

	out->profile = values[PROFILE] ? xstrdup(values[PROFILE]) : NULL;
	out->ca_file = first_of(values[CA], "AWS_CA_BUNDLE", NULL);
	out->endpoint = first_of(values[ENDPOINT], "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
	set_region(out, values[REGION]);
	rc = check_region(out->region, e);
	if (!rc)
		rc = set_path_style(out, values[PATH_STYLE], e);
	if (rc)
		return rc;
	if (!out->endpoint)
		out->endpoint = xasprintf("https://s3.%s.amazonaws.com%s", out->region,
					  strncmp(out->region, "cn-", 3) ? "" : ".cn");
	return cloud_check_endpoint(out->endpoint, e);
}

int s3_settings_read(struct s3_settings *out, const char *rest, struct err *e)
{
	const char *query = strchr(rest, '?');
	size_t path_len = query ? (size_t)(query - rest) : strlen(rest);
	size_t bucket_len = strcspn(rest, "/?");
	char *values[N_SETTINGS] = { 0 };
	int rc;

	out->bucket = xstrndup(rest, bucket_len);
	rc = check_bucket(out->bucket, e);
	if (!rc && bucket_len < path_len)
		rc = cloud_take_prefix(&out->prefix, rest + bucket_len + 1,
				       path_len - bucket_len - 1, e);
	else if (!rc)
		out->prefix = xstrdup("");
	if (!rc && query)
		rc = cloud_read_settings(query + 1, names, N_SETTINGS, values, e);
	if (!rc)
		rc = set_values(out, values, e);
	for (size_t i = 0; i < N_SETTINGS; i++)
		free(values[i]);
	return rc;
}
