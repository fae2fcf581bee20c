/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/now.h"
#include "base/random.h"

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

/* Length of the valid name at s; 0 if it is not valid. */
static size_t part_len(const char *s)
{
	size_t n = 0;

	if (*s == '.')
		return 0;
	while (is_name_char(s[n]))
		n++;
	return n;
}

#define NAME_ALL_HOSTS "ALL_HOSTS"

int name_check_host(const char *name, struct err *e)
{
	size_t n = part_len(name);

	if (!strcmp(name, NAME_ALL_HOSTS))
		return err_set(e, ERR_INVALID,
			       "host name '" NAME_ALL_HOSTS "': XProf's name for all hosts of a "
			       "session, use another");
	if (!n || name[n] || n > LIMIT_HOST_NAME)
		return err_set(e, ERR_INVALID,
			       "host name '%.40s': use 1 to %d of letters, digits, '.', '_', '-', "
			       "not starting with '.'",
			       name, LIMIT_HOST_NAME);
	return 0;
}

void name_of_file(const char *host, unsigned int n, char out[NAME_FILE_BYTES])
{
	if (n == 1)
		snprintf(out, NAME_FILE_BYTES, "%s", host);
	else
		snprintf(out, NAME_FILE_BYTES, "%s~%u", host, n);
}

int name_check_file(const char *name, struct err *e)
{
	size_t n = part_len(name);
	size_t further = n && name[n] == '~' ? part_len(name + n + 1) : 0;

	n += further ? 1 + further : 0;
	if (!n || name[n])
		return err_set(e, ERR_INVALID, "'%.150s' is no name of a host's file", name);
	return 0;
}

static bool has_part(const char *name, const char *part)
{
	size_t len = strlen(part);

	for (const char *s = name; s; s = strchr(s, '/')) {
		s += *s == '/';
		if (!strncmp(s, part, len) && (!s[len] || s[len] == '/'))
			return true;
	}
	return false;
}

int name_check_run(const char *name, struct err *e)
{
	const char *s = name;
	size_t n;

	while ((n = part_len(s)) && s[n] == '/')
		s += n + 1;
	if (!n || s[n] || strlen(name) > LIMIT_RUN_NAME)
		return err_set(e, ERR_INVALID,
			       "run name '%.40s': use parts of letters, digits, '.', '_', '-' "
			       "joined by '/', %d at most in all",
			       name, LIMIT_RUN_NAME);
	if (has_part(name, "plugins"))
		return err_set(e, ERR_INVALID,
			       "run name '%.40s': no part may be 'plugins', which XProf uses",
			       name);
	return 0;
}

void name_make_session(int64_t t0_ns, char out[LIMIT_SESSION_NAME])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	char day[20];
	uint8_t random[6];

	time_session_name(t0_ns, day);
	random_bytes(random, sizeof(random));
	for (size_t i = 0; i < sizeof(random); i++)
		random[i] = (uint8_t)letters[random[i] % (sizeof(letters) - 1)];
	snprintf(out, LIMIT_SESSION_NAME, "%s_%.6s", day, (const char *)random);
}

bool name_is_session(const char *name)
{
	static const char shape[] = "dddd_dd_dd_dd_dd_dd_xxxxxx";
	size_t i;

	for (i = 0; shape[i]; i++) {
		if (shape[i] == 'd' && !isdigit((unsigned char)name[i]))
			return false;
		if (shape[i] == 'x' && !islower((unsigned char)name[i]) &&
		    !isdigit((unsigned char)name[i]))
			return false;
		if (shape[i] == '_' && name[i] != '_')
			return false;
	}
	return name[i] == '\0';
}
