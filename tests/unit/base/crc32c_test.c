/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include "tests/lib/check.h"

/* The check value of the polynomial, and vectors of RFC 3720. */
static void test_vectors(void)
{
	uint8_t bytes[32];

	CHECK_EQ(crc32c(0, "", 0), 0);
	CHECK_EQ(crc32c(0, "123456789", 9), 0xe3069283);
	memset(bytes, 0, sizeof(bytes));
	CHECK_EQ(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	CHECK_EQ(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	CHECK_EQ(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
}

static void test_pieces(void)
{
	const char text[] = "wherever it is cut, the whole has one checksum";
	const uint32_t whole = crc32c(0, text, sizeof(text));

	for (size_t i = 0; i <= sizeof(text); i++)
		CHECK_EQ(crc32c(crc32c(0, text, i), text + i, sizeof(text) - i), whole);
}

int main(void)
{
	test_vectors();
	test_pieces();
	return 0;
}
