/* SPDX-License-Identifier: Apache-2.0 */
/* Links to one file of one session, until an instant: nothing of it can be changed, and no other aggregator's key makes it. */
#include "aggregator/api/link_key.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/secret.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

#define SESSION "2026_11_22_14_02_11_abcdef"
#define FILE1	"host-a.xplane.pb"
#define UNTIL	1795350336

static char *load(const char *folder)
{
	char *key = NULL;
	struct err e;

	CHECK_OK(link_key_load(&key, folder, &e), e);
	return key;
}

/* The signature of a link to this file; the caller frees it. */
static char *signature_of(const char *key, const char *file)
{
	struct buf link = BUF_INIT;
	char *sig;
	struct err e;

	CHECK_OK(link_make(key, SESSION, file, UNTIL, &link, &e), e);
	CHECK(!strncmp(buf_str(&link), "/shared/" SESSION "/", strlen("/shared/" SESSION "/")));
	CHECK(strstr(buf_str(&link), "?until=1795350336&sig="));
	sig = xstrdup(strstr(buf_str(&link), "&sig=") + strlen("&sig="));
	CHECK_EQ(sig[strspn(sig,
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")],
		 '\0');
	buf_release(&link);
	return sig;
}

static int check(const char *key, const char *session, const char *file, const char *until,
		 const char *sig, int64_t now_s)
{
	struct err e = { 0 };
	int rc = link_check(key, session, file, until, sig, now_s, &e);

	CHECK(!rc || strstr(e.msg, "link"));
	return rc;
}

static void test_links(const char *folder, const char *other_folder)
{
	char *key = load(folder), *other = load(other_folder), *sig = signature_of(key, FILE1);

	CHECK_EQ(check(key, SESSION, FILE1, "1795350336", sig, UNTIL - 1), 0);
	CHECK_EQ(check(key, SESSION, FILE1, "1795350336", sig, UNTIL), ERR_DENIED);
	CHECK_EQ(check(key, SESSION, FILE1, "1795350337", sig, 0), ERR_DENIED);
	CHECK_EQ(check(key, SESSION, "host-b.xplane.pb", "1795350336", sig, 0), ERR_DENIED);
	CHECK_EQ(check(key, SESSION "x", FILE1, "1795350336", sig, 0), ERR_DENIED);
	CHECK_EQ(check(key, SESSION, FILE1, "1795350336", "", 0), ERR_DENIED);
	CHECK_EQ(check(key, SESSION, FILE1, "1795350336", NULL, 0), ERR_DENIED);
	CHECK_EQ(check(key, SESSION, FILE1, NULL, sig, 0), ERR_DENIED);
	CHECK_EQ(check(other, SESSION, FILE1, "1795350336", sig, 0), ERR_DENIED);
	free(sig);
	secret_free(key);
	secret_free(other);
}

/* Made once, for its owner alone; what is damaged is told, and not made anew: links that were given away would end. */
static void test_key(const char *folder)
{
	char *path = xasprintf("%s/" LINK_KEY_FILE, folder), *key = load(folder), *again;
	struct stat st;
	struct err e;

	CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0600);
	again = load(folder);
	CHECK_STR(again, key);
	secret_free(again);
	CHECK_OK(file_replace(path, 0600, "0123456789abcdef0123456789abcdeg", 32, &e), e);
	CHECK_EQ(link_key_load(&again, folder, &e), ERR_INVALID);
	CHECK(!again);
	secret_free(key);
	free(path);
}

int main(void)
{
	const char *folder = temp_dir();

	test_links(folder, temp_dir());
	test_key(folder);
	return 0;
}
