/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit test is written in: CHECK and friends end the program with the place that failed. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, __LINE__, __func__, \
				#cond); \
			exit(1); \
		} \
	} while (0)

/* Integers of any type; prints both. */
#define CHECK_EQ(a, b) \
	do { \
		int64_t check_a = (int64_t)(a), check_b = (int64_t)(b); \
		if (check_a != check_b) { \
			fprintf(stderr, "%s:%d: %s: %s is %" PRId64 ", expected %" PRId64 "\n", \
				__FILE__, __LINE__, __func__, #a, check_a, check_b); \
			exit(1); \
		} \
	} while (0)

#define CHECK_STR(a, b) \
	do { \
		const char *check_a = (a), *check_b = (b); \
		if (!check_a || strcmp(check_a, check_b)) { \
			fprintf(stderr, "%s:%d: %s: %s is \"%s\", expected \"%s\"\n", __FILE__, \
				__LINE__, __func__, #a, check_a ? check_a : "(null)", check_b); \
			exit(1); \
		} \
	} while (0)

/* A call that takes `&e` and must succeed; prints the error's sentence if it did not. */
#define CHECK_OK(call, e) \
	do { \
		int check_rc = (call); \
		if (check_rc) { \
			fprintf(stderr, "%s:%d: %s: %s: %s (%s)\n", __FILE__, __LINE__, __func__, \
				#call, (e).msg, err_name(check_rc)); \
			exit(1); \
		} \
	} while (0)

#endif
