# SPDX-License-Identifier: Apache-2.0
"""The page of an aggregator that stands by: it shows what is stored, says who leads, and becomes the page of the leader."""
from lib.browser import Browser
from lib.cluster import Cluster, main, wait_until
from lib.replicas import HOSTS, Replicas
from lib.viewer import need_browser


def test_standby():
    need_browser()
    with Cluster() as c:
        r = Replicas(c)
        lead, follower = r.lead, r.follower()
        session = c.tutti("capture", "--duration", "200ms", "--json", check=0)[1]["session"]
        b = Browser(c)
        b.open(f"{r.url(follower)}/")
        wait_until("the list", lambda: session in b.text("#sessions"))
        assert "stands by" in b.text("#standby") and "stands by" in b.text("#link"), (b.text("#standby"), b.text("#link"))
        assert b.run("return document.querySelector('#standby a').href") == f"{r.url(lead)}/"
        assert b.run("return document.getElementById('capture-open').disabled")
        b.press("c")
        assert not b.run("return document.querySelector('dialog[open]') != null")
        b.run(f"location.hash = '#/s/{session}'")
        wait_until("the timeline", lambda: b.run("return window.tutti?.state() != null"))
        wait_until("the link", lambda: b.run("return document.querySelector('#standby a').href").startswith(f"{r.url(lead)}/#/s/{session}"))

        c.kill(lead)
        r.wait_leader(other_than=lead)
        c.wait_hosts(len(HOSTS))
        wait_until("the page of the leader", lambda: "live" in b.text("#link"))
        assert b.run("return document.getElementById('standby').hidden && !document.getElementById('capture-open').disabled")
        b.close()


main(test_standby)
