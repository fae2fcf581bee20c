# SPDX-License-Identifier: Apache-2.0
"""The aggregator's page in a real browser: it lists hosts, captures by its form, lists the session, and deletes it."""
import shutil

from lib.browser import Browser
from lib.cluster import Cluster, SkipTest, free_port, main, wait_until


def test_page():
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        raise SkipTest("chromium and chromedriver are not installed")
    with Cluster() as c:
        c.aggregator()
        c.agent("host-a", "--label", "note=<b>bold</b>")
        c.wait_hosts(1)
        b = Browser(c)
        b.open(c.url)
        wait_until("the host on the page", lambda: "host-a" in b.text("#hosts"))
        assert "connected" in b.text("#hosts") and "note=<b>bold</b>" in b.text("#hosts"), b.text("#hosts")
        b.run("document.forms[0].duration.value = '0.3'; document.forms[0].settings.value = 'nonsense=1';"
              "document.forms[0].requestSubmit()")
        wait_until("the refusal", lambda: "nonsense" in b.text("#progress"))
        b.run("document.forms[0].settings.value = ''; document.forms[0].requestSubmit()")
        wait_until("the commit", lambda: "committed" in b.text("#progress"))
        session = b.text("#progress").split(":")[0]
        wait_until("the session on the page", lambda: session in b.text("#sessions"))
        b.run("document.querySelector('#sessions a').click()")
        wait_until("its files", lambda: "host-a.xplane.pb" in b.text("#sessions"))
        b.run("document.forms[0].last.value = '1.5'; document.forms[0].last.dispatchEvent(new Event('input'))")
        assert b.text("#snapshot") == "Snapshot: last 1.5 s", b.text("#snapshot")
        b.run("document.querySelector('#snapshot').click()")
        wait_until("the snapshot", lambda: "snapshot committed, 1 of 1 hosts done" in b.text("#progress"))
        taken = b.text("#progress").split(":")[0]
        assert c.get(f"/api/v1/sessions/{taken}")["duration_ns"] == 1_500_000_000
        wait_until("the snapshot in the list", lambda: taken in b.text("#sessions"))
        c.tutti("delete", taken, check=0)
        wait_until("its absence", lambda: taken not in b.text("#sessions"))
        b.run("window.confirm = () => true; document.querySelector('#sessions button').click()")
        wait_until("its deletion", lambda: session not in b.text("#sessions"))
        assert c.tutti("sessions", "--json")[1]["sessions"] == []
        c.kill("host-a")
        wait_until("the loss on the page", lambda: "lost" in b.text("#hosts"))
        b.close()


def test_token_and_queue():
    """A page asks for the token when it needs it, and shows what waits."""
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        raise SkipTest("chromium and chromedriver are not installed")
    with Cluster() as c:
        (c.dir / "token").write_text("correct-horse-battery\n")
        (c.dir / "token").chmod(0o600)
        c.aggregator("--token-file", c.dir / "token")
        c.agent("host-a", f"--profiler=127.0.0.1:{free_port()}")
        c.wait_hosts(1)
        b = Browser(c)
        b.open(c.url)
        wait_until("the host on the page", lambda: "host-a" in b.text("#hosts"))
        b.run("window.asked = 0; window.prompt = () => { window.asked++; return 'correct-horse-battery'; };"
              "document.forms[0].duration.value = '60'; document.forms[0].requestSubmit()")
        wait_until("the capture", lambda: "running" in b.text("#progress"))
        b.run("document.querySelector('#snapshot').click()")
        wait_until("the snapshot", lambda: "snapshot committed, 1 of 1 hosts done" in b.text("#progress"))
        assert ": running" in b.text("#progress"), b.text("#progress")
        b.run("document.querySelector('button').disabled = false; document.forms[0].duration.value = '0.2';"
              "document.forms[0].requestSubmit()")
        wait_until("the queue", lambda: "queued, number 1, waits for capture" in b.text("#progress"))
        (session,) = [s["session"] for s in c.get("/api/v1/captures")["captures"] if s["state"] == "running"]
        c.tutti("stop", session, "--token-file", c.dir / "token", check=0)
        wait_until("the commits", lambda: b.text("#progress").count(": committed") == 2)
        assert b.run("return window.asked") == 1
        wait_until("the sessions", lambda: b.run("return document.querySelectorAll('#sessions a').length") == 3)
        b.run("document.querySelector('#sessions a').click()")
        wait_until("what is missing", lambda: "host-a: profiler-unreachable" in b.text("#sessions"))
        b.close()


main(test_page, test_token_and_queue)
