# SPDX-License-Identifier: Apache-2.0
"""A real browser."""
import base64
import json
import shutil
import urllib.error
import urllib.request

from lib.cluster import SLOW, free_port, wait_until


KEYS = {"Enter": "\ue007", "Esc": "\ue00c", "Shift": "\ue008", "Ctrl": "\ue009", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015", "Tab": "\ue004",
        "PageUp": "\ue00e", "PageDown": "\ue00f", "Delete": "\ue017", "Space": " "}


class Browser:
    """Headless Chromium, driven by the WebDriver protocol."""

    FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
             "--disable-background-networking", "--disable-sync"]

    def __init__(self, c, size="1100,800", trace=None):
        """`trace`: categories of Chromium's tracing whose events traced() gives."""
        self.base = f"http://127.0.0.1:{free_port()}"
        c.start("burst-chromedriver", ["chromedriver", f"--port={self.base.rsplit(':', 1)[1]}"])
        wait_until("chromedriver", self.is_up)
        flags = [*self.FLAGS, f"--window-size={size}", f"--user-data-dir={c.dir}/chromium"]
        options = {"binary": shutil.which("chromium"), "args": flags}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        if trace:
            options["perfLoggingPrefs"] = {"enableNetwork": False, "enablePage": False, "traceCategories": trace}
            wanted["goog:loggingPrefs"] = {"performance": "ALL"}
        value = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.base += f"/session/{value['sessionId']}"
        c.closing.append(self.close)  # chromedriver does not end its browser

    def is_up(self):
        try:
            return self.call("GET", "/status")["ready"]
        except OSError:
            return False

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60 * SLOW) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{method} {path}: {e.read().decode(errors='replace')[:1000]}") from e

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def text(self, css):
        """What the first such element shows; nothing if there is none."""
        return self.run(f"return document.querySelector({json.dumps(css)})?.innerText ?? ''")

    def press(self, *keys, hold_ms=0):
        """Real keys, one after the other; of several characters at once ("Shift+Enter") the last is pressed within the others."""
        actions = []
        for key in keys:
            words = [KEYS.get(k, k) for k in key.split("+")] if len(key) > 1 else [key]
            actions += [{"type": "keyDown", "value": w} for w in words]
            actions += [{"type": "pause", "duration": hold_ms}]
            actions += [{"type": "keyUp", "value": w} for w in reversed(words)]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def drag(self, x0, y0, x1, y1, held=None):
        """Presses the mouse at one place of the window and lets go at another, which may be the same."""
        mouse = [{"type": "pointerMove", "duration": 0, "x": round(x0), "y": round(y0)}, {"type": "pointerDown", "button": 0}]
        if (x0, y0) != (x1, y1):
            mouse += [{"type": "pointerMove", "duration": 0, "x": round((x0 + x1) / 2), "y": round((y0 + y1) / 2)},
                      {"type": "pointerMove", "duration": 0, "x": round(x1), "y": round(y1)}]
        mouse += [{"type": "pointerUp", "button": 0}]
        sources = [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": mouse}]
        if held:
            keys = [{"type": "keyDown", "value": KEYS[held]}, *[{"type": "pause", "duration": 0}] * len(mouse), {"type": "keyUp", "value": KEYS[held]}]
            mouse.insert(0, {"type": "pause", "duration": 0})
            sources.append({"type": "key", "id": "keyboard", "actions": keys})
        self.call("POST", "/actions", {"actions": sources})

    def hover(self, x, y):
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
                                                    "actions": [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}]}]})

    def cdp(self, method, **params):
        """A call of the DevTools protocol."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": method, "params": params})

    def traced(self):
        """The events since the last call. Chromium may give the newest ones only to the next call."""
        messages = [json.loads(e["message"])["message"] for e in self.call("POST", "/se/log", {"type": "performance"})]
        return [m["params"] for m in messages if m["method"] == "Tracing.dataCollected"]

    def heap(self):
        """Bytes that the page holds after a garbage collection: objects of scripts and of the document, and the arrays beside them."""
        self.cdp("HeapProfiler.collectGarbage")
        usage = self.cdp("Runtime.getHeapUsage")
        return sum(usage[part] for part in ("usedSize", "embedderHeapUsedSize", "backingStorageSize"))

    def picture(self):
        """A PNG of what is shown."""
        return base64.b64decode(self.call("GET", "/screenshot"))

    def close(self):
        self.call("DELETE", "")
