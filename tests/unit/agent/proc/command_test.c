/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of a command line, and what never is. */
#include "agent/proc/command.h"
#include "base/mem.h"
#include "tests/lib/check.h"

#define ROW(words, expected) \
	{ \
		words, sizeof(words), expected \
	}

int main(void)
{
	static const struct {
		const char *words;
		size_t len;
		const char *expected;
	} rows[] = {
		ROW("/usr/bin/python3.11\0/home/a/train.py\0--token\0secret",
		    "python3.11 train.py"),
		ROW("python\0-u\0-m\0trainer.run\0--key=secret", "python -m trainer.run"),
		ROW("python\0-c\0password = 1", "python"),
		ROW("python\0-m", "python -m "),
		ROW("python", "python"),
		ROW("/opt/server\0--password\0secret", "server"),
		ROW("bad\x01name\xff", "bad name?"),
		ROW("/", "/"),
		ROW("", ""),
	};
	char out[96], small[8];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_EQ(proc_command(rows[i].words, rows[i].len, out, sizeof(out)),
			 *rows[i].expected != '\0');
		CHECK_STR(out, rows[i].expected);
	}
	CHECK(!proc_command("", 0, out, sizeof(out)));
	CHECK(proc_command("python\0train", 12, small, sizeof(small)));
	CHECK_STR(small, "python ");
	return 0;
}
