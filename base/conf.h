/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration is a table: one row gives the flag, the environment variable, the line in the file, the
 * default, the parser and the help. The member's C type picks the parser.
 *
 *   struct agent_conf { char *aggregator; int64_t lead_ns; uint64_t spool_bytes; bool insecure; };
 *   static const struct conf_field fields[] = {
 *           CONF(struct agent_conf, aggregator, "127.0.0.1:7401", "host:port of the aggregator"),
 *           { 0 }
 *   };
 *
 * The strongest source counts, in this order: flag, environment TUTTI_<NAME>, file (--config), default. The
 * flag of member `spool_bytes` is --spool-bytes; a suffix _ns or _bytes is dropped from the name (--spool),
 * and the value is written with a unit: 250ms, 2s, 5m, 1h, 30d; 64K, 16M, 2G, 1T. A bool flag takes no value; =false
 * unsets it. A list (struct conf_list) takes one value per flag or line and collects them; the list of a
 * stronger source replaces that of a weaker one.
 *
 * A setting that got another name has a row in `former`: files, environments and flags with the former name mean the new one, for a
 * release. Neither --help nor --print-config has it.
 *
 * A table may have further parts, each with fields of a struct of its own: drivers have theirs there. Names
 * are unique over all parts.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* Whether a text was given at all: an empty one unsets what a weaker source says. */
static inline bool conf_is_set(const char *text)
{
	return text && *text;
}

struct conf_list {
	char **items;
	size_t n;
};

enum conf_kind { CONF_STR, CONF_BOOL, CONF_INT, CONF_TIME, CONF_SIZE, CONF_REAL, CONF_LIST };

struct conf_field {
	const char *member;
	enum conf_kind kind;
	size_t offset;
	const char *value; /* the default, as a user writes it; NULL = NULL, 0, false, empty */
	const char *help; /* one line, no full stop */
	bool once; /* only a flag can set it, neither the environment nor a file */
	double min, max; /* of a number, a time in ns or a size in bytes; both 0 = any */
};

#define CONF_KIND_OF(T, m) \
	_Generic(((T *)0)->m, char * : CONF_STR, bool : CONF_BOOL, int : CONF_INT, \
		 int64_t : CONF_TIME, uint64_t : CONF_SIZE, double : CONF_REAL, \
		 struct conf_list : CONF_LIST)
#define CONF(T, m, def, text) \
	{ \
#m, CONF_KIND_OF(T, m), offsetof(T, m), def, text, false, 0, 0 \
	}

/* A setting that only a flag can set: an environment variable of that name may mean something else. */
#define CONF_ONCE(T, m, def, text) \
	{ \
#m, CONF_KIND_OF(T, m), offsetof(T, m), def, text, true, 0, 0 \
	}

/* A number, time or size from lo to hi, both included; a value outside is refused by name. */
#define CONF_RANGE(T, m, def, lo, hi, text) \
	{ \
#m, CONF_KIND_OF(T, m), offsetof(T, m), def, text, false, lo, hi \
	}

/* Fields of a struct of their own. */
struct conf_part {
	const struct conf_field *fields; /* ends with an all-zero row */
	void *conf; /* zeroed by the caller */
};

/* A setting that got another name; both as in a file: "spool-limit". */
struct conf_former {
	const char *was, *is;
};

struct conf_table {
	const char *prog; /* "tutti-agent", "tutti capture" */
	const char *args; /* usage of the arguments after the flags, or NULL for none */
	const char *summary; /* what it does, for --help */
	const struct conf_field *fields; /* ends with an all-zero row */
	const struct conf_part *more; /* further fields; ends with an all-zero row; NULL = none */
	const struct conf_former *former; /* names; ends with an all-zero row; NULL = none */
};

enum conf_action { CONF_RUN, CONF_HELP, CONF_PRINT };

/*
 * Fills `conf` (zeroed by the caller; release with conf_release()) and leaves the arguments that
 * are not flags in argv[0 .. *argc-1]: what does not begin with '-', a "-" alone, all behind a "--". `*action` is set by --help and --print-config: the caller prints
 * with the functions below and ends. Errors name the flag and the value.
 */
MUST_CHECK int conf_load(void *conf, const struct conf_table *table, int *argc, char **argv,
			 enum conf_action *action, struct err *e);
void conf_release(void *conf, const struct conf_table *table);

void conf_help(const struct conf_table *table, FILE *out);
void conf_print(const void *conf, const struct conf_table *table, FILE *out);

/* The parsers alone: "2s" -> ns, "64M" -> bytes. */
MUST_CHECK int conf_parse_time(const char *text, int64_t *out_ns, struct err *e);
MUST_CHECK int conf_parse_size(const char *text, uint64_t *out_bytes, struct err *e);

#endif
