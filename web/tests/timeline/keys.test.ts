// SPDX-License-Identifier: Apache-2.0
// Keys without a document: an event is what keys.ts reads of it.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Keys } from "../../src/timeline/keys";
import type { View } from "../../src/timeline/view";

class Field {}
class Button {}

let calls: string[] = [], off: AbortController, keys: Keys, dialog: object | null;
const body = new Button(), canvas = Object.assign(new Button(), { focus: () => undefined });

/* Writes down what is done to it. */
const view = (extent: [number, number] | null = null): View => new Proxy({ canvas, scene: { t0: 1000, t1: 2000, height: 300, selected: [{ event: 7 }] }, model: { beginPs: -5, endPs: 9000 }, extent: () => extent }, {
  get: (of, name: string) => (name in of ? of[name as keyof typeof of] : (...args: unknown[]) => { if (name !== "redraw") calls.push(`${name}(${args.map((a) => (typeof a === "number" ? Number(a.toFixed(6)) : JSON.stringify(a))).join(", ")})`); }),
}) as unknown as View;

function fire(kind: "keydown" | "keyup", key: string, more: object = {}): boolean {
  const ev = new Event(kind, { cancelable: true });
  Object.defineProperty(ev, "target", { value: body });
  Object.defineProperties(ev, Object.fromEntries(Object.entries({ key, code: key, ...more }).map(([k, value]) => [k, { value }])));
  window.dispatchEvent(ev);
  return ev.defaultPrevented;
}
const press = (key: string, more: object = {}): string => { calls = []; fire("keydown", key, more); fire("keyup", key, more); return calls.join(" "); };

beforeEach(() => {
  dialog = null;
  vi.stubGlobal("window", new EventTarget());
  vi.stubGlobal("document", { body, querySelector: () => dialog, getElementById: () => ({ focus: () => calls.push("focus"), select: () => calls.push("select") }) });
  for (const name of ["HTMLInputElement", "HTMLSelectElement", "HTMLTextAreaElement"]) vi.stubGlobal(name, Field);
  off = new AbortController();
  keys = new Keys(view(), off.signal);
});
afterEach(() => { off.abort(); vi.unstubAllGlobals(); });

test("each key does what it says", () => {
  expect(["1", "@", "3", "$"].map((k) => press(k))).toEqual(['choose("select")', 'choose("pan")', 'choose("zoom")', 'choose("time")']);
  expect(["h", "x", "g", "l", "v", "p", "P", "o"].map((k) => press(k))).toEqual(['showAll({"event":7})', "sumScreen()", "flame()", "late()", "toggleFlows()", "pin()", "raise()", "toggleRow()"]);
  expect(["j", "k", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].map((k) => press(k))).toEqual(["walkRows(1)", "walkRows(-1)", "walk(-1)", "walk(1)", "goOut()", "goIn()"]);
  expect(["PageUp", "PageDown", "0", "/", "t", "Escape"].map((k) => press(k))).toEqual(["scroll(-150)", "scroll(150)", "store(true) move(-5, 9000)", "focus select", "focus", "clear()"]);
  expect([press("Enter"), press("Enter", { shiftKey: true })]).toEqual(["next()", "next(true)"]);
  expect([press("q"), fire("keydown", "q"), fire("keydown", "g")]).toEqual(["", false, true]);
});

test("what is selected is zoomed to and marked, if anything is", () => {
  expect([press("f"), press("m")]).toEqual(["", ""]);
  off.abort();
  new Keys(view([5, 9]), (off = new AbortController()).signal);
  expect([press("f"), press("m")]).toEqual(["frameOn(5, 9)", "mark(5, 9)"]);
});

test("keys that are held move the window, three times as fast with Shift", () => {
  calls = [];
  fire("keydown", "w", { code: "KeyW" });
  expect(keys.areHeld).toBe(true);
  keys.step(5000); // the first frame: 16 ms
  keys.step(5050);
  keys.step(9999); // a frame that took long counts 100 ms
  expect(calls).toEqual([0.016, 0.05, 0.1].map((s) => `zoom(${Number(Math.exp(-2.2 * s).toFixed(6))})`));
  fire("keyup", "w", { code: "KeyW" });
  keys.step(10015); // the frame after it
  calls = [];
  fire("keydown", "D", { code: "KeyD", shiftKey: true });
  keys.step(20000);
  expect(calls).toEqual(["move(1048, 2048)"]); // 1000 * 0.016 * 3
  fire("keyup", "d", { code: "KeyD" });
  fire("keyup", "Shift");
  keys.step(20016);
  expect(keys.areHeld).toBe(false);
  calls = [];
  for (const code of ["KeyA", "KeyS"]) { fire("keydown", code, { code }); keys.step(30000); fire("keyup", code, { code }); keys.step(30016); }
  expect(calls).toEqual(["move(984, 1984)", `zoom(${Number(Math.exp(2.2 * 0.016).toFixed(6))})`]);
});

test("no key is taken from a field, a dialog, or the browser's own ones", () => {
  const field = new Field();
  expect(["ctrlKey", "metaKey", "altKey"].map((held) => press("x", { [held]: true }))).toEqual(["", "", ""]);
  vi.stubGlobal("HTMLInputElement", Button); // what is fired at is a field now
  expect(press("x")).toBe("");
  vi.stubGlobal("HTMLInputElement", Field);
  dialog = field;
  expect([press("x"), press("Escape")]).toEqual(["", ""]);
});
