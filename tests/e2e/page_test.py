# SPDX-License-Identifier: Apache-2.0
"""The aggregator's page in a real browser: hosts, captures and snapshots by their dialog, the list of sessions, a session's end."""
from lib.browser import Browser
from lib.cluster import Cluster, free_port, main, wait_until
from lib.viewer import need_browser


class Dialog:
    """What begins a capture, filled in by keys."""

    def __init__(self, b):
        self.b = b

    def open(self):
        self.b.press("c")
        wait_until("the dialog", lambda: self.b.run("return document.querySelector('#k-form') !== null"))

    def set(self, name, value):
        self.b.run(f"const f = document.querySelector('#k-form [name={name}]'); f.value = '{value}'; f.dispatchEvent(new Event('input'))")

    def choose(self, when):
        self.b.run(f"document.querySelector('#k-form [value={when}]').click()")

    def begin(self):
        self.b.run("document.querySelector('#k-begin').click()")

    def until_ended(self):
        """The session, once its progress says that it ended."""
        wait_until("the commit", lambda: "committed" in self.b.text("#capture .progress p"))
        return self.b.text("#capture .progress p").split(":")[0]


def check_completion(b, d):
    """Hosts and labels are completed at the cursor, and counted."""
    d.open()
    b.press("!", *"host", "Down", "Enter")
    assert b.run("return document.querySelector('#k-hosts').value").startswith("!host-"), b.run("return document.querySelector('#k-hosts').value")
    wait_until("the count", lambda: b.text("#k-match") == "1 of 2 hosts match")
    d.set("hosts", "all,!rack=")
    b.run("const f = document.querySelector('#k-hosts'); f.focus(); f.setSelectionRange(99, 99); f.dispatchEvent(new Event('input'))")
    b.press("Down", "Enter")
    value = b.run("return document.querySelector('#k-hosts').value")
    assert value.startswith("all,!rack=r"), value
    for selector, number in (("host-a", 1), ("host-*", 2), ("rack=r1", 1), ("!rack=r1", 1), ("rack in (r1,r2)", 2), ("rack notin (r1, r2)", 0), ("host-a,rack=r2", 0), ("nothing", 0)):
        d.set("hosts", selector)
        assert b.text("#k-match") == f"{number} of 2 hosts match", (selector, b.text("#k-match"))
    d.set("hosts", "all")


def check_command(b, d):
    """What the dialog would do is shown as a command, for each of its three ways."""
    assert b.text("#k-command") == "tutti capture --hosts all --duration 2s", b.text("#k-command")
    d.choose("step")
    assert b.text("#k-command") == "tutti capture --hosts all --at-step next --steps 5", b.text("#k-command")
    d.choose("last")
    assert b.text("#k-command") == "tutti snapshot --hosts all --last 30s" and b.text("#k-begin") == "Snapshot", b.text("#k-command")
    d.choose("now")
    assert "on 2 of 2 hosts" in b.text("#k-form .checks"), b.text("#k-form .checks")
    b.run("[...document.querySelectorAll('#k-form button')].find(b => b.textContent === 'Add a setting').click()")
    b.press(*"nonsense")
    b.run("const f = document.querySelectorAll('.setting input')[1]; f.value = '1'; f.dispatchEvent(new Event('input'))")
    wait_until("the setting", lambda: "--set nonsense=1" in b.text("#k-command"))
    d.set("duration", "0.3")
    d.begin()
    wait_until("the refusal", lambda: "nonsense" in b.text("#capture [role=alert]"))
    b.run("document.querySelector('.setting button').click()")


def check_cluster(b):
    """The page of hosts: state, clock on its axis, bound, tracers, labels as text."""
    b.run("location.hash = '#/hosts'")
    wait_until("the hosts", lambda: "host-a" in b.text("#hosts") and "host-b" in b.text("#hosts"))
    assert "connected" in b.text("#hosts") and "note=<b>bold</b>" in b.text("#hosts"), b.text("#hosts")
    wait_until("the clocks", lambda: b.run("return document.querySelectorAll('#hosts .axis .dot').length") == 2)
    assert b.text("#c-sum").startswith("2 of 2 hosts connected, worst bound "), b.text("#c-sum")


def test_page():
    need_browser()
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--label", "note=<b>bold</b>", "--label", "rack=r1")
        c.agent("host-b", "--label", "rack=r2")
        c.wait_hosts(2)
        b = Browser(c)
        d = Dialog(b)
        b.open(c.url)
        wait_until("the empty list", lambda: "No session yet" in b.text("#sessions"))
        check_cluster(b)
        check_completion(b, d)
        check_command(b, d)
        d.begin()
        session = d.until_ended()
        assert "complete" in b.text("#capture .progress table") and "host-b" in b.text("#capture .progress table"), b.text("#capture")
        assert b.run("return document.activeElement.textContent") == "Open session"
        b.press("Enter")
        wait_until("the timeline", lambda: b.run("return window.tutti.state() !== null && location.hash.includes('/s/')"))
        b.run("location.hash = '#/'")
        wait_until("the session on the page", lambda: session in b.text("#sessions"))
        b.run("document.querySelector('#sessions td.verbs button').click()")
        wait_until("its files", lambda: "host-a.xplane.pb" in b.text("#sessions"))
        d.open()
        d.choose("last")
        d.set("last", "1.5")
        d.begin()
        taken = d.until_ended()
        assert c.get(f"/api/v1/sessions/{taken}")["duration_ns"] == 1_500_000_000
        b.press("Esc")
        wait_until("the snapshot in the list", lambda: taken in b.text("#sessions"))
        c.tutti("delete", taken, check=0)
        wait_until("its absence", lambda: taken not in b.text("#sessions"))
        check_deletion(c, b, session)
        c.kill("host-a")
        b.run("location.hash = '#/hosts'")
        wait_until("the loss on the page", lambda: "✕ lost" in b.text("#hosts") and "1 host lost: host-a" in b.text("#c-notices"))
        b.close()


def check_deletion(c, b, session):
    """Del takes a session off the list; Undo brings it back, and only what is not undone is deleted."""
    b.run("document.querySelector('#sessions a.id').focus()")
    b.press("Delete")
    wait_until("its absence", lambda: session not in b.text("#sessions"))
    assert b.run("return document.activeElement.textContent") == "Undo" and c.tutti("sessions", "--json")[1]["sessions"]
    b.press("Enter")
    wait_until("its return", lambda: session in b.text("#sessions"))
    b.run("document.querySelector('#sessions input').focus()")
    b.press("Space")
    assert b.run("const a = document.activeElement; return a.checked && a.type === 'checkbox'")
    b.run("document.querySelector('#sessions a.id').focus()")
    b.press("Delete", "Tab", "Enter")
    wait_until("its deletion", lambda: not c.tutti("sessions", "--json")[1]["sessions"])


def test_token_and_queue():
    """A page asks for the token when it needs it, and shows what waits."""
    need_browser()
    with Cluster() as c:
        (c.dir / "token").write_text("correct-horse-battery\n")
        (c.dir / "token").chmod(0o600)
        c.aggregator("--token-file", c.dir / "token")
        profiler = f"127.0.0.1:{free_port()}"
        c.agent("host-a", f"--profiler={profiler}", tracers="profiler,metrics")
        c.wait_hosts(1)
        b = Browser(c)
        d = Dialog(b)
        b.open(c.url)
        b.run("location.hash = '#/hosts'")
        wait_until("the host's job", lambda: profiler in b.text("#hosts") and "configured" in b.text("#hosts"))
        b.run("location.hash = '#/'")
        b.run("window.asked = 0; window.prompt = () => { window.asked++; return 'correct-horse-battery'; }")
        d.open()
        d.set("duration", "60")
        d.begin()
        wait_until("the capture", lambda: "running" in b.text("#capture .progress"))
        b.press("Esc")
        wait_until("what runs", lambda: "running, 0 of 1 host done" in b.text("#running") and "running" in b.text("#sessions"))
        d.open()
        d.choose("last")
        d.begin()
        assert d.until_ended()
        b.press("Esc")
        d.open()
        d.choose("now")
        d.set("duration", "0.2")
        d.begin()
        wait_until("the queue", lambda: "queued, number 1, waits for capture" in b.text("#capture .progress"))
        (session,) = [s["session"] for s in c.get("/api/v1/captures")["captures"] if s["state"] == "running"]
        c.tutti("stop", session, "--token-file", c.dir / "token", check=0)
        wait_until("the commit", lambda: ": committed" in b.text("#capture .progress") and "profiler-unreachable" in b.text("#capture .progress"))
        assert b.run("return window.asked") == 1
        b.press("Esc")
        wait_until("the sessions", lambda: b.run("return document.querySelectorAll('#sessions a.id').length") == 3)
        b.run("document.querySelector('#sessions td.verbs button').click()")
        wait_until("what is missing", lambda: "host-a: profiler-unreachable" in b.text("#sessions"))
        b.close()


main(test_page, test_token_and_queue)
