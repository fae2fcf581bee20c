/* SPDX-License-Identifier: Apache-2.0 */
#include "storage/az_grant.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/percent.h"
#include "net/shared_key.h"
#include "storage/cloud_answer.h"
#include "storage/keys_service.h"
#include "storage/xml.h"

#define TIME_BYTES 24

/* What a SAS says of a delegated key, in the order of the text that is signed. */
static const struct {
	const char *element, *parameter;
} delegation[] = {
	{ "SignedOid", "skoid" },  { "SignedTid", "sktid" },   { "SignedStart", "skt" },
	{ "SignedExpiry", "ske" }, { "SignedService", "sks" }, { "SignedVersion", "skv" },
};

static void write_time(int64_t unix_s, char out[TIME_BYTES])
{
	time_t at = (time_t)unix_s;
	struct tm tm;

	gmtime_r(&at, &tm);
	if (!strftime(out, TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm))
		*out = '\0';
}

/* ---- a delegated key ---- */

void az_delegation_ask(int64_t unix_s, struct buf *body)
{
	char start[TIME_BYTES], end[TIME_BYTES];

	write_time(unix_s - 60, start);
	write_time(unix_s + AZ_DELEGATION_S, end);
	buf_addf(body, "<KeyInfo><Start>%s</Start><Expiry>%s</Expiry></KeyInfo>", start, end);
}

struct delegated {
	char values[ARRAY_SIZE(delegation)][80];
	struct cloud_keys *out;
};

static int on_part(void *arg, const char *path, const char *text, struct err *e)
{
	static const char root[] = "UserDelegationKey/";
	struct delegated *d = arg;
	const char *name = path + strlen(root);

	if (strncmp(path, root, strlen(root)) || !text)
		return 0;
	if (!strcmp(name, "Value"))
		return keys_take(d->out->secret, sizeof(d->out->secret), text, name, e);
	for (size_t i = 0; i < ARRAY_SIZE(delegation); i++)
		if (!strcmp(name, delegation[i].element))
			return keys_take(d->values[i], sizeof(d->values[i]), text, name, e);
	return 0;
}

/* `token` has one value a line. */
int az_delegation_read(struct cloud_keys *out, const void *data, size_t len, struct err *e)
{
	struct delegated d = { .out = out };
	size_t at = 0;
	int rc = xml_read(data, len, on_part, &d, e);

	for (size_t i = 0; !rc && i < ARRAY_SIZE(delegation); i++) {
		if (!*d.values[i])
			rc = err_set(e, ERR_PEER, "a delegated key without %s",
				     delegation[i].element);
		at += (size_t)snprintf(out->token + at, sizeof(out->token) - at, "%s\n",
				       d.values[i]);
	}
	if (!rc && !*out->secret)
		rc = err_set(e, ERR_PEER, "a delegated key without a value");
	out->kind = KEYS_SECRET;
	out->end_s = iso_time_read(d.values[3]);
	if (!rc && out->end_s < 0)
		rc = err_set(e, ERR_PEER, "a delegated key whose end is no time");
	return rc;
}

/* ---- a grant ---- */

static void add_parameter(struct buf *query, const char *name, const char *value, size_t len)
{
	char *text = xstrndup(value, len);

	buf_addf(query, "&%s=", name);
	percent_encode(query, text, "");
	free(text);
}

/* The lines of a delegated key, each in the query, too. */
static void add_delegation(const char *lines, struct buf *text, struct buf *query)
{
	buf_add_str(text, lines);
	for (size_t i = 0; i < ARRAY_SIZE(delegation); i++) {
		size_t len = strcspn(lines, "\n");

		add_parameter(query, delegation[i].parameter, lines, len);
		lines += len + 1;
	}
}

/*
 * The text has a line for each of: permissions, start, end, name, then the policy's name or a delegated key with its three lines of
 * other identities, addresses, protocol, version, kind, snapshot, scope, five headers of answers. Most are empty.
 */
int az_grant_sign(const struct az_grant *grant, const struct cloud_keys *keys, struct buf *query,
		  struct err *e)
{
	char may = grant->may == AZ_MAY_READ ? 'r' : 'c';
	bool is_delegated = *keys->token;
	struct buf text = BUF_INIT;
	char end[TIME_BYTES], mac[SHARED_KEY_MAC_BYTES];
	int rc;

	write_time(grant->end_s, end);
	buf_addf(query, "sp=%c&sr=b&sv=%s", may, SHARED_KEY_VERSION);
	add_parameter(query, "se", end, strlen(end));
	buf_addf(&text, "%c\n\n%s\n/blob/%s/%s/%s\n", may, end, grant->account, grant->container,
		 grant->blob);
	if (is_delegated)
		add_delegation(keys->token, &text, query);
	buf_addf(&text, "%s\n\n%s\nb\n\n\n\n\n\n\n", is_delegated ? "\n\n\n" : "\n",
		 SHARED_KEY_VERSION);
	rc = shared_key_mac(keys->secret, buf_str(&text), mac, e);
	if (!rc)
		add_parameter(query, "sig", mac, strlen(mac));
	explicit_bzero(mac, sizeof(mac));
	buf_release(&text);
	return rc;
}
