# SPDX-License-Identifier: Apache-2.0
"""The timeline of a session under real keys and a real mouse, its numbers against the stored files: the checks 1, 4 to 10, 13 and 15 of
docs/viewer.md."""
import contextlib
import csv
import io
import re

from lib.browser import Browser
from lib.cluster import Cluster, main, wait_until
from lib.view import View
from lib.viewer import Page, capture, need_browser, stored


def check_01(p, session):
    """A click on a session shows its tracks, and all of it fits into 2 MB."""
    p.b.open(p.c.url)
    wait_until("the session", lambda: session in p.b.text("#sessions"))
    p.b.run("""window.drawn = 0; window.clicked = performance.now();
        const look = () => { if (window.tutti.state()?.onScreen) window.drawn = performance.now() - window.clicked; else requestAnimationFrame(look); };
        document.querySelector('#sessions a.id').click(); look();""")
    took = wait_until("the first tracks", lambda: p.b.run("return window.drawn"))
    whole = p.ready()
    assert whole["events"] and whole["onScreen"] and whole["received"] < 2_000_000, whole["received"]
    print(f"     check 1: {took:.0f} ms from the click to the first tracks, {whole['received'] / 1e3:.0f} kB for all of them")


size = lambda s: s["t1"] - s["t0"]

FRAMES = """window.frames_seen = []; const look = () => { const s = window.tutti.state(); if (s) window.frames_seen.push([s.missing, s.onScreen, s.drawMs, s.t1 - s.t0]);
            if (window.frames_seen) requestAnimationFrame(look); }; look();"""


def check_04(p):
    """From the whole session down to nanoseconds by W: no row is ever without its picture."""
    p.whole()
    left, top, *_ = p.box()
    x, y, call = max(p.hits(p.row("python3", "host-0")), key=lambda h: h[2]["lengthPs"])
    p.b.hover(left + p.at(p.state(), call["startPs"] + call["lengthPs"] / 2), y)
    p.b.run(FRAMES)
    near = p.until("nanoseconds", lambda s: size(s) < 20_000, lambda: p.b.press("w", hold_ms=2500))
    frames = p.b.run("const f = window.frames_seen; window.frames_seen = null; return f")
    empty = [f for f in frames if f[0] or not f[1]]
    assert not empty and near["onScreen"], (len(empty), len(frames), empty[:3])
    draws = sorted(f[2] for f in frames)
    print(f"     check 4: {len(frames)} frames, drawn in {draws[len(draws) // 2]:.1f} ms (median), {draws[int(len(draws) * .95)]:.1f} ms (95 %)")


def check_05(p):
    """W, A, S and D without a click first, by their place on the keyboard; nothing while one types."""
    whole = p.whole()
    near = p.until("a zoom by W", lambda s: size(s) < size(whole) / 4, lambda: p.b.press("w", hold_ms=400))
    right = p.until("a move by D", lambda s: s["t0"] > near["t0"], lambda: p.b.press("d", hold_ms=200))
    p.until("a move by A", lambda s: s["t0"] < right["t0"], lambda: p.b.press("a", hold_ms=200))
    p.until("a zoom by S", lambda s: size(s) > size(near), lambda: p.b.press("s", hold_ms=400))
    whole = p.whole()

    def french_w():
        for kind in ("rawKeyDown", "keyUp"):
            p.b.cdp("Input.dispatchKeyEvent", type=kind, code="KeyW", key="z", windowsVirtualKeyCode=90)
            p.b.press("Shift", hold_ms=150)
    p.until("a zoom by the key in W's place", lambda s: size(s) < size(whole), french_w)
    before = p.whole()
    p.b.press("/")
    p.b.press(*"was d4")
    p.until("the text", lambda s: s["find"] == "was d4" and (s["t0"], s["t1"], s["tool"]) == (before["t0"], before["t1"], "select"))
    p.clear("v-find")


def check_06(p):
    """The tools by their keys; pan drags both ways, zoom a region, and what is measured snaps to edges."""
    for keys, tool in (("1!", "select"), ("2@", "pan"), ("3#", "zoom"), ("4$", "time")):
        for key in keys:
            p.b.press("1" if tool != "select" else "2")
            p.b.press(key)
            assert p.state()["tool"] == tool, (key, p.state()["tool"])
            assert p.b.text("#v-tools [aria-pressed=true]") == {"select": "Select", "pan": "Pan", "zoom": "Zoom", "time": "Measure"}[tool]
    left, top, width, _ = p.box()
    y = top + p.row("python3", "host-0")["y"] + 8
    before = p.window(300e9, 420e9)
    p.b.press("2")
    for start, end, way in ((600, 800, -1), (800, 600, 1)):
        now = p.state()
        p.b.drag(left + start, y, left + end, y)
        p.until("the pan", lambda s: way * (s["t0"] - now["t0"]) > size(before) * 0.1 and abs(size(s) - size(before)) < 1000)
    p.b.press("3")
    p.b.drag(left + 500, y, left + 700, y)
    p.until("the zoom", lambda s: abs(size(s) / size(before) - 200 / (width - before["gutter"])) < 0.02)
    p.b.press("1")


def near_kernels(p, session, host="host-0"):
    """A window of some six kernels."""
    starts = sorted(start for _, line, _, start, _ in stored(p.c, session, host) if line == "Stream #7 (Compute)")
    p.window(starts[len(starts) // 2] - 3e9, starts[len(starts) // 2] + 3e9)


def check_06_measure(p, session):
    """From an edge of an event to an edge of another one: exactly the time between them."""
    row = p.row("Stream #7 (Compute)", "host-0")
    near_kernels(p, session)
    events = p.events_of(row)
    p.b.press("4")
    (x0, y, a), (_, _, b) = events[0], events[2]
    s = p.state()
    to = p.box()[0] + p.at(s, b["startPs"])
    p.b.drag(p.box()[0] + p.at(s, a["startPs"]) + 2, y, to + 2, y)
    s = p.until("the mark", lambda s: s["marks"])
    assert abs(s["marks"][0]["fromPs"] - a["startPs"]) < 1 and abs(s["marks"][0]["toPs"] - b["startPs"]) < 1, (s["marks"], a, b)
    p.b.press("1", "M")
    p.until("no mark", lambda s: not s["marks"])


def check_10(p, want):
    """All of the session is searched, and Enter goes to the next match."""
    before, top = p.whole(), p.box()[1]
    p.b.press("/")
    p.b.press(*"all-reduce")
    wait_until("the matches", lambda: p.b.text("#v-hits") == f"{len(want)} matches")
    of = p.state()["events"]
    wait_until("their share", lambda: f"{len(want)} matches among {of:,} events, {100 * len(want) / of:.1f} %" in p.b.text("#v-panel"))
    s = p.ready()
    assert p.box()[1] == top, (p.box(), top)  # how many there are moves nothing
    assert (s["t0"], s["t1"]) == (before["t0"], before["t1"]) and s["find"] == "all-reduce", s
    ticks = p.until("where they are", lambda s: s["ticks"])["ticks"]
    assert sum(ticks) == len(want) and ticks[min(int(want[0] / s["t1"] * len(ticks)), len(ticks) - 1)] > 0, ticks
    starts = []
    for _ in range(3):
        p.b.press("Enter")
        s = p.until("a match", lambda s: s["selected"] and s["selected"][0]["startPs"] not in starts)
        assert s["selected"][0]["name"] == "all-reduce.1", s["selected"]
        starts.append(s["selected"][0]["startPs"])
    assert starts == want[:3], (starts, want[:3])
    assert "all-reduce.1" in p.b.text("#v-panel") and "flow" in p.b.text("#v-panel"), p.b.text("#v-panel")
    assert len(s["flows"]) >= 1, s["flows"]
    p.clear("v-find")
    p.until("no selection", lambda s: not s["selected"])
    p.b.press("/")
    p.b.press(*"no such event")
    wait_until("no match", lambda: p.b.text("#v-hits") == "no match" and "0 of" in p.b.text("#v-panel"))
    p.clear("v-find")


def check_07_09(p, v, session):
    """Details are exact; Ctrl+click adds. f frames, m marks, Back returns."""
    row = p.row("Stream #7 (Compute)", "host-0")
    want = sorted((start, length, name) for plane, line, name, start, length in stored(p.c, session, "host-0") if line == row["label"])
    middle = want[len(want) // 2][0]
    p.window(middle - 3_000_000_000, middle + 3_000_000_000)
    hits = p.events_of(p.row("Stream #7 (Compute)", "host-0"))
    assert len(hits) >= 3, hits
    x, y, hit = hits[0]
    p.b.drag(x, y, x, y)
    s = p.until("the selection", lambda s: len(s["selected"]) == 1)
    e = s["selected"][0]
    assert (e["startPs"], e["durationPs"], e["name"]) == want[e["event"]], (e, want[e["event"]])
    assert f"{e['name']}" in p.b.text("#v-panel") and "correlation_id" in p.b.text("#v-panel")
    x, y, hit = hits[2]
    p.b.drag(x, y, x, y, held="Ctrl")
    s = p.until("two selected", lambda s: len(s["selected"]) == 2)
    assert "2 events selected" in p.b.text("#v-panel") and "on one clock" in p.b.text("#v-panel"), p.b.text("#v-panel")
    low = min(e["startPs"] for e in s["selected"])
    high = max(e["startPs"] + e["durationPs"] for e in s["selected"])
    p.b.press("m")
    s = p.until("the mark", lambda s: len(s["marks"]) == 1)
    assert (s["marks"][0]["fromPs"], s["marks"][0]["toPs"]) == (low, high), (s["marks"], low, high)
    p.b.press("f")
    near = p.until("the frame", lambda s: s["t0"] < low and s["t1"] > high and s["t1"] - s["t0"] < 1.4 * (high - low))
    link = wait_until("the address", lambda: (h := p.b.run("return location.href")) and f"t={round(near['t0'])}_" in h and h)
    p.b.run("history.back()")
    p.until("the way back", lambda s: s["t1"] - s["t0"] > 1.5 * (near["t1"] - near["t0"]))
    return link, near


def check_08(p, v, session):
    """A box over tracks is what the aggregator adds up, and says how much."""
    p.whole()
    row = p.row("python3", "host-0")
    left, top, width, _ = p.box()
    p.b.drag(left + 300, top + row["y"] + 4, left + width / 2, top + row["y"] + 20)
    wait_until("the sums", lambda: "in the box" in p.b.text("#v-panel"))
    shown = int(p.b.text("#v-panel h2").split()[0].replace(",", ""))
    s = p.state()
    at = lambda x: s["t0"] + (x - s["gutter"]) / (width - s["gutter"]) * (s["t1"] - s["t0"])
    asked = v.ask("selection", from_ps=round(at(300)), to_ps=round(at(width / 2)), tracks=f"{row['file']}.{row['track']}")
    assert shown > 0 and abs(shown - asked["count"]) <= 0.02 * asked["count"], (shown, asked["count"])
    p.b.run("window.copied = ''; document.execCommand = () => { window.copied = document.activeElement.value; return true; };"
            "[...document.querySelectorAll('#v-panel button')].find(b => b.textContent === 'copy as CSV').click()")
    lines = list(csv.DictReader(io.StringIO(p.b.run("return window.copied"))))
    assert sum(int(n["count"]) for n in lines) == shown, (lines[:2], shown)
    p.b.run("[...document.querySelectorAll('#v-panel th button')].find(b => b.textContent === 'Largest').click()")
    assert p.b.text("#v-panel tbody .name") == max(lines, key=lambda n: int(n["max_ps"]))["name"]


def delay(starts, of):
    """By the median, in the pairing with the least difference: as docs/viewer.md says."""
    median = lambda list: sorted(list)[(len(list) - 1) // 2]
    pairings = [[s - of[i + shift] for i, s in enumerate(starts) if 0 <= i + shift < len(of)] for shift in range(-8, 9)]
    return min((median(p) for p in pairings if 2 * len(p) >= min(len(starts), len(of))), key=abs)


def check_late(p, session):
    """Three keys lead to the host that is late, at its first collective."""
    p.whole()
    p.b.press("l")
    wait_until("the hosts", lambda: "All of this name" in p.b.text("#v-panel"))
    starts = {h: sorted(start for _, _, name, start, _ in stored(p.c, session, h) if name == "all-reduce.1") for h in ("host-0", "host-1")}
    late = "host-1" if delay(starts["host-1"], starts["host-0"]) > 0 else "host-0"
    assert p.b.text("#v-late tbody button") == late, (p.b.text("#v-late"), starts)
    p.b.press("Enter")
    s = p.until("its event", lambda s: s["selected"])
    assert s["selected"][0]["startPs"] == starts[late][0], (s["selected"], starts[late][0])
    p.b.press("f")
    p.until("the frame", lambda s: s["t1"] - s["t0"] < 2e9 and s["t0"] < starts[late][0] < s["t1"])
    return s["selected"][0]


def check_names(p, e):
    """The histogram of a name; pinned and filtered tracks, which the address restores."""
    p.b.press("h")
    wait_until("the histogram", lambda: "median" in p.b.text("#v-panel") and p.b.run("return document.querySelectorAll('.histogram span').length > 0"))
    p.b.press("p")
    key = f"{e['file']}.{e['track']}"
    s = p.until("the pin", lambda s: s["pinned"] == [key])
    assert (s["rows"][0]["file"], s["rows"][0]["track"]) == (e["file"], e["track"]) and sum(r["track"] == e["track"] and r["file"] == e["file"] for r in s["rows"]) == 1
    p.b.press("t")
    p.b.press(*"python")
    s = p.until("the filter", lambda s: {r["label"] for r in s["rows"][1:] if r["kind"] == "track"} == {"python3"})
    wait_until("the address", lambda: "only=python" in (h := p.b.run("return location.href")) and f"pin={key}" in h)
    p.clear("v-only")
    p.until("all tracks", lambda s: len({r["label"] for r in s["rows"]}) > 5)


def check_search_flags(p, v):
    """A pattern, and capitals, by their buttons; what is no pattern is said."""
    p.b.press("Esc")
    p.b.press("/")
    p.b.press(*"^FUSION.[0-3]$")
    wait_until("no match", lambda: p.b.text("#v-hits") == "no match")
    p.b.run("document.getElementById('v-pattern').click()")
    want = v.ask("search", text="^fusion.[0-3]$", pattern=1)["matches"]
    wait_until("the matches", lambda: p.b.text("#v-hits") == f"{want:,} matches")
    p.b.run("document.getElementById('v-case').click()")
    wait_until("no match", lambda: p.b.text("#v-hits") == "no match")
    p.b.press("/")
    p.b.press("(")
    wait_until("the refusal", lambda: "malformed" in p.b.text("#v-note"))
    p.b.run("for (const k of ['pattern', 'case']) document.getElementById('v-' + k).click()")
    p.clear("v-find")


def check_theme(p):
    """Light or dark by choice, kept over a reload."""
    for theme in ("Light", "Dark"):
        p.b.run("document.querySelector('#theme .theme').click()")
        assert p.b.text("#theme .theme") == theme and p.b.run("return document.documentElement.dataset.theme") == theme.lower()
    assert p.b.run("return localStorage.getItem('theme')") == "dark"
    p.b.run("document.querySelector('#theme .theme').click()")


def check_flame_page(p, v):
    """The flame graph's boxes and its top functions are what the aggregator says; a click zooms."""
    p.whole()
    p.b.press("g")
    wait_until("the flame graph", lambda: p.b.run("return document.querySelectorAll('.flame .box').length > 20"))
    tracks = ",".join(f"{f}.{n}" for _, f, plane, n, t in v.tracks if plane == "/host:CPU" and t["name"] == "python3")
    s = p.state()
    want = v.ask("flame", from_ps=round(s["t0"]), to_ps=round(s["t1"]), tracks=tracks)
    assert p.b.text(".top tbody .name") == want["top"][0]["name"], (p.b.text(".top tbody"), want["top"][:2])
    whole = p.b.run("return document.querySelectorAll('.flame .box')[1].title")
    p.b.run("document.querySelectorAll('.flame .box')[1].click()")
    assert p.b.run("return document.activeElement.title") == whole and p.b.run("return document.activeElement.style.width") == "100%"
    p.b.press("/")
    p.b.press(*"F[12]_")
    p.b.run("document.getElementById('v-pattern').click(); document.activeElement.blur()")
    wait_until("the matches", lambda: "match" in p.b.text("#v-hits"))
    p.b.press("g")
    total = own = 0
    inside = []
    for parent, name, all_ns, own_ns, _ in want["nodes"]:
        is_found = re.match("f[12]_", want["names"][name]) is not None
        total += all_ns if is_found and not (parent >= 0 and inside[parent]) else 0
        own += own_ns if is_found else 0
        inside.append(is_found or (parent >= 0 and inside[parent]))
    words = f"“F[12]_”: {100 * total / want['total_ns']:.1f} %, {100 * own / want['total_ns']:.1f} % its own"
    wait_until("its share", lambda: words in p.b.text("#v-panel"))
    assert 0 < own < total < want["total_ns"], (own, total)
    p.b.run("document.getElementById('v-pattern').click()")
    p.clear("v-find")


def check_13(p):
    """Sections close and open, and say it; a closed device shows how busy it is; a reload restores that."""
    p.whole()
    device, host = p.row("/device:GPU:0", "host-0", "plane"), p.row("host-1", "host-1", "host")
    left, top, width, _ = p.box()
    p.b.drag(left + 60, top + device["y"] + 8, left + 60, top + device["y"] + 8)
    p.until("a closed device", lambda s: not any(r["label"].startswith("Stream") and r["host"] == "host-0" for r in s["rows"]))
    strip = p.b.run(f"const c = document.getElementById('v-canvas').getContext('2d'), r = devicePixelRatio, d = c.getImageData(300 * r, {device['y'] + 10} * r, 600 * r, 1).data;"
                    " return new Set(Array.from({length: 600}, (_, i) => d.slice(4 * i, 4 * i + 3).join())).size")
    assert strip > 2, strip
    p.b.run("document.getElementById('v-canvas').focus()")
    p.until("the other host", lambda s: s["row"] == host["key"], lambda: p.b.press("j"))
    p.b.press("o")
    p.until("a closed host", lambda s: not any(r["host"] == "host-1" and r["kind"] != "host" for r in s["rows"]))
    assert "closed" in p.b.text("#v-live"), p.b.text("#v-live")
    link = wait_until("the address", lambda: (h := p.b.run("return location.href")) and "hhost-1" in h and h)
    p.b.open("about:blank")
    p.b.open(link)
    wait_until("the timeline again", lambda: p.b.run("return window.tutti?.state() != null"))
    s = p.ready()
    assert not any((r["host"] == "host-1" and r["kind"] != "host") or r["label"].startswith("Stream") for r in s["rows"]), s["rows"]
    p.b.press("o")
    p.b.run("location.hash = location.hash.split('?')[0] + '?t=0_1000000000000'")
    p.until("all open", lambda s: len([r for r in s["rows"] if r["label"].startswith("Stream")]) == 4)


def check_pins(p, session):
    """Pinned tracks, and their order."""
    keys = []
    p.b.run("location.hash = location.hash.split('?')[0] + '?only=Stream+%237'")
    p.until("few rows", lambda s: len(s["rows"]) < 12)
    for host in ("host-0", "host-1"):
        row = p.row("Stream #7 (Compute)", host)
        keys.append(f"{row['file']}.{row['track']}")
        near_kernels(p, session, host)
        x, y, _ = p.events_of(p.row("Stream #7 (Compute)", host))[0]
        p.b.drag(x, y, x, y)
        p.until("its selection", lambda s: len(s["selected"]) == 1 and f"{s['selected'][0]['file']}.{s['selected'][0]['track']}" == keys[-1])
        p.b.press("p")
        p.until("the pin", lambda s: s["pinned"] == keys)
        wait_until("the address", lambda: "_".join(keys) in p.b.run("return location.href"))
    p.b.press("P")
    p.until("the other order", lambda s: s["pinned"] == keys[::-1])
    p.b.press("p")
    p.until("one pin", lambda s: s["pinned"] == keys[:1])
    p.b.run("location.hash = location.hash.split('?')[0] + '?t=0_1000000000000'")
    p.until("no pin", lambda s: not s["pinned"])


def check_15(p, link, near):
    """A link restores what was seen: the time, the selection, the marks."""
    p.b.open("about:blank")
    p.b.open(link)
    wait_until("the timeline again", lambda: p.b.run("return window.tutti?.state() != null"))
    s = p.until("its selection", lambda s: len(s["selected"]) == 2)
    assert abs(s["t0"] - near["t0"]) < 2 and abs(s["t1"] - near["t1"]) < 2 and len(s["marks"]) == 1, s


@contextlib.contextmanager
def opened():
    """(the page, an index to compare with, the session)"""
    need_browser()
    with Cluster() as c:
        session = capture(c)
        b = Browser(c, size="1280,900")
        yield Page(c, b), View(c, session), session
        b.close()


def test_windows():
    with opened() as (p, v, session):
        check_01(p, session)
        check_05(p)
        check_06(p)
        check_06_measure(p, session)
        check_10(p, sorted(start for host in ("host-0", "host-1") for _, _, name, start, _ in stored(p.c, session, host) if name == "all-reduce.1"))
        link, near = check_07_09(p, v, session)
        check_08(p, v, session)
        check_15(p, link, near)
        check_04(p)


def test_tools():
    with opened() as (p, v, session):
        p.show(session)
        check_13(p)
        check_pins(p, session)
        check_names(p, check_late(p, session))
        check_search_flags(p, v)
        check_theme(p)
        check_flame_page(p, v)
        p.b.open(f"{p.c.url}/#/s/2020_01_01_00_00_00_aaaaaa")
        wait_until("what is wrong", lambda: "2020_01_01_00_00_00_aaaaaa" in p.b.text("#v-notices"))


main(test_windows, test_tools)
