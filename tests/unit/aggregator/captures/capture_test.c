/* SPDX-License-Identifier: Apache-2.0 */
/* How captures end, host by host: agents that answer, refuse, fall silent, die. */
#include "aggregator/captures/arm_message.h"
#include "aggregator/fleet/messages.h"
#include "aggregator/sessions/sessions.h"
#include "base/mem.h"
#include "storage/store.h"
#include "tests/unit/aggregator/fleet.h"

static struct capture_host *host_at(struct capture *c, size_t i)
{
	CHECK(i < c->n_hosts);
	return &c->hosts[i];
}

static void check_host(struct capture *c, size_t i, enum host_state state, const char *reason)
{
	CHECK_EQ(host_at(c, i)->state, state);
	CHECK_STR(host_at(c, i)->reason, reason);
}

static void test_all_complete(void)
{
	struct fleet f;
	struct fake a = { .auto_deliver = true }, b = { .auto_deliver = true };
	char key[SESSION_KEY_BYTES];
	json_t *manifest = NULL;
	struct err e = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "host-a");
	fake_connect(&b, &f, "host-b");
	c = fleet_begin(&f);
	CHECK_EQ(c->n_hosts, 2);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	check_host(c, 0, HOST_COMPLETE, "");
	check_host(c, 1, HOST_COMPLETE, "");
	CHECK_EQ(host_at(c, 0)->bytes, 2000);
	CHECK_EQ(host_at(c, 0)->events, 42);
	CHECK_EQ(host_at(c, 0)->tracers[0].lost, 3);
	WAIT(&f, a.releases == 1 && b.releases == 1);
	CHECK_EQ(a.t0_ns, c->t0_ns);
	CHECK_EQ(a.t0_ns, b.t0_ns);
	CHECK_EQ(a.duration_ns, 10 * NS_PER_MS);
	CHECK_EQ(a.deadline_ns, c->last_ns);
	session_file_key(c->session, "", "host-b", key);
	CHECK(fleet_has_key(&f, key));
	CHECK_OK(session_load_manifest(f.agg.store.store, c->session, &manifest, &e), e);
	CHECK_EQ(json_integer_value(json_object_get(manifest, "complete")), 2);
	CHECK_STR(json_string_value(json_object_get(manifest, "state")), "committed");
	json_decref(manifest);
	CHECK_EQ(captures_stats(f.agg.captures)->committed, 1);
	fleet_stop(&f);
}

/* One of each: complete, partial, refused, busy, without a file, dead, lost before it began. */
static void test_mixed(void)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g" };
	struct fleet f;
	struct fake h[7] = { { .auto_deliver = true } };
	struct capture *c;

	fleet_start(&f, 0, 0);
	for (size_t i = 0; i < 7; i++)
		fake_connect(&h[i], &f, names[i]);
	fake_hang_up(&h[6]);
	c = fleet_begin(&f);
	check_host(c, 6, HOST_FAILED, "unreachable");
	for (size_t i = 1; i < 6; i++)
		WAIT(&f, h[i].arms);
	fake_armed(&h[1]);
	CHECK_EQ(fake_upload(&h[1], 3, 100, FLAW_NONE), RPC_OK);
	fake_result(&h[1], true, "profiler-old", "speaks no ProfilerService");
	fake_refuse(&h[2], "lunch", "back at two");
	fake_refuse(&h[3], "disk-full", "the spool is full");
	fake_armed(&h[4]);
	fake_result(&h[4], false, "assemble", "parts do not fit");
	fake_armed(&h[5]);
	WAIT(&f, host_at(c, 5)->state == HOST_ARMED);
	fake_hang_up(&h[5]);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	check_host(c, 0, HOST_COMPLETE, "");
	check_host(c, 1, HOST_PARTIAL, "profiler-old");
	check_host(c, 2, HOST_FAILED, "refused");
	CHECK_STR(host_at(c, 2)->detail, "lunch: back at two");
	check_host(c, 3, HOST_FAILED, "disk-full");
	check_host(c, 4, HOST_FAILED, "assemble");
	check_host(c, 5, HOST_FAILED, "lost");
	WAIT(&f, h[2].releases && h[4].releases);
	fleet_stop(&f);
}

/* Commits without those who never answered, never sent, or never reported. */
static void test_deadline(void)
{
	struct fleet f;
	struct fake a = { .auto_deliver = true }, b = { 0 }, d = { 0 }, g = { 0 };
	struct capture *c;

	fleet_start(&f, 20 * NS_PER_MS, 400 * NS_PER_MS);
	f.agg.patience.arm_ns = 100 * NS_PER_MS;
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	fake_connect(&d, &f, "d");
	fake_connect(&g, &f, "g");
	c = fleet_begin(&f);
	WAIT(&f, d.arms && g.arms);
	fake_armed(&d);
	fake_armed(&g);
	CHECK_EQ(fake_upload(&g, 1, 100, FLAW_NONE), RPC_OK);
	WAIT(&f, host_at(c, 2)->state == HOST_ARMED);
	fake_progress(&d, "uploading", 100);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	check_host(c, 0, HOST_COMPLETE, "");
	check_host(c, 1, HOST_FAILED, "unresponsive");
	check_host(c, 2, HOST_FAILED, "stalled");
	CHECK_STR(host_at(c, 2)->detail, "0 of 100 bytes had come within the grace of 0.4 s after "
					 "the window (--grace gives more), and no more came");
	check_host(c, 3, HOST_PARTIAL, "timeout");
	WAIT(&f, b.cancels == 1 && a.releases == 1);
	CHECK_EQ(a.cancels, 0);
	CHECK_EQ(d.cancels + d.releases, 0); /* it may still be asked for its file */
	/* What comes later is refused and changes nothing. */
	CHECK_EQ(fake_upload(&d, 1, 100, FLAW_NONE), RPC_FAILED_PRECONDITION);
	fake_result(&d, true, "", "");
	check_host(c, 2, HOST_FAILED, "stalled");
	fleet_stop(&f);
}

/* In XProf only files speak: one has what became of the other hosts. */
static void test_missing_is_noted(void)
{
	static const char text[] = "b is missing: refused: no, thanks";
	struct fleet f;
	struct fake a = { .auto_deliver = true }, b = { 0 };
	struct buf bytes = BUF_INIT;
	char key[SESSION_KEY_BYTES];
	struct err e = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = fleet_begin(&f);
	WAIT(&f, b.arms);
	fake_refuse(&b, "refused", "no, thanks");
	fleet_wait_over(&f, c->session);
	session_file_key(c->session, "", "a", key);
	CHECK_OK(store_get_bytes(f.agg.store.store, key, 1 << 20, store_within(NS_PER_S), &bytes,
				 &e),
		 e);
	CHECK_EQ(bytes.len, 2000 + 2 + strlen(text));
	CHECK(!memcmp(bytes.data + bytes.len - strlen(text), text, strlen(text)));
	CHECK_EQ(host_at(c, 0)->bytes, bytes.len);
	CHECK_EQ(host_at(c, 0)->state, HOST_COMPLETE);
	buf_release(&bytes);
	fleet_stop(&f);
}

/* Where arming has taken long before, no host is given up sooner. */
static void test_patience_grows_with_lead(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct capture *c;

	fleet_start(&f, 400 * NS_PER_MS, 0);
	f.agg.patience.arm_ns = 100 * NS_PER_MS;
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, a.arms);
	CHECK(c->lead_ns >= 400 * NS_PER_MS);
	CHECK_EQ(c->arm_by_ns, c->t0_ns + c->lead_ns);
	f.agg.patience.arm_ns = 3600 * NS_PER_S;
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, c->session);
	c = fleet_begin(&f);
	WAIT(&f, a.arms == 2);
	CHECK_EQ(c->arm_by_ns, c->t0_ns + 3600 * NS_PER_S);
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, c->session);
	fleet_stop(&f);
}

/* Whose times mean nothing to the others is never complete, and keeps what else is to be said of it. */
static void test_uncalibrated(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true, .uncalibrated = true }, b = a;
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = fleet_begin(&f);
	WAIT(&f, host_at(c, 0)->state == HOST_ARMED && host_at(c, 1)->state == HOST_ARMED);
	CHECK_EQ(fake_upload(&a, 1, 100, FLAW_NONE), RPC_OK);
	CHECK_EQ(fake_upload(&b, 1, 100, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	fake_result(&b, true, "profiler-busy", "another client has it");
	fleet_wait_over(&f, c->session);
	check_host(c, 0, HOST_PARTIAL, "uncalibrated");
	check_host(c, 1, HOST_PARTIAL, "uncalibrated");
	CHECK(strstr(host_at(c, 1)->detail, "profiler-busy: another client has it"));
	fleet_stop(&f);
}

static void test_all_dead(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true }, b = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = fleet_begin(&f);
	WAIT(&f, host_at(c, 0)->state == HOST_ARMED && host_at(c, 1)->state == HOST_ARMED);
	CHECK_EQ(fake_upload(&b, 1, 100, FLAW_CRC), RPC_DATA_LOSS);
	fake_hang_up(&a);
	fake_hang_up(&b);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_FAILED);
	fleet_check_failed(&f, c->session);
	/* It still tells why, and a new one fails at once. */
	CHECK(capture_find(f.agg.captures, c->session) == c);
	check_host(c, 0, HOST_FAILED, "lost");
	c = fleet_begin(&f);
	check_host(c, 0, HOST_FAILED, "unreachable");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_FAILED);
	CHECK_EQ(fleet_keys(&f), 2); /* both failures are on record */
	CHECK_EQ(captures_stats(f.agg.captures)->failed, 2);
	fleet_stop(&f);
}

static void test_dead_before_armed(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f); /* the plan is on its way to the store */
	captures_host_lost(f.agg.captures, "a", a.instance);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_FAILED);
	CHECK_EQ(a.arms, 0);
	fleet_check_failed(&f, c->session);
	fleet_stop(&f);
}

/* The next agent of a host has nothing of what was asked of the one before it: that one is not waited for. */
static void test_next_agent(void)
{
	struct fake a = { 0 }, next = { 0 };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	f.agg.patience.lost_ns = 60 * NS_PER_S;
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, a.arms);
	fake_armed(&a);
	WAIT(&f, c->state == CAP_UPLOADING);
	fake_hang_up(&a);
	fake_dial(&next, &f, "a", a.instance + 2);
	fake_hello(&next, NULL, NULL);
	WAIT(&f, capture_host_has_ended(host_at(c, 0)));
	check_host(c, 0, HOST_FAILED, "lost");
	CHECK_STR(host_at(c, 0)->detail, "the agent was restarted");
	CHECK_EQ(next.arms, 0);
	fleet_stop(&f);
}

/* A file that only its agent knows of is none. */
static void test_file_is_not_there(void)
{
	struct fake a = { 0 };
	struct capture *c;
	struct fleet f;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	WAIT(&f, a.arms);
	fake_armed(&a);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	check_host(c, 0, HOST_FAILED, "upload");
	CHECK(strstr(host_at(c, 0)->detail, "nothing has arrived"));
	fleet_stop(&f);
}

static void test_open_ended_and_stop(void)
{
	const struct capture_request req = { .duration_ns = LIMIT_DURATION_NS,
					     .open_ended = true,
					     .origin = "test" };
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct err e = { 0 };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	WAIT(&f, c->state == CAP_RUNNING && a.arms);
	capture_stop(c);
	WAIT(&f, c->state == CAP_UPLOADING);
	capture_stop(c); /* a second time says nothing new */
	WAIT(&f, a.stops);
	CHECK_EQ(a.t1_ns, c->t0_ns + c->duration_ns);
	CHECK(c->duration_ns < 20 * NS_PER_S);
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_COMMITTED);
	CHECK_EQ(a.stops, 1);
	fleet_stop(&f);
}

/* Before Arm went out, Arm itself carries the short window. */
static void test_stop_before_armed(void)
{
	struct fleet f;
	struct fake a = { .auto_deliver = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	c = fleet_begin(&f);
	capture_stop(c);
	fleet_wait_over(&f, c->session);
	CHECK_EQ(a.duration_ns, NS_PER_MS);
	CHECK_EQ(a.stops, 0);
	CHECK_EQ(c->state, CAP_COMMITTED);
	fleet_stop(&f);
}

static void test_cancel(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true }, b = { .auto_arm = true };
	struct capture *c;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = fleet_begin(&f);
	WAIT(&f, host_at(c, 0)->state == HOST_ARMED);
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fake_result(&a, true, "", "");
	WAIT(&f, host_at(c, 0)->state == HOST_COMPLETE);
	CHECK(capture_cancel(c));
	CHECK(!capture_cancel(c));
	fleet_wait_over(&f, c->session);
	CHECK_EQ(c->state, CAP_FAILED);
	check_host(c, 1, HOST_FAILED, "cancelled");
	fleet_check_failed(&f, c->session);
	WAIT(&f, b.cancels == 1);
	fleet_stop(&f);
}

static void expect(struct fleet *f, const struct capture_request *req, int code, const char *part)
{
	struct capture *c;
	struct err e = { 0 };

	CHECK_EQ(capture_begin(f->agg.captures, req, &c, &e), code);
	CHECK(strstr(e.msg, part));
	CHECK_EQ(fleet_keys(f), 0);
}

static void refuse_setting(struct fleet *f, const char *key, const char *value, const char *words)
{
	json_t *settings = json_pack("{s:s}", key, value);
	const struct capture_request req = { .duration_ns = NS_PER_MS, .settings = settings };

	expect(f, &req, ERR_INVALID, words);
	json_decref(settings);
}

/* Against the lists of all selected hosts, before one is armed. */
static void test_tracer_settings(void)
{
	struct fleet f;
	struct fake a = { .has_profiler = true }, b = { .max_depth = 8 },
		    none = { .max_depth = -1 };
	json_t *settings = json_pack("{s:i}", "cpu.depth", 8),
	       *others = json_pack("[s]", "profiler");
	struct capture_request req = { .duration_ns = NS_PER_MS, .settings = settings };
	struct capture *c;
	struct err e;

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	refuse_setting(&f, "cpu.dept", "1", "no selected host has a setting 'cpu.dept'");
	refuse_setting(&f, "gpu.depth", "1", "'gpu.depth'");
	refuse_setting(&f, "cpu.depth", "9", "setting 'cpu.depth': '9': use a number from 1 to 8");
	refuse_setting(&f, "cpu.depth", "x", "'x'");
	req.tracers = others;
	expect(&f, &req, ERR_INVALID, "'cpu.depth': its tracer is not among the tracers");
	req.tracers = NULL;
	fake_connect(&none, &f, "none");
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	CHECK_EQ(json_array_size(c->warnings), 1);
	CHECK(strstr(json_string_value(json_array_get(c->warnings, 0)),
		     "1 of 3 hosts do not have it and record without it: none"));
	WAIT(&f, a.arms && b.arms && none.arms);
	CHECK_STR(a.settings, "cpu.depth=8;");
	CHECK_STR(none.settings, "cpu.depth=8;");
	json_decref(settings);
	json_decref(others);
	fleet_stop(&f);
}

static void test_refused_requests(void)
{
	struct fleet f;
	struct fake a = { 0 };
	struct capture_request req = { .duration_ns = NS_PER_MS };
	json_t *settings = json_pack("{s:s}", "host_tracer_levle", "2");
	json_t *tracers = json_pack("[s]", "gpu");

	fleet_start(&f, 0, 0);
	expect(&f, &req, ERR_NOT_FOUND, "no agent is connected");
	fake_connect(&a, &f, "a");
	req.duration_ns = 0;
	expect(&f, &req, ERR_INVALID, "duration_ns");
	req.duration_ns = LIMIT_DURATION_NS + 1;
	expect(&f, &req, ERR_INVALID, "duration_ns");
	req.duration_ns = NS_PER_MS;
	req.run = "../x";
	expect(&f, &req, ERR_INVALID, "run name");
	req.run = "";
	req.hosts = "a,unknown";
	expect(&f, &req, ERR_NOT_FOUND, "unknown");
	req.hosts = "";
	req.settings = settings;
	expect(&f, &req, ERR_INVALID, "host_tracer_levle");
	req.settings = NULL;
	req.tracers = tracers;
	expect(&f, &req, ERR_INVALID, "gpu");
	req.tracers = NULL;
	f.agg.store.ready = false;
	expect(&f, &req, ERR_BUSY, "store");
	CHECK_EQ(a.arms, 0);
	json_decref(settings);
	json_decref(tracers);
	fleet_stop(&f);
}

static void test_too_many(void)
{
	struct capture_request req = { .duration_ns = LIMIT_DURATION_NS };
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture *c;
	struct err e = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	for (int i = 0; i < LIMIT_CAPTURES + LIMIT_QUEUED; i++, req.duration_ns--) {
		CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
		CHECK_EQ(c->state == CAP_QUEUED, i >= LIMIT_CAPTURES);
	}
	CHECK(strstr(c->waits_for, "captures under way"));
	CHECK_EQ(capture_begin(f.agg.captures, &req, &c, &e), ERR_LIMIT);
	CHECK(strstr(e.msg, "64 captures wait"));
	fleet_stop(&f); /* with all of them under way */
}

static void test_ended_are_kept_for_a_while(void)
{
	char first[64], last[64];
	struct fleet f;
	struct fake a = { 0 };

	fleet_start(&f, 0, 0);
	fake_connect(&a, &f, "a");
	fake_hang_up(&a);
	snprintf(first, sizeof(first), "%s", fleet_begin(&f)->session);
	fleet_wait_over(&f, first);
	for (int i = 0; i < 64; i++) {
		snprintf(last, sizeof(last), "%s", fleet_begin(&f)->session);
		fleet_wait_over(&f, last);
	}
	CHECK(!capture_find(f.agg.captures, first));
	CHECK(capture_find(f.agg.captures, last));
	fleet_stop(&f);
}

static void note_state(void *arg, struct capture *c)
{
	*(enum capture_state *)arg = c->state;
}

/* SIGTERM ends no capture: the next start finds it as after SIGKILL. */
static void test_stopped_in_the_middle(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true }, b = { .auto_arm = true };
	enum capture_state last = CAP_ARMING;
	struct capture *c;

	fleet_start(&f, 0, 0);
	captures_watch(f.agg.captures, note_state, &last);
	fake_connect(&a, &f, "a");
	fake_connect(&b, &f, "b");
	c = fleet_begin(&f);
	WAIT(&f, host_at(c, 0)->state == HOST_ARMED);
	CHECK_EQ(fake_upload(&a, 1, 10, FLAW_NONE), RPC_OK);
	fleet_stop(&f);
	CHECK(last < CAP_COMMITTING);
}

/* ---- what agents hold ---- */

static void dial_holding(struct fake *a, struct fleet *f, const char *session, const char *state)
{
	a->welcomes = a->cancels = a->releases = 0;
	snprintf(a->held, sizeof(a->held), "%s", session);
	snprintf(a->held_state, sizeof(a->held_state), "%s", state);
	fake_dial(a, f, "a", 7);
	fake_hello(a, NULL, NULL);
	WAIT(f, a->welcomes);
	run_for(f->loop, 100 * NS_PER_MS);
}

static void report_held(struct fake *a)
{
	Tutti__V1__AgentMessage m = TUTTI__V1__AGENT_MESSAGE__INIT;
	Tutti__V1__Status status = TUTTI__V1__STATUS__INIT;
	Tutti__V1__Held held = TUTTI__V1__HELD__INIT, *list = &held;

	held.session = a->held;
	held.state = a->held_state;
	held.instance = a->instance;
	status.n_held = 1;
	status.held = &list;
	m.kind_case = TUTTI__V1__AGENT_MESSAGE__KIND_STATUS;
	m.status = &status;
	fake_send(a, &m);
}

/* The aggregator does not know the session: what records it ends, what was stored is released, and a file that
 * a retry may fetch stays. */
static void test_unknown_session_is_dropped(void)
{
	static const struct {
		const char *state;
		int cancels, releases;
	} cases[] = {
		{ "armed", 1, 0 },     { "running", 1, 0 }, { "gathering", 1, 0 },
		{ "uploading", 0, 0 }, { "stored", 0, 1 },  { "failed", 0, 1 },
	};
	struct fleet f;
	struct fake a = { 0 };

	fleet_start(&f, 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		dial_holding(&a, &f, "2026_11_21_12_00_00_abc123", cases[i].state);
		CHECK_EQ(a.cancels, cases[i].cancels);
		CHECK_EQ(a.releases, cases[i].releases);
		fake_hang_up(&a);
	}
	/* Nothing is dropped before it is known what an earlier run left. */
	f.agg.store.swept = false;
	dial_holding(&a, &f, "2026_11_21_12_00_00_abc123", "running");
	CHECK_EQ(a.cancels, 0);
	f.agg.store.swept = true;
	fleet_stop(&f);
}

/* Until the agent has done it: a link may break under any message. */
static void test_cancel_is_repeated(void)
{
	struct fleet f;
	struct fake a = { .auto_arm = true };
	struct capture_request req = { .duration_ns = 60 * NS_PER_S, .origin = "test" };
	struct capture *c;
	struct err e;

	fleet_start(&f, 0, 0);
	f.agg.patience.lost_ns = 60 * NS_PER_S;
	fake_dial(&a, &f, "a", 7);
	fake_hello(&a, NULL, NULL);
	WAIT(&f, a.welcomes);
	CHECK_OK(capture_begin(f.agg.captures, &req, &c, &e), e);
	WAIT(&f, host_at(c, 0)->state == HOST_ARMED);
	fake_hang_up(&a);
	CHECK(capture_cancel(c));
	fleet_wait_over(&f, c->session);
	dial_holding(&a, &f, c->session, "running");
	CHECK_EQ(a.cancels, 1);
	report_held(&a);
	WAIT(&f, a.cancels == 2);
	fleet_stop(&f);
}

/* Together the hosts of a capture send no more than that, however many they are. */
static uint32_t probe_gap_ms(struct fleet *f, size_t hosts)
{
	struct capture c = { .captures = f->agg.captures,
			     .n_hosts = hosts,
			     .settings = json_object() };
	Tutti__V1__AggregatorMessage *m;
	struct buf b = BUF_INIT;
	uint32_t gap_ms;

	message_arm(&b, &c, 1);
	m = tutti__v1__aggregator_message__unpack(NULL, b.len, b.data);
	CHECK(m && m->arm);
	gap_ms = m->arm->probe_gap_ms;
	tutti__v1__aggregator_message__free_unpacked(m, NULL);
	json_decref(c.settings);
	buf_release(&b);
	return gap_ms;
}

static void test_probe_gap(void)
{
	struct fleet f;

	fleet_start(&f, 0, 0);
	CHECK_EQ(probe_gap_ms(&f, 1), 0);
	CHECK_EQ(probe_gap_ms(&f, 10000), 500);
	CHECK_EQ(probe_gap_ms(&f, LIMIT_HOSTS), 1000);
	fleet_stop(&f);
}

int main(void)
{
	test_probe_gap();
	test_all_complete();
	test_mixed();
	test_deadline();
	test_missing_is_noted();
	test_patience_grows_with_lead();
	test_uncalibrated();
	test_all_dead();
	test_dead_before_armed();
	test_next_agent();
	test_file_is_not_there();
	test_open_ended_and_stop();
	test_stop_before_armed();
	test_cancel();
	test_refused_requests();
	test_tracer_settings();
	test_too_many();
	test_ended_are_kept_for_a_while();
	test_stopped_in_the_middle();
	test_unknown_session_is_dropped();
	test_cancel_is_repeated();
	return 0;
}
