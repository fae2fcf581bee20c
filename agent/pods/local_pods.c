/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pods/local_pods.h"

#include <inttypes.h>
#include <stdlib.h>

#include "agent/pods/pod_view.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/now.h"

#define LOOK_EVERY_NS (2 * NS_PER_S)

struct local_pods {
	struct local_pods_conf conf;
	struct loop_timer timer;
	struct pod_set *set; /* the newest message; NULL = none */
	struct pod_view *view; /* NULL = none */
	struct look *looking; /* on a worker; NULL = none */
	bool again; /* another message came meanwhile */
};

/* A look at the processes. */
struct look {
	struct local_pods *owner; /* loop's thread only; NULL when it is gone */
	char *proc;
	struct pod_set *set;
	struct pod_view *before, *after;
	int64_t now_mono_ns;
};

static void begin_look(void *arg);

/* On a worker. */
static void run_look(void *arg)
{
	struct look *k = arg;

	k->after = pod_view_make(k->set, k->before, k->proc, k->now_mono_ns);
}

static void on_looked(void *arg)
{
	struct look *k = arg;
	struct local_pods *lp = k->owner;

	pod_view_release(k->before);
	pod_set_release(k->set);
	free(k->proc);
	if (lp) {
		pod_view_release(lp->view);
		lp->view = k->after;
		lp->looking = NULL;
		if (lp->again)
			begin_look(lp);
		else if (pod_set_count(lp->set))
			loop_timer_each(lp->conf.loop, &lp->timer, LOOK_EVERY_NS, begin_look, lp);
	} else {
		pod_view_release(k->after);
	}
	free(k);
}

static void begin_look(void *arg)
{
	struct local_pods *lp = arg;
	struct look *k = xcalloc(1, sizeof(*k));

	lp->again = false;
	lp->looking = k;
	*k = (struct look){ .owner = lp,
			    .proc = xstrdup(lp->conf.proc),
			    .set = pod_set_hold(lp->set),
			    .before = pod_view_hold(lp->view),
			    .now_mono_ns = now_mono_ns() };
	loop_work(lp->conf.loop, run_look, on_looked, k);
}

struct local_pods *local_pods_new(const struct local_pods_conf *conf)
{
	struct local_pods *lp = xcalloc(1, sizeof(*lp));

	lp->conf = *conf;
	return lp;
}

void local_pods_free(struct local_pods *lp)
{
	if (!lp)
		return;
	loop_timer_cancel(lp->conf.loop, &lp->timer);
	if (lp->looking)
		lp->looking->owner = NULL;
	pod_view_release(lp->view);
	pod_set_release(lp->set);
	free(lp);
}

void local_pods_take(struct local_pods *lp, Tutti__V1__Pods *m_taken)
{
	log_info("AGT-PODS", "node=%s pods=%zu left_out=%" PRIu32, m_taken->node, m_taken->n_pods,
		 m_taken->left_out);
	pod_set_release(lp->set);
	lp->set = pod_set_new(m_taken);
	lp->again = lp->looking != NULL;
	if (lp->looking)
		return;
	loop_timer_cancel(lp->conf.loop, &lp->timer);
	begin_look(lp);
}

struct pod_view *local_pods_view(const struct local_pods *lp)
{
	return lp ? pod_view_hold(lp->view) : NULL;
}
