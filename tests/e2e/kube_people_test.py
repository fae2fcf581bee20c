# SPDX-License-Identifier: Apache-2.0
"""People of a Kubernetes cluster: roles by their rights to captures.tutti.dev; what the cluster does not know is refused, and a cluster that
does not answer is a 503 and keeps no other caller from asking."""
import concurrent.futures
import signal
import time

from access_test import ask
from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.fake_issuer import FakeIssuer
from lib.fake_reviews import FakeReviews

VIEW, START, REMOVE = ("get", "list"), ("get", "list", "create"), ("get", "list", "create", "delete")


def in_space(space, verbs):
    return {(space, v) for v in verbs}


def start(c, api, *flags):
    file = c.dir / "token"
    file.write_text(api.token)
    c.aggregator("--kubernetes", api.url, "--kubernetes-token-file", file, "--kubernetes-people", "tutti", *flags)


def whoami(c, token):
    status, doc, _ = ask(c, token, "GET", "/api/v1/whoami")
    return status, doc


def test_roles():
    api = FakeReviews({"red", "blue", "green"})
    both = in_space("red", START) | in_space("blue", VIEW)
    cases = [  # rights, role, namespaces
        (in_space("", VIEW), "viewer", None), (in_space("", START), "operator", None), (in_space("", REMOVE), "admin", None),
        (in_space("red", VIEW), "viewer", ["red"]), (in_space("red", START), "operator", ["red"]), (in_space("red", REMOVE), "admin", ["red"]),
        (both, "operator", ["blue", "red"]), (in_space("", VIEW) | in_space("red", REMOVE), "admin", None),
        (set(), None, None), (in_space("red", ("create", "delete")), None, None), (in_space("red", ("get",)), None, None),
        (in_space("red", ("get", "list", "delete")), "viewer", ["red"]), (in_space("absent", VIEW), None, None),
    ]
    with Cluster() as c:
        start(c, api, "--audit", c.dir / "audit")
        assert whoami(c, None)[0] == 401
        for i, (rights, role, spaces) in enumerate(cases):
            token = api.person(f"system:serviceaccount:jobs:p{i}", rights)
            status, doc = whoami(c, token)
            if role is None:
                assert status == 403 and "role none" in doc["error"], (rights, status, doc)
                continue
            assert status == 200, (rights, doc)
            assert (doc["name"], doc["how"], doc["role"], doc.get("namespaces")) == (f"system:serviceaccount:jobs:p{i}", "kubernetes", role, spaces), doc
            assert token not in c.logs_text() + (c.dir / "audit").read_text()
        mixed = api.person("mixed", both)
        assert ask(c, mixed, "GET", "/metrics")[0] == 403
        file = c.dir / "long"  # tokens name groups: they have kilobytes
        file.write_text(api.person("long", in_space("", VIEW), size=6000))
        file.chmod(0o600)
        assert c.tutti("sessions", "--token-file", file)[0] == 0, c.stderr
        assert ask(c, None, "POST", "/api/v1/login", {"token": mixed})[1]["name"] == "mixed"
    api.close()


def test_refused():
    api = FakeReviews({"red"})
    cases = [
        ("no-such-token", "invalid bearer token"), (api.person("other", set(), ("api",)), "audiences"),
        (api.person("blind", set(), ()), "not for the audience"), (api.person("old", set(), error="token has expired\x1b[31m\n" + "x" * 5000), "has expired"),
        (api.person("", set()), "no name"), (api.person("a\nb", set()), "no name"), (api.person("x" * 400, set()), "no name"),
        (api.person("nameless", set(), user=7), "no name"), (api.person("nameless", set(), user={}), "no name"), ("a" * 16385, "longest has"),
    ]
    with Cluster() as c:
        start(c, api)
        for token, reason in cases:
            status, doc = whoami(c, token)
            assert status == 401 and reason in doc["error"] and "\x1b" not in doc["error"], (reason, status, doc)
        asked = api.count("tokenreviews")
        assert asked == len(cases) - 1, asked
        for token, reason in cases:
            assert reason in whoami(c, token)[1]["error"]
        # Two tokens in a hundred have the same place as one of the others, and take it from that one.
        assert api.count("tokenreviews") <= asked + 2, "what was refused a moment ago is asked again"
    api.close()


def test_held():
    """A right that was taken is noticed after --kubernetes-people-hold; callers with one token share a check."""
    api = FakeReviews({"red"})
    token = api.person("ada", in_space("red", VIEW))
    api.faults["tokenreviews"] = "slow"
    with Cluster() as c:
        start(c, api, "--kubernetes-people-hold", "2s")
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            assert [s for s, _ in pool.map(lambda _: whoami(c, token), range(12))] == [200] * 12
        assert api.count("tokenreviews") == 1, api.asked
        api.people[token]["rights"].clear()
        wait_until("the right that was taken", lambda: whoami(c, token)[0] == 403, 20)
        api.people[token]["error"] = "the account was deleted"
        wait_until("the token that was taken", lambda: whoami(c, token)[0] == 401, 20)
    api.close()


def test_faults():
    api = FakeReviews({"red"})
    with Cluster() as c:
        tokens = c.dir / "tokens"
        tokens.write_text("root admin 4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2\n")  # the token "root"
        tokens.chmod(0o600)
        start(c, api, "--tokens", tokens)
        expected = {"error-500": "answers 500", "forbidden": "grant it", "unauthorized": "the aggregator's token", "huge": "", "garbage": "", "empty": ""}
        for what in ("tokenreviews", "subjectaccessreviews", "namespaces"):
            for fault, reason in expected.items():
                api.faults = {what: fault}
                status, doc = whoami(c, api.person(f"{what}-{fault}", in_space("red", VIEW)))
                assert status == 503 and reason in doc["error"] and "\x1b" not in doc["error"], (what, fault, status, doc)
        api.faults = {"subjectaccessreviews": "array"}
        assert whoami(c, api.person("array", in_space("red", VIEW)))[0] == 403, "an answer that allows nothing"
        api.faults = {"tokenreviews": "hang"}
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            hanging = [pool.submit(whoami, c, api.person(f"h{i}", set())) for i in range(6)]
            time.sleep(1)
            begin = time.monotonic()
            assert whoami(c, "root")[1]["role"] == "admin"
            assert ask(c, "root", "GET", "/api/v1/sessions")[0] == 200, "workers are left for who needs no review"
            assert time.monotonic() - begin < 15 * SLOW
            c.kill("aggregator", signal.SIGTERM)
            for h in hanging:
                h.exception()
    api.close()


def test_with_provider():
    """A token is shown only to who it says has given it."""
    api, issuer = FakeReviews({"red"}), FakeIssuer()
    with Cluster() as c:
        start(c, api, "--oidc-issuer", issuer.url, "--oidc-audience", "tutti", "--oidc-grant", "ml=viewer")
        assert whoami(c, issuer.token(azp=None))[1]["how"] == "oidc" and not api.count("tokenreviews")
        assert whoami(c, issuer.token(aud="other"))[0] == 401 and not api.count("tokenreviews")
        assert whoami(c, api.person("ada", in_space("red", VIEW)))[1]["how"] == "kubernetes" and issuer.fetches == 1
    issuer.close()
    api.close()


def test_settings():
    with Cluster() as c:
        p = c.start("other", [BIN / "tutti-aggregator", "--store", "mem://", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--probe", "127.0.0.1:0",
                              "--spool", c.dir / "other", "--kubernetes-people", "tutti"])
        assert p.wait(20 * SLOW) == 1 and "needs --kubernetes" in c.log("other"), c.log("other")
        c.processes.pop("other")


if __name__ == "__main__":
    main(test_roles, test_refused, test_held, test_faults, test_with_provider, test_settings)
