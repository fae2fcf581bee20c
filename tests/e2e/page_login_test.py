# SPDX-License-Identifier: Apache-2.0
"""The page of an aggregator that needs a token, in a real browser: it asks for one, and then events, captures and links to files work by the
cookie; signing out ends that."""
import urllib.error

from access_test import People, ask
from lib.browser import Browser
from lib.cluster import Cluster, main, wait_until
from lib.viewer import need_browser

FETCH = "const [path, done] = [{path!r}, arguments[arguments.length - 1]]; fetch(path).then(async a => done([a.status, (await a.arrayBuffer()).byteLength]))"


def answer_prompt(b, text):
    """Types into the page's prompt once it is there."""
    def is_open():
        try:
            return b.call("GET", "/alert/text")
        except (AssertionError, urllib.error.URLError):
            return None
    assert "Token" in wait_until("the prompt", is_open)
    b.call("POST", "/alert/text", {"text": text})
    b.call("POST", "/alert/accept", {})


def fetched(b, path):
    """[status, bytes] of a link, as the page would follow it."""
    return b.call("POST", "/execute/async", {"script": FETCH.format(path=path), "args": []})


def click(b, text):
    b.run(f"[...document.querySelectorAll('button')].find(b => b.textContent === {text!r}).click()")


def test_sign_in():
    need_browser()
    with Cluster() as c:
        people = People(c)
        people.add("viewer-blue", "viewer", {"blue"})
        people.write()
        c.aggregator("--tokens", people.path)
        for host, space in (("host-red", "red"), ("host-blue", "blue")):
            c.agent(host, "--label", f"namespace={space}", tracers="metrics")
        b = Browser(c)
        b.open(c.url + "/")
        answer_prompt(b, people.tokens["operator-red"])
        wait_until("the stream of events", lambda: "live" in b.text("#link"))
        assert b.run("return document.cookie") == "", "a script may not read it"
        b.run("location.hash = '#/hosts'")
        wait_until("the hosts of its namespace", lambda: "host-red" in b.text("#hosts"))
        assert "host-blue" not in b.text("#hosts"), b.text("#hosts")

        b.press("c")  # a change, with the page's secret
        wait_until("the dialog", lambda: b.run("return document.querySelector('#k-form') !== null"))
        b.run("const f = document.querySelector('#k-form [name=duration]'); f.value = '0.2'; f.dispatchEvent(new Event('input'))")
        b.run("document.querySelector('#k-begin').click()")
        wait_until("the commit, which only events tell", lambda: "committed" in b.text("#capture .progress p"))
        session = b.text("#capture .progress p").split(":")[0]
        path = f"/api/v1/sessions/{session}/files/host-red.xplane.pb"
        status, size = fetched(b, path)
        assert status == 200 and size > 100, (status, size)

        wait_until("the way out", lambda: b.run("return [...document.querySelectorAll('button')].some(b => b.textContent === 'Sign out')"))
        [cookie] = b.call("GET", "/cookie")
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict", cookie
        header = {"Cookie": f"{cookie['name']}={cookie['value']}"}
        assert ask(c, None, "GET", path, headers=header)[0] == 200
        b.press("Esc")
        click(b, "Sign out")
        answer_prompt(b, "not-a-token-of-anyone")  # the page begins anew
        assert ask(c, None, "GET", path, headers=header)[0] == 401, "the cookie holds no longer"
        answer_prompt(b, people.tokens["viewer-blue"])
        wait_until("another caller's hosts", lambda: "host-blue" in b.text("#hosts"))
        assert "host-red" not in b.text("#hosts"), b.text("#hosts")


main(test_sign_in)
