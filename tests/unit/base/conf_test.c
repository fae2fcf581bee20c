/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <unistd.h>

#include "base/mem.h"
#include "tests/lib/check.h"

struct inner {
	int64_t deep_ns;
};

struct conf {
	char *name;
	char *unset, *here;
	bool insecure, on;
	int workers;
	int64_t lead_ns;
	uint64_t spool_bytes;
	double rate;
	struct conf_list labels, tags;
	struct inner inner;
};

static const struct conf_field fields[] = {
	CONF(struct conf, name, "default", "what it is called"),
	CONF(struct conf, unset, NULL, "nothing by default"),
	CONF_ONCE(struct conf, here, NULL, "for this call"),
	CONF(struct conf, insecure, NULL, "do without TLS"),
	CONF(struct conf, on, "true", "on unless told otherwise"),
	CONF(struct conf, workers, "2", "how many"),
	CONF(struct conf, lead_ns, "250ms", "how early"),
	CONF(struct conf, spool_bytes, "64M", "how much"),
	CONF(struct conf, rate, "0.5", "how often"),
	CONF(struct conf, labels, NULL, "KEY=VALUE of this host"),
	CONF(struct conf, tags, "red", "colours"),
	CONF(struct conf, inner.deep_ns, "1s", "how deep"),
	{ 0 },
};

static const struct conf_former former[] = {
	{ "threads", "workers" }, { "head-start", "lead" }, { "colours", "tags" }, { 0 }
};

static const struct conf_table table = {
	.prog = "test-prog",
	.args = "FILE",
	.summary = "Does nothing.",
	.fields = fields,
	.former = former,
};

#define MAX_ARGS 24

/* One program start: arguments separated by single spaces. */
struct run {
	struct conf conf;
	char *text;
	char *argv[MAX_ARGS];
	int argc;
	enum conf_action action;
	struct err e;
	int rc;
};

static void load(struct run *r, const char *args)
{
	char *at;

	*r = (struct run){ .text = xstrdup(args) };
	at = r->text;
	while (at && *at) {
		char *space = strchr(at, ' ');

		CHECK(r->argc < MAX_ARGS);
		r->argv[r->argc++] = at;
		if (space)
			*space++ = '\0';
		at = space;
	}
	r->rc = conf_load(&r->conf, &table, &r->argc, r->argv, &r->action, &r->e);
}

static void unload(struct run *r)
{
	conf_release(&r->conf, &table);
	free(r->text);
}

static char config_path[] = "/tmp/tutti-conf-XXXXXX";

static void write_config(const char *text)
{
	FILE *f = fopen(config_path, "w");

	CHECK(f);
	fputs(text, f);
	fclose(f);
}

/* "--config FILE <rest>" */
static void load_with_file(struct run *r, const char *text, const char *rest)
{
	char *args = xasprintf("--config %s%s%s", config_path, *rest ? " " : "", rest);

	write_config(text);
	load(r, args);
	free(args);
}

static void test_defaults(void)
{
	struct run r;

	load(&r, "");
	CHECK_OK(r.rc, r.e);
	CHECK_EQ(r.action, CONF_RUN);
	CHECK_STR(r.conf.name, "default");
	CHECK(!r.conf.unset);
	CHECK(!r.conf.insecure);
	CHECK(r.conf.on);
	CHECK_EQ(r.conf.workers, 2);
	CHECK_EQ(r.conf.lead_ns, 250000000);
	CHECK_EQ(r.conf.spool_bytes, 64 << 20);
	CHECK(r.conf.rate == 0.5);
	CHECK_EQ(r.conf.labels.n, 0);
	CHECK_EQ(r.conf.tags.n, 1);
	CHECK_EQ(r.conf.inner.deep_ns, 1000000000);
	unload(&r);
}

/* A former name means the new one, in every source, and the order of sources holds. */
static void test_former(void)
{
	struct run r;
	char *text = NULL;
	size_t len = 0;
	FILE *out;

	load_with_file(&r, "threads = 7\nhead-start = 3s\ncolours = blue\ncolours = grey\n", "");
	CHECK_OK(r.rc, r.e);
	CHECK_EQ(r.conf.workers, 7);
	CHECK_EQ(r.conf.lead_ns, 3000000000);
	CHECK_EQ(r.conf.tags.n, 2);
	unload(&r);

	setenv("TUTTI_HEAD_START", "4s", 1);
	load_with_file(&r, "lead = 3s\nworkers = 7\n", "--threads=9");
	unsetenv("TUTTI_HEAD_START");
	CHECK_OK(r.rc, r.e);
	CHECK_EQ(r.conf.lead_ns, 4000000000);
	CHECK_EQ(r.conf.workers, 9);
	out = open_memstream(&text, &len);
	conf_help(&table, out);
	conf_print(&r.conf, &table, out);
	fclose(out);
	CHECK(!strstr(text, "threads") && strstr(text, "workers = 9"));
	free(text);
	unload(&r);

	load(&r, "--threads many");
	CHECK_EQ(r.rc, ERR_INVALID);
	CHECK(strstr(r.e.msg, "--threads"));
	unload(&r);
}

/* What belongs to one call is set by nothing but the call. */
static void test_once(void)
{
	struct run r;

	CHECK(!setenv("TUTTI_HERE", "elsewhere", 1));
	load(&r, "");
	CHECK_OK(r.rc, r.e);
	CHECK(!r.conf.here);
	unload(&r);
	load(&r, "--here now");
	CHECK_STR(r.conf.here, "now");
	unload(&r);
	load_with_file(&r, "here = now\n", "");
	CHECK_EQ(r.rc, ERR_INVALID);
	unload(&r);
	CHECK(!unsetenv("TUTTI_HERE"));
}

static void test_flags(void)
{
	struct run r;

	load(&r, "one --name=a=b --insecure --on=false --workers -3 --lead 2s two --spool 1.5K "
		 "--rate 1e2 --deep 1h --labels x=1 --labels=y -- --three");
	CHECK_OK(r.rc, r.e);
	CHECK_STR(r.conf.name, "a=b");
	CHECK(r.conf.insecure);
	CHECK(!r.conf.on);
	CHECK_EQ(r.conf.workers, -3);
	CHECK_EQ(r.conf.lead_ns, 2000000000);
	CHECK_EQ(r.conf.spool_bytes, 1536);
	CHECK(r.conf.rate == 100);
	CHECK_EQ(r.conf.inner.deep_ns, INT64_C(3600000000000));
	CHECK_EQ(r.conf.labels.n, 2);
	CHECK_STR(r.conf.labels.items[0], "x=1");
	CHECK_STR(r.conf.labels.items[1], "y");
	CHECK_EQ(r.argc, 3);
	CHECK_STR(r.argv[0], "one");
	CHECK_STR(r.argv[1], "two");
	CHECK_STR(r.argv[2], "--three");
	unload(&r);
}

/* Flag over environment over file over default. */
static void test_precedence(void)
{
	static const char file[] = "# a comment\n"
				   "\n"
				   "name = from file\n"
				   "workers=10\n"
				   "  lead =  3s  \n"
				   "rate = 7\n"
				   "insecure = true\n";
	struct run r;

	setenv("TUTTI_WORKERS", "20", 1);
	setenv("TUTTI_LEAD", "4s", 1);
	setenv("TUTTI_SPOOL", "1G", 1);
	load_with_file(&r, file, "--lead 5s");
	CHECK_OK(r.rc, r.e);
	CHECK_STR(r.conf.name, "from file");
	CHECK_EQ(r.conf.workers, 20);
	CHECK_EQ(r.conf.lead_ns, 5000000000);
	CHECK_EQ(r.conf.spool_bytes, 1 << 30);
	CHECK(r.conf.rate == 7);
	CHECK(r.conf.insecure);
	CHECK_EQ(r.argc, 0);
	unload(&r);
	unsetenv("TUTTI_WORKERS");
	unsetenv("TUTTI_LEAD");
	unsetenv("TUTTI_SPOOL");
}

/* A stronger source replaces a list; one source's values add up. */
static void test_lists(void)
{
	struct run r;

	load_with_file(&r, "tags = green\ntags = blue\nlabels = a\n", "");
	CHECK_OK(r.rc, r.e);
	CHECK_EQ(r.conf.tags.n, 2);
	CHECK_STR(r.conf.tags.items[0], "green");
	CHECK_EQ(r.conf.labels.n, 1);
	unload(&r);
	setenv("TUTTI_TAGS", "grey", 1);
	load_with_file(&r, "tags = green\ntags = blue\n", "");
	CHECK_EQ(r.conf.tags.n, 1);
	CHECK_STR(r.conf.tags.items[0], "grey");
	unload(&r);
	load(&r, "--tags black --tags white");
	CHECK_EQ(r.conf.tags.n, 2);
	CHECK_STR(r.conf.tags.items[1], "white");
	unload(&r);
	unsetenv("TUTTI_TAGS");
}

static void check_refused(const char *args, const char *word)
{
	struct run r;

	load(&r, args);
	if (r.rc != ERR_INVALID || !strstr(r.e.msg, word)) {
		fprintf(stderr, "'%s': %d '%s', expected '%s'\n", args, r.rc, r.e.msg, word);
		exit(1);
	}
	unload(&r);
}

static void test_refusals(void)
{
	struct run r;

	check_refused("--nmae x", "--nmae");
	check_refused("--name", "--name");
	check_refused("--workers 3x", "3x");
	check_refused("--workers 99999999999", "--workers");
	check_refused("--workers=", "--workers");
	check_refused("--lead 5", "--lead");
	check_refused("--lead 5 s", "--lead");
	check_refused("--lead 1e30h", "--lead");
	check_refused("--lead nans", "--lead");
	check_refused("--spool -1", "--spool");
	check_refused("--spool 5Q", "--spool");
	check_refused("--rate inf", "--rate");
	check_refused("--on=maybe", "maybe");
	check_refused("--config", "--config");
	check_refused("-Z", "-Z");
	check_refused("word -n=x", "-n=x");
	load(&r, "--config /nonexistent/file");
	CHECK_EQ(r.rc, ERR_NOT_FOUND);
	CHECK(strstr(r.e.msg, "/nonexistent/file"));
	unload(&r);
	load_with_file(&r, "name = x\nwrokers = 3\n", "");
	CHECK_EQ(r.rc, ERR_INVALID);
	CHECK(strstr(r.e.msg, ":2: "));
	CHECK(strstr(r.e.msg, "'wrokers'"));
	unload(&r);
	load_with_file(&r, "just words\n", "");
	CHECK_EQ(r.rc, ERR_INVALID);
	unload(&r);
	setenv("TUTTI_RATE", "often", 1);
	load(&r, "");
	CHECK_EQ(r.rc, ERR_INVALID);
	CHECK(strstr(r.e.msg, "TUTTI_RATE"));
	unload(&r);
	unsetenv("TUTTI_RATE");
}

/* A failure is one even where the caller passes no struct err. */
static void test_without_err(void)
{
	struct conf conf = { 0 };
	char flag[] = "--workers=x";
	char *argv[] = { flag };
	int argc = 1;
	enum conf_action action;

	CHECK(conf_load(&conf, &table, &argc, argv, &action, NULL) < 0);
	conf_release(&conf, &table);
}

static void test_units(void)
{
	static const struct {
		const char *text;
		int64_t ns;
	} times[] = {
		{ "0", 0 },
		{ "1ns", 1 },
		{ "2us", 2000 },
		{ "1.5ms", 1500000 },
		{ "3s", 3000000000 },
		{ "2m", INT64_C(120000000000) },
		{ "-3s", -3000000000 },
	};
	uint64_t bytes;
	int64_t ns;
	struct err e;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		CHECK_OK(conf_parse_time(times[i].text, &ns, &e), e);
		CHECK_EQ(ns, times[i].ns);
	}
	CHECK_EQ(conf_parse_time("", &ns, &e), ERR_INVALID);
	CHECK_EQ(conf_parse_time("s", &ns, &e), ERR_INVALID);
	CHECK_OK(conf_parse_size("4096", &bytes, &e), e);
	CHECK_EQ(bytes, 4096);
	CHECK_OK(conf_parse_size("2T", &bytes, &e), e);
	CHECK_EQ(bytes, INT64_C(1) << 41);
	CHECK_EQ(conf_parse_size("", &bytes, &e), ERR_INVALID);
}

/* A driver's fields stand behind the program's, with ranges; every source sets them. */
struct driver_conf {
	int hz;
	int64_t keep_ns;
	struct conf_list extra;
};

static const struct conf_field driver_fields[] = {
	CONF_RANGE(struct driver_conf, hz, "99", 1, 1000, "how often"),
	CONF_RANGE(struct driver_conf, keep_ns, "1m", 5e9, 3600e9, "how long"),
	CONF(struct driver_conf, extra, NULL, "more"),
	{ 0 }
};

static int load_parts(struct conf_table *t, struct run *r, const char *flag)
{
	char text[64];
	char *argv[] = { text };
	int argc = 1;

	*r = (struct run){ 0 };
	snprintf(text, sizeof(text), "%s", flag);
	return conf_load(&r->conf, t, &argc, argv, &r->action, &r->e);
}

static void test_parts(void)
{
	struct driver_conf driver = { 0 };
	const struct conf_part parts[] = { { driver_fields, &driver }, { 0 } };
	struct conf_table t = table;
	struct run r;

	t.more = parts;
	write_config("hz = 5\nextra = a\nextra = b\nname = x\n");
	setenv("TUTTI_CONFIG", config_path, 1);
	setenv("TUTTI_KEEP", "6s", 1);
	CHECK_OK(load_parts(&t, &r, "--hz=1000"), r.e);
	CHECK_STR(r.conf.name, "x");
	CHECK_EQ(driver.hz, 1000);
	CHECK_EQ(driver.keep_ns, 6000000000);
	CHECK_EQ(driver.extra.n, 2);
	conf_release(&r.conf, &t);
	CHECK(!driver.extra.items);
	CHECK_EQ(load_parts(&t, &r, "--hz=1001"), ERR_INVALID);
	CHECK_STR(r.e.msg, "--hz: '1001': use 1 to 1000");
	conf_release(&r.conf, &t);
	CHECK_EQ(load_parts(&t, &r, "--hz=0"), ERR_INVALID);
	conf_release(&r.conf, &t);
	setenv("TUTTI_KEEP", "2h", 1);
	CHECK_EQ(load_parts(&t, &r, "--hz=1"), ERR_INVALID);
	CHECK_STR(r.e.msg, "environment TUTTI_KEEP: '2h': use 5s to 1h");
	conf_release(&r.conf, &t);
	unsetenv("TUTTI_KEEP");
	unsetenv("TUTTI_CONFIG");
}

/* What a stream prints into memory. */
static char *printed(void (*print)(const void *arg, FILE *out), const void *arg)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	print(arg, f);
	fclose(f);
	return text;
}

static void print_help(const void *arg, FILE *out)
{
	(void)arg;
	conf_help(&table, out);
}

static void print_conf(const void *arg, FILE *out)
{
	conf_print(arg, &table, out);
}

static void test_help(void)
{
	struct run r;
	char *text;

	load(&r, "--name x --help --nonsense");
	CHECK_OK(r.rc, r.e);
	CHECK_EQ(r.action, CONF_HELP);
	unload(&r);
	load(&r, "-- --help");
	CHECK_EQ(r.action, CONF_RUN);
	CHECK_EQ(r.argc, 1);
	unload(&r);
	text = printed(print_help, NULL);
	CHECK(strstr(text, "usage: test-prog [flags] FILE\n"));
	CHECK(strstr(text, "--name TEXT"));
	CHECK(strstr(text, "what it is called [default]\n"));
	CHECK(strstr(text, "--insecure "));
	CHECK(strstr(text, "do without TLS\n"));
	CHECK(strstr(text, "on unless told otherwise [on; --"));
	CHECK(strstr(text, "--lead TIME"));
	CHECK(strstr(text, "--spool SIZE"));
	CHECK(strstr(text, "--deep TIME"));
	CHECK(strstr(text, "KEY=VALUE of this host (repeatable)\n"));
	CHECK(!strstr(text, "_ns"));
	free(text);
}

/* What is printed, read as a file, gives the same again. */
static void test_print_round_trip(void)
{
	struct run first, second;
	char *text, *again;

	load(&first, "--print-config --name n --lead 1ms --spool 3M --rate 0.125 --insecure "
		     "--labels a --labels b --on=false");
	CHECK_OK(first.rc, first.e);
	CHECK_EQ(first.action, CONF_PRINT);
	text = printed(print_conf, &first.conf);
	CHECK(strstr(text, "name = n\n"));
	CHECK(strstr(text, "labels = a\nlabels = b\n"));
	load_with_file(&second, text, "");
	CHECK_OK(second.rc, second.e);
	CHECK(!second.conf.unset);
	again = printed(print_conf, &second.conf);
	CHECK_STR(again, text);
	free(text);
	free(again);
	unload(&first);
	unload(&second);
}

int main(void)
{
	int fd = mkstemp(config_path);

	CHECK(fd >= 0);
	close(fd);
	test_defaults();
	test_former();
	test_once();
	test_flags();
	test_precedence();
	test_lists();
	test_refusals();
	test_without_err();
	test_units();
	test_parts();
	test_help();
	test_print_round_trip();
	unlink(config_path);
	return 0;
}
