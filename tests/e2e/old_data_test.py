# SPDX-License-Identifier: Apache-2.0
"""What earlier releases left on disks (tests/data/store-*.tar.xz, of tests/data/make_store.py) opens today: sessions with all that was said
of them, captures that were cut off, pins, links, tokens, an authority, agents' spools, settings."""
import base64
import hashlib
import hmac
import json
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

from lib import xspace
from lib.cluster import BIN, SLOW, Cluster, main, wait_until
from lib.view import BUCKETS, View

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
RELEASES = sorted(DATA.glob("store-*.tar.xz"))
REASONS = set(re.findall(r"^\| `([a-z-]+)` \| (?:partial|failed)", (DATA.parents[1] / "docs/wire.md").read_text(), flags=re.M))
HOSTS = ("host-a", "host-b", "host-c")


def change(file, pattern, text):
    old = file.read_text()
    file.write_text(re.sub(pattern, text, old))
    assert file.read_text() != old, f"{file} has no {pattern}"


def each_release(test):
    """The test once for each release: with a cluster whose folders are the release's, on another machine, and what it had made."""
    def run():
        assert RELEASES, f"no data of a release in {DATA}"
        for file in RELEASES:
            with Cluster() as c:
                subprocess.run(["tar", "-C", c.dir, "-xf", file], check=True, timeout=60)
                made = json.loads((c.dir / "made.json").read_text())
                change(c.dir / "agg-spool/session-clock.json", r'"boot_id":\s*"[^"]*"', '"boot_id":"of another machine"')
                print(f"     {made['release']}: {made['version']}", flush=True)
                test(c, made)
    run.__name__ = test.__name__
    return run


def start(c, *flags):
    c.aggregator("--tokens", c.dir / "tokens", "--anonymous", "admin", *flags)


def check_same(path, old, new):
    """What was said then is said today; today there may be more."""
    if isinstance(old, dict):
        assert isinstance(new, dict), (path, old, new)
        for name, value in old.items():
            assert name in new, f"{path}.{name} is missing: it was {value}"
            if name != "path":  # where the store was
                check_same(f"{path}.{name}", value, new[name])
    elif isinstance(old, list):
        assert isinstance(new, list) and len(new) == len(old), (path, old, new)
        for i, (a, b) in enumerate(zip(old, new)):
            check_same(f"{path}[{i}]", a, b)
    else:
        assert old == new, f"{path} was {old!r}, and is {new!r}"


def crc32c(data):
    """Bit by bit: shares no table with what it judges."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def fetch(c, session, manifest):
    """Its files, held against size and checksum of the manifest."""
    folder = c.dir / "fetched" / session
    c.tutti("fetch", session, folder, check=0)
    found = {p.name: p.read_bytes() for p in folder.rglob("*.xplane.pb")}
    named = {name: crc for h in manifest["hosts"] for name, crc in zip(h["files"], h["crc32c"])}
    assert set(found) == set(named), (set(found), set(named))
    for name, data in found.items():
        assert f"{crc32c(data):08x}" == named[name], f"{session}/{name}: checksum"
    assert sum(map(len, found.values())) == manifest["bytes"], manifest
    return folder


def check_view(c, session, tracks, manifest):
    """The catalogue is that of then; one tile of each track has all of its events."""
    v = View(c, session)
    assert [[host, plane, t["name"], t["events"]] for host, _, plane, _, t in v.tracks] == tracks, session
    stored = {}
    for h in manifest["hosts"]:
        for name in h["files"]:
            [path] = c.logdir.rglob(f"{session}/{name}")
            stored[h["host"]] = stored.get(h["host"], 0) + sum(len(line.events) for p in xspace.load(path).planes for line in p.lines)
    shown = dict.fromkeys(stored, 0)
    for host, file, _, track, t in v.tracks:
        if t["events"] and not t.get("counter"):
            first, last = int(t["first_ps"]) // (BUCKETS << 34), (int(t["last_ps"]) + 1) // (BUCKETS << 34)
            tiles = [(i, v.tile(file, track // 16, 34, i)[track]) for i in range(first, last + 1)]
            assert sum(e[4] for i, tile in tiles for e in tile if e[0] >= i * (BUCKETS << 34)) == t["events"], (session, host, t)
        shown[host] += t["events"]
    assert shown == stored, (session, shown, stored)


def check_exports(c, session, refined):
    for form in ("xspace", "pftrace", "json", "summary"):
        out = c.dir / "exported" / form
        c.tutti("export", session, "--format", form, "-o", out, *(["--refined"] if refined and form == "xspace" else []), check=0)
        assert any(p.stat().st_size for p in out.rglob("*") if p.is_file()), (session, form)


@each_release
def test_sessions(c, made):
    start(c)
    rows = {s["session"]: s for s in c.get("/api/v1/sessions?limit=1000")["sessions"]}
    for row in made["listed"]:
        assert row["session"] in rows, f"{row['session']} is not listed any more"
        check_same(row["session"], row, rows[row["session"]])
    extra = set(rows) - {r["session"] for r in made["listed"]} - set(made["half"].values())
    assert not extra and made["ended"]["deleted"] not in rows and made["half"]["removed"] not in rows, (extra, rows)
    for run in {r["run"] for r in made["listed"] if r["run"]}:
        got = {s["session"] for s in c.get(f"/api/v1/sessions?run={run}")["sessions"]}
        assert got == {r["session"] for r in made["listed"] if r["run"] == run}, (run, got)
    for session, then in made["described"].items():
        manifest = c.get(f"/api/v1/sessions/{session}")
        if session != made["half"]["retry"]:  # that one has an end of its own below
            check_same(session, then["manifest"], manifest)
        fetch(c, session, manifest)
        check_view(c, session, then["tracks"], then["manifest"])
    check_exports(c, made["sessions"]["refined"], True)
    check_exports(c, made["sessions"]["imported"], False)
    ended = c.get(f"/api/v1/captures/{made['ended']['cancelled']}")
    assert ended["state"] == "failed" and {h["reason"] for h in ended["hosts"]} == {"cancelled"}, ended
    assert c.call("GET", f"/api/v1/sessions/{made['ended']['deleted']}")[0] == 404


@each_release
def test_cut_off(c, made):
    """Each capture under way comes to a typed end, with the agents of then back, or without."""
    start(c, "--grace", "2s")
    half = made["half"]
    for host in HOSTS:
        c.agent(host, "--tracers", "metrics,marks", "--reconnect-max", "300ms")
    c.wait_hosts(len(HOSTS))

    def under_way():
        return [p.name for p in (c.store / "tutti/ledger").glob("[!.]*")]
    wait_until("the ends", lambda: not under_way(), 60)
    for what, session in half.items():
        status, doc = c.call("GET", f"/api/v1/captures/{session}")
        committed = c.call("GET", f"/api/v1/sessions/{session}")
        if what == "removed":
            assert committed[0] == 404 and not list(c.store.rglob(f"*{session}*")), (what, committed)
        elif what == "ended" or what == "retry":  # its end was promised; a retry leaves what there was, at least
            assert committed[0] == 200 and [h["state"] for h in committed[1]["hosts"]].count("complete") >= 1, (what, committed)
        elif committed[0] != 200:
            assert status == 200 and doc["state"] == "failed" and not list(c.logdir.rglob(f"{session}/*.xplane.pb")), (what, doc)
            assert all(h["state"] == "failed" and h["reason"] in REASONS for h in doc["hosts"]), (what, doc)
        if committed[0] == 200:
            fetch(c, session, committed[1])
            assert all(h["state"] == "complete" or h["reason"] in REASONS for h in committed[1]["hosts"]), (what, committed)
        print(f"     {what}: {'committed' if committed[0] == 200 else doc.get('state', 'gone')}", *[f"{h['host']} {h['state']} {h['reason']}" for h in
              (committed[1] if committed[0] == 200 else doc).get("hosts", [])])
    # the old store takes new sessions, and retries
    doc = c.tutti("capture", "--duration", "200ms", "--run", "nightly/one", "--json", check=0)[1]
    assert doc["complete"] == len(HOSTS), doc
    lacking = [s["session"] for s in c.get("/api/v1/sessions?limit=1000")["sessions"] if s["failed"]]
    for session in lacking:
        before = c.get(f"/api/v1/sessions/{session}")
        after = c.tutti("retry", session, "--json", check=0)[1]
        assert after["failed"] == 0 and after["revision"] == before["revision"] + 1, after
    wait_until("what agents of then held to be sent or dropped", lambda: not [p for h in HOSTS for p in (c.dir / f"{h}-spool").rglob("*.xplane.pb")], 60)


def shared(c, session, file, until, sig):
    try:
        with urllib.request.urlopen(f"{c.url}/shared/{session}/{file}?until={until}&sig={sig}", timeout=20 * SLOW) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def check_links(c, made):
    """A link of then holds until its end, and is known for its end afterwards: the key is the same."""
    links = made["links"]
    for link in links["files"]:
        until, sig = re.search(r"until=(\d+)&sig=(.*)", link["url"]).groups()
        status, body = shared(c, links["session"], link["file"], until, sig)
        assert status == 200 if int(until) > time.time() else status == 403 and b"this link has ended" in body, (link, body)
        status, body = shared(c, links["session"], link["file"], until, sig[::-1])
        assert status == 403 and b"not of this aggregator" in body, (link, body)
        # as that release would have signed it
        until = int(time.time()) + 60
        mac = hmac.digest(base64.b64decode((c.dir / "agg-spool/link-key").read_text()), f"tutti-link\n{links['session']}\n{link['file']}\n{until}\n".encode(), "sha256")
        status, body = shared(c, links["session"], link["file"], until, base64.urlsafe_b64encode(mac).rstrip(b"=").decode())
        assert status == 200 and body == (c.logdir / "plugins/profile" / links["session"] / link["file"]).read_bytes(), (link, status)


def whoami(c, token):
    request = urllib.request.Request(f"{c.url}/api/v1/whoami", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=20 * SLOW) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code


@each_release
def test_pins_and_tokens(c, made):
    start(c, "--retain", "1s", "--retain-period", "200ms")  # all but what is pinned is to go
    pins = {made["sessions"]["run"], made["sessions"]["pinned"]}
    wait_until("the removal", lambda: {s["session"] for s in c.get("/api/v1/sessions")["sessions"]} == pins)
    for session in pins:
        status, doc = c.call("DELETE", f"/api/v1/sessions/{session}")
        assert status == 409 and "is pinned" in doc["error"], doc
        assert list(c.logdir.rglob(f"{session}/*.xplane.pb")), session
    c.tutti("unpin", made["sessions"]["pinned"], check=0)
    wait_until("the unpinned one to go", lambda: {s["session"] for s in c.get("/api/v1/sessions")["sessions"]} == {made["sessions"]["run"]})
    for person in made["tokens"]:
        doc = whoami(c, person["token"])
        assert (doc["name"], doc["role"], sorted(doc.get("namespaces") or [])) == (person["name"], person["role"], sorted(person["namespaces"])), (doc, person)
        assert whoami(c, hashlib.sha256(person["token"].encode()).hexdigest()) == 401
    env = {"HOME": str(c.dir / "home"), "XDG_CONFIG_HOME": str(c.dir / "home/.config")}
    doc = c.tutti("context", "list", "--json", check=0, env=env)[1]
    assert "lab" in json.dumps(doc) and "http://127.0.0.1:7400" in json.dumps(doc), doc


@each_release
def test_links(c, made):
    start(c)
    check_links(c, made)


@each_release
def test_authority(c, made):
    """Its certificate is the same; tokens that are used up, and hosts that are revoked, stay so."""
    ca = (c.dir / "authority/ca.crt").read_bytes()
    change(c.dir / "authority/records.json", r'"until_s":\s*\d+', f'"until_s":{int(time.time()) + 600}')  # they may have ended meanwhile
    c.aggregator("--store", "mem://", "--enrol", c.dir / "authority")
    assert (c.dir / "authority/ca.crt").read_bytes() == ca
    for name, token in made["authority"]["tokens"].items():
        (c.dir / name).write_text(token + "\n")
        (c.dir / name).chmod(0o600)

    def join(host, token):
        c.agent(host, "--tracers", "marks", "--ca", c.dir / "authority/ca.crt", "--enrol-token", c.dir / token)
    join("host-n", "good")
    c.wait_hosts(1, calibrated=False)
    for host, token, why in (("host-u", "used", "this join token is used up"), (made["authority"]["revoked"], "good", "revoked")):
        join(host, token)
        wait_until(why, lambda: any("refused" in line and why in line for line in c.log(host).splitlines()), 30)
    assert [h["host"] for h in c.hosts().values() if h["state"] == "connected"] == ["host-n"]


@each_release
def test_settings(c, made):
    """A file with all settings of then means today what it meant then; further settings have their defaults."""
    files = sorted(c.dir.glob("*.conf"))
    assert len(files) >= 3, files
    for file in files:
        program = BIN / re.match("tutti-[a-z]+?(?=-enrol|$)", file.stem)[0]
        p = subprocess.run([program, "--config", file, "--print-config"], capture_output=True, text=True, timeout=20 * SLOW)
        assert p.returncode == 0, f"{file.name} of {made['release']}: {p.stderr}"
        then, now = file.with_suffix(".printed").read_text().splitlines(), p.stdout.splitlines()
        gone = [line for line in then if line not in now and not line.startswith("host = " if file.stem.endswith("-enrol") else "#")]
        assert not gone, f"{file.name} of {made['release']}: {gone}"


main(test_settings, test_sessions, test_cut_off, test_pins_and_tokens, test_links, test_authority)
