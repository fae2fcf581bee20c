/* SPDX-License-Identifier: Apache-2.0 */
#include "logs/severity.h"

#include <string.h>
#include <strings.h>

#include "base/mem.h"

static const char *const names[SEVERITIES] = {
	[SEVERITY_DEFAULT] = "DEFAULT",	    [SEVERITY_DEBUG] = "DEBUG",
	[SEVERITY_INFO] = "INFO",	    [SEVERITY_NOTICE] = "NOTICE",
	[SEVERITY_WARNING] = "WARNING",	    [SEVERITY_ERROR] = "ERROR",
	[SEVERITY_CRITICAL] = "CRITICAL",   [SEVERITY_ALERT] = "ALERT",
	[SEVERITY_EMERGENCY] = "EMERGENCY",
};

static const struct {
	const char *word;
	enum severity severity;
} words[] = {
	{ "trace", SEVERITY_DEBUG },	     { "verbose", SEVERITY_DEBUG },
	{ "debug", SEVERITY_DEBUG },	     { "info", SEVERITY_INFO },
	{ "information", SEVERITY_INFO },    { "notice", SEVERITY_NOTICE },
	{ "warn", SEVERITY_WARNING },	     { "warning", SEVERITY_WARNING },
	{ "err", SEVERITY_ERROR },	     { "error", SEVERITY_ERROR },
	{ "crit", SEVERITY_CRITICAL },	     { "critical", SEVERITY_CRITICAL },
	{ "fatal", SEVERITY_CRITICAL },	     { "panic", SEVERITY_CRITICAL },
	{ "alert", SEVERITY_ALERT },	     { "emerg", SEVERITY_EMERGENCY },
	{ "emergency", SEVERITY_EMERGENCY },
};

const char *severity_name(enum severity severity)
{
	return names[severity];
}

enum severity severity_of_word(const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strlen(words[i].word) == len && !strncasecmp(words[i].word, word, len))
			return words[i].severity;
	}
	return SEVERITY_DEFAULT;
}

enum severity severity_of_priority(long long priority)
{
	static const enum severity of[] = { SEVERITY_EMERGENCY, SEVERITY_ALERT,	  SEVERITY_CRITICAL,
					    SEVERITY_ERROR,	SEVERITY_WARNING, SEVERITY_NOTICE,
					    SEVERITY_INFO,	SEVERITY_DEBUG };

	return priority >= 0 && priority < (long long)ARRAY_SIZE(of) ? of[priority]
								     : SEVERITY_DEFAULT;
}
