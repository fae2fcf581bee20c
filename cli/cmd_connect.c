/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards a port to an aggregator in a Kubernetes cluster, and keeps it open: for a browser, curl, XProf. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/api.h"
#include "cli/cmd.h"
#include "cli/forward.h"
#include "json/json_text.h"

struct conf {
	bool json;
};

static const struct conf_field fields[] = {
	CONF(struct conf, json, NULL, "print one JSON document on stdout"), { 0 }
};

static void say(const struct conf *conf, const struct forward *f)
{
	json_t *o;

	if (conf->json) {
		o = json_object();
		json_put_text(o, "server", f->url);
		api_print(o);
		json_decref(o);
	} else {
		printf("%s\nopen it in a browser, or in another terminal: export TUTTI_SERVER=%s\n"
		       "Ctrl-C closes it\n",
		       f->url, f->url);
	}
	fflush(stdout);
}

static int run(const void *arg, int argc, char **argv, struct err *e)
{
	const struct conf *conf = arg;
	struct forward f;
	sigset_t ends;
	int signal_number, rc;

	(void)argc;
	if (!forward_is_wanted(argv[0]) || strchr(argv[0], ','))
		return err_set(e, ERR_INVALID,
			       "'%.200s': expected one k8s://NAMESPACE/NAME; other servers need "
			       "no connect: --server URL",
			       argv[0]);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	/* Not blocked before: kubectl may wait for ever, and then Ctrl-C ends it by ending this process. */
	rc = forward_begin(&f, argv[0], e);
	if (rc)
		return rc;
	sigprocmask(SIG_BLOCK, &ends, NULL);
	say(conf, &f);
	while (sigwait(&ends, &signal_number))
		;
	forward_end(&f);
	return 0;
}

const struct cmd cmd_connect = {
	.name = "connect",
	.args = "k8s://NAMESPACE/NAME",
	.min_args = 1,
	.max_args = 1,
	.summary = "forward a port to an aggregator in Kubernetes, with kubectl",
	.fields = fields,
	.conf_size = sizeof(struct conf),
	.run = run,
};
