# SPDX-License-Identifier: Apache-2.0
"""Viewing while the store fails: the answer names the store, the page says so and goes on by itself; what is open stays."""
import contextlib
import urllib.error

from lib.browser import Browser
from lib.cluster import Cluster, main, wait_until
from lib.view import View
from lib.viewer import Page, capture, need_browser

HIDDEN = "return document.getElementById('v-panel').hidden"
PAINTED = "const c = document.getElementById('v-canvas'); return c.width ? new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size : 0"


def faulty(c):
    """A session of one host in a store that fails by rules; returns the rules and the session."""
    rules = c.dir / "rules"
    rules.touch()
    return rules, capture(c, 1, flags=(f"--store=fault://{rules}!file://{c.store}",))


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


def test_list():
    """The list of sessions does not say that there is none while the store does not answer, and what was listed stays."""
    need_browser()
    with Cluster() as c:
        rules, session = faulty(c)
        rules.write_text("* * fail\n")
        b = Browser(c, size="1280,900")
        b.open(f"{c.url}/")
        wait_until("the state", lambda: "cannot be listed now: the store: list" in b.text("#sessions") and "fault" in b.text("#sessions"))
        assert "No session yet" not in b.text("#home") and "0 sessions" not in b.text("#home"), b.text("#home")
        rules.write_text("")
        wait_until("the list", lambda: session in b.text("#sessions") and "cannot" not in b.text("#home"))
        rules.write_text("* * fail\n")
        b.run("[...document.querySelectorAll('#sessions button')].find(b => b.textContent === 'files').click()")
        wait_until("why there are no files", lambda: "fault" in b.text("#s-note"))
        c.kill("host-0")
        c.kill("aggregator")
        rules.write_text("")
        c.start("aggregator", list(c.processes["aggregator"].args))
        wait_until("the stream", lambda: "live" in b.text("#link"))
        rules.write_text("list * hang\nget *manifest.json hang\n")
        b.open(f"{c.url}/#/s/{session}")
        wait_until("that it takes long", lambda: "does not answer yet" in b.text("#v-notices"))
        rules.write_text("")
        wait_until("the timeline", lambda: b.run("return window.tutti?.state() != null"))
        b.close()


def test_open_page():
    """A session is on the screen when the aggregator starts anew and the store is away: the picture stays, and takes keys, until it is
    there again. One that is deleted is not shown any more, nor under the name of another one."""
    need_browser()
    with Cluster() as c:
        rules, session = faulty(c)
        b = Browser(c, size="1280,900")
        p = Page(c, b)
        p.show(session)
        rules.write_text("* */plugins/* fail\n")
        c.kill("aggregator")
        c.start("aggregator", list(c.processes["aggregator"].args))
        wait_until("the aggregator", lambda: c.is_ready(c.processes["aggregator"]))
        t0 = p.state()["t0"]
        b.press("d", hold_ms=300)
        b.press("w", hold_ms=600)
        wait_until("what is wrong", lambda: "the store does not give the session now" in b.text("#v-note"))
        s = b.run("return window.tutti.state()")
        assert s["onScreen"] and s["t0"] > t0 and len(s["rows"]) > 5, (s["onScreen"], s["t0"])
        b.press("d", hold_ms=300)
        want = wait_until("a further move", lambda: (n := b.run("return window.tutti.state()"))["t0"] > s["t0"] and n)
        rules.write_text("")
        s = p.until("its tiles", lambda s: s["complete"] and s["onScreen"] and not s["failure"])
        assert s["t0"] > want["t0"] - 1 and s["t1"] - s["t0"] < 1e12, (s["t0"], want["t0"])
        wait_until("the end of the note", lambda: "store" not in b.text("#v-note"))
        b.press("x")
        wait_until("the sums", lambda: "in the box" in b.text("#v-panel"))

        other = c.tutti("capture", "--duration", "200ms", "--tracer", "metrics", "--json", check=0)[1]["session"]
        rules.write_text(f"* *{other}* fail\n")
        b.run(f"location.hash = '#/s/{other}'")
        wait_until("the state", lambda: "Waiting: the store" in b.text("#v-notices"))
        assert b.run(PAINTED) == 0 and not b.text("#v-tools") and b.run(HIDDEN), "the other session is still there"
        rules.write_text("")
        p.until("its events", lambda s: s["complete"])

        p.show(session)
        c.tutti("delete", session, check=0)
        b.press("0", "x")
        wait_until("what has become of it", lambda: f"there is no session {session}" in b.text("#v-notices"))
        assert b.run(PAINTED) == 0 and not b.text("#v-tools") and not b.text("#v-note") and b.run(HIDDEN)
        b.close()


def test_closed_by_others():
    """Sessions that others open close this one at the aggregator: its page does not show that, and no question is lost."""
    need_browser()
    with Cluster() as c:
        session = capture(c, 1)
        b = Browser(c, size="1280,900")
        p = Page(c, b)
        p.show(session)
        b.press("x")
        wait_until("the sums", lambda: "in the box" in b.text("#v-panel"))
        v = View(c, session)
        for _ in range(5):
            View(c, c.tutti("capture", "--duration", "100ms", "--tracer", "metrics", "--json", check=0)[1]["session"])
        with contextlib.suppress(urllib.error.HTTPError):
            v.ask("search", text="x")
            raise AssertionError("the session is still open")
        b.press("l")
        wait_until("the late host", lambda: b.text("#v-late"))
        p.until("the same picture", lambda s: s["onScreen"] and s["t0"] <= 0)
        b.close()


main(test_answers, test_page, test_list, test_open_page, test_closed_by_others)
