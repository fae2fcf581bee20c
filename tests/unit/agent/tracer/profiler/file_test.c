/* SPDX-License-Identifier: Apache-2.0 */
/* Files of older servers lie in a foreign tree: what is fetched, what is not followed, what is left. */
#include "agent/tracer/profiler/file.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/mem.h"
#include "tests/lib/check.h"
#include "tests/lib/temp_dir.h"

static const char *top;
static char *root, *to;

static char *below(const char *path)
{
	return xasprintf("%s/%s", root, path);
}

static void make_dir(const char *path)
{
	char *full = below(path);

	CHECK(!mkdir(full, 0700));
	free(full);
}

static void make_file(const char *full, const char *text)
{
	FILE *f = fopen(full, "we");

	CHECK(f);
	fputs(text, f);
	fclose(f);
}

static void make_link(const char *target, const char *path)
{
	char *full = below(path);

	CHECK(!symlink(target, full));
	free(full);
}

static struct profiler_place setup(void)
{
	top = temp_dir();
	root = xasprintf("%s/root", top);
	to = xasprintf("%s/to", top);
	CHECK(!mkdir(root, 0700));
	make_dir("spool");
	return (struct profiler_place){ .root = root, .repository = "/spool/rep", .session = "s1" };
}

static void teardown(void)
{
	temp_dir_remove(top);
	free(root);
	free(to);
}

static uint64_t size; /* of what was found */

static void check_fetched(const struct profiler_place *place, const char *text)
{
	char got[64] = "";
	struct err e;
	FILE *f;

	CHECK_OK(profiler_file_fetch(place, to, 1000, &size, &e), e);
	f = fopen(to, "re");
	CHECK(f);
	CHECK(fgets(got, sizeof(got), f));
	fclose(f);
	CHECK_STR(got, text);
}

static void check_absent(const struct profiler_place *place)
{
	struct err e;

	CHECK_EQ(profiler_file_fetch(place, to, 1000, &size, &e), ERR_NOT_FOUND);
	CHECK(strstr(e.msg, "/spool/rep"));
	CHECK(access(to, F_OK));
}

static void check_too_large(const struct profiler_place *place, uint64_t bytes)
{
	struct err e;

	CHECK_EQ(profiler_file_fetch(place, to, bytes - 1, &size, &e), ERR_FULL);
	CHECK_EQ(size, bytes);
	CHECK(access(to, F_OK));
}

static void test_fetch_and_remove(const char *layout)
{
	struct profiler_place place = setup();
	char *file = xasprintf("%s/spool/rep/%s%ss1/host.xplane.pb", root, layout,
			       *layout ? "/" : "");

	check_absent(&place);
	make_dir("spool/rep");
	if (*layout) {
		make_dir("spool/rep/plugins");
		make_dir("spool/rep/plugins/profile");
		make_dir("spool/rep/plugins/profile/s1");
	} else {
		make_dir("spool/rep/s1");
	}
	check_absent(&place);
	make_file(file, "planes");
	check_too_large(&place, strlen("planes"));
	check_fetched(&place, "planes");
	profiler_file_remove(&place);
	free(file);
	file = below("spool/rep");
	CHECK(access(file, F_OK));
	free(file);
	file = below("spool");
	CHECK(!access(file, F_OK)); /* that is not ours */
	free(file);
	teardown();
}

/* Links of a container's making lead nowhere outside of it. */
static void test_links(void)
{
	struct profiler_place place = setup();
	char *outside = xasprintf("%s/outside", top);
	char *secret = xasprintf("%s/secret.xplane.pb", outside);

	CHECK(!mkdir(outside, 0700));
	make_file(secret, "not theirs");
	make_dir("spool/rep");
	make_link(outside, "spool/rep/s1");
	check_absent(&place);
	profiler_file_remove(&place);
	CHECK(!access(secret, F_OK));

	make_dir("spool/rep2");
	make_dir("spool/rep2/s1");
	make_link(secret, "spool/rep2/s1/host.xplane.pb");
	place.repository = "/spool/rep2";
	{
		struct err e;

		CHECK_EQ(profiler_file_fetch(&place, to, 1000, &size, &e), ERR_NOT_FOUND);
	}
	profiler_file_remove(&place);
	CHECK(!access(secret, F_OK));
	unlink(secret);
	rmdir(outside);
	free(secret);
	free(outside);
	teardown();
}

/* What is mounted there may be anybody's. */
static void test_foreign_folder(void)
{
	const uid_t us = geteuid(), other = us + 1;
	struct profiler_place place = setup();
	char *file = below("spool/rep/s1/host.xplane.pb");

	make_dir("spool/rep");
	make_dir("spool/rep/s1");
	make_file(file, "planes");
	place.owner = &other;
	profiler_file_remove(&place);
	CHECK(!access(file, F_OK));
	CHECK(!unlink(file));
	profiler_file_remove(&place); /* an empty folder is not ours to remove either */
	free(file);
	file = below("spool/rep/s1");
	CHECK(!access(file, F_OK));
	place.owner = &us;
	profiler_file_remove(&place);
	CHECK(access(file, F_OK));
	free(file);
	teardown();
}

/* A pipe would keep the reader waiting for ever. */
static void test_pipe(void)
{
	struct profiler_place place = setup();
	char *fifo = below("spool/rep/s1/host.xplane.pb");

	make_dir("spool/rep");
	make_dir("spool/rep/s1");
	CHECK(!mkfifo(fifo, 0600));
	check_absent(&place);
	free(fifo);
	teardown();
}

/* An agent without capabilities: "left no file" would be wrong. */
static void a_denied_root_names_what_to_grant(void)
{
	char *other = xasprintf("/proc/%d/root", getpid());
	struct profiler_place place = { .root = other, .repository = "/nowhere", .session = "s" };
	pid_t child = child_fork(SIGKILL);
	uint64_t bytes;
	struct err e;
	int status;

	CHECK(child >= 0);
	if (!child) {
		if (setuid(65534))
			_exit(1);
		_exit(profiler_file_fetch(&place, "/nowhere/copy", 1, &bytes, &e) == ERR_DENIED &&
				      strstr(e.msg, "grant CAP_SYS_PTRACE")
			      ? 0
			      : 2);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	free(other);
}

int main(void)
{
	test_fetch_and_remove("");
	test_fetch_and_remove("plugins/profile");
	test_links();
	test_foreign_folder();
	test_pipe();
	if (!getuid())
		a_denied_root_names_what_to_grant();
	return 0;
}
