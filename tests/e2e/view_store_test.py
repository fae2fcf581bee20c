# SPDX-License-Identifier: Apache-2.0
"""Viewing while the store fails: the answer names the store, the page says so and goes on by itself; what is open stays."""
from lib.browser import Browser
from lib.cluster import Cluster, main, wait_until
from lib.view import View
from lib.viewer import Page, capture, need_browser


def faulty(c):
    """A session of one host in a store that fails by rules; returns the rules and the session."""
    rules = c.dir / "rules"
    rules.touch()
    return rules, capture(c, 1, flags=(f"--store=fault://{rules}!file://{c.store}",), steps=4)


def test_answers():
    with Cluster() as c:
        rules, session = faulty(c)
        path = f"/api/v1/sessions/{session}/view"
        for rule in ("* * fail", "open *.xplane.pb fail", "open *.xplane.pb missing", "open *.xplane.pb lose", "get *manifest.json fail"):
            rules.write_text(rule + "\n")
            status, doc = c.call("GET", path)
            while status == 202:  # a file is opened by a worker
                status, doc = c.call("GET", path)
            assert (status, doc.get("reason")) == (503, "store"), (rule, status, doc)
            assert "the store does not give the session now" in doc["error"] and "fault" in doc["error"], (rule, doc)
        rules.write_text("")
        v = View(c, session)
        rules.write_text("* * fail\n")  # what is open needs the store no more
        assert v.ask("selection", from_ps=-(1 << 59), to_ps=1 << 59, tracks="all")["count"] > 100


def test_page():
    need_browser()
    with Cluster() as c:
        rules, session = faulty(c)
        rules.write_text("* */plugins/* fail\n")
        b = Browser(c, size="1280,900")
        p = Page(c, b)
        b.open(f"{c.url}/#/s/{session}")
        wait_until("the state", lambda: "the store does not give the session now" in b.text("#v-notices"))
        assert "tries again by itself" in b.text("#v-notices") and "Try again" in b.text("#v-notices"), b.text("#v-notices")
        rules.write_text("")
        wait_until("the timeline", lambda: b.run("return window.tutti?.state() != null"))
        p.until("its events", lambda s: s["complete"] and s["onScreen"])
        assert "store" not in b.text("#v-notices"), b.text("#v-notices")
        other = c.tutti("capture", "--duration", "200ms", "--tracer", "metrics", "--json", check=0)[1]["session"]
        rules.write_text("* */plugins/* fail\n")
        b.open(f"{c.url}/#/compare?a={session}&b={other}")
        wait_until("the state", lambda: "Waiting for B" in b.text("#p-note") and "the store" in b.text("#p-note"))
        rules.write_text("")
        wait_until("the sums", lambda: "copy as CSV" in b.text("#compare"))
        b.close()


main(test_answers, test_page)
