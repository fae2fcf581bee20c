// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Model, tracksOf } from "../../src/timeline/model";
import { catalogue, track } from "./catalogue";

/* Heights: a host 24, a plane 20, a lane 15 and 3 below them, a counter 40. */
const doc = () => catalogue({
  a: [["/host:CPU", [track("main", 5, 2), track("load", 9, 1, { counter: true }), track("deep", 9, 20)]], ["/host:CPU lost cpu", [track("lost", 2)]]],
  b: [["/device:GPU:0", [track("Stream #1", 7), track("Stream #2", 0, 0)]]],
});
const rows = (m: Model): [string, number, number][] => m.rows.map((r) => [r.key, r.y, r.height]);

test("hosts, planes and tracks lie below each other", () => {
  const m = new Model(doc());
  expect(rows(m)).toEqual([
    ["ha", 0, 24], ["p0.0", 24, 20], ["t0.0", 44, 33], ["t0.1", 77, 40], ["t0.2", 117, 183], ["p0.3", 300, 20], ["t0.3", 320, 18],
    ["hb", 338, 24], ["p1.0", 362, 20], ["t1.0", 382, 18], ["t1.1", 400, 18]]);
  expect([m.height, m.events, tracksOf(m.doc)]).toEqual([418, 23, 6]); // samples of counters are no events
  expect(m.rows.filter((r) => r.losses.length).map((r) => [r.key, r.losses])).toEqual([["ha", [{ file: 0, track: 3 }]], ["t0.3", [{ file: 0, track: 3 }]]]);
});

test("the row at a height is the first one that ends below it", () => {
  const m = new Model(doc());
  expect([0, 23.9, 24, 43, 44, 76, 77, 417, 418, -5].map((y) => m.rowAt(y))).toEqual([0, 0, 1, 1, 2, 2, 3, 10, 11, 0]);
});

test("what is closed hides what is in it; a track that is opened shows all its rows", () => {
  const m = new Model(doc());
  m.toggle("p0.0");
  m.toggle("hb");
  expect(rows(m)).toEqual([["ha", 0, 24], ["p0.0", 24, 20], ["p0.3", 44, 20], ["t0.3", 64, 18], ["hb", 82, 24]]);
  m.toggle("p0.0");
  m.toggle("t0.2");
  expect(m.trackRow(0, 2)).toMatchObject({ y: 117, height: 303, shown: 20 });
  expect([m.rowsOf(0, 0), m.rowsOf(1, 0)]).toEqual([256, 12]);
});

test("a filter leaves tracks by their plane's name and theirs, and opens what is closed", () => {
  const m = new Model(doc());
  m.toggle("p1.0");
  m.filter = "gpu:0 stream #1";
  m.layOut();
  expect(rows(m)).toEqual([["ha", 0, 24], ["hb", 24, 24], ["p1.0", 48, 20], ["t1.0", 68, 18]]);
});

test("pinned tracks are above all hosts, in their order", () => {
  const m = new Model(doc());
  expect([m.pin(1, 0), m.pin(0, 0)]).toEqual([true, true]);
  expect(m.rows.slice(0, 3).map((r) => [r.key, r.label, r.y])).toEqual([["t1.0", "b › Stream #1", 0], ["t0.0", "a › main", 18], ["ha", "a", 51]]);
  expect(m.rows.filter((r) => r.key === "t1.0").length).toBe(1);
  expect([m.raise(0, 0), [...m.pinned], m.raise(0, 0)]).toEqual([true, ["0.0", "1.0"], false]);
  expect([m.pin(0, 0), [...m.pinned]]).toEqual([false, ["1.0"]]);
});

test("what hides a track is opened", () => {
  const m = new Model(doc());
  m.toggle("hb");
  m.toggle("p1.0");
  m.filter = "main";
  m.layOut();
  m.reveal(1, 1);
  expect([m.isOpen("hb"), m.isOpen("p1.0"), m.filter, m.trackRow(1, 1) !== undefined]).toEqual([true, true, "", true]);
});

test("a track is found by its number in its file", () => {
  const m = new Model(doc());
  expect([m.find(0, 3)?.plane.name, m.find(0, 2)?.info.name, m.find(1, 1)?.host.host]).toEqual(["/host:CPU lost cpu", "deep", "b"]);
  expect([m.find(0, 4), m.find(2, 0), m.find(0, -1)]).toEqual([null, null, null]);
  expect(m.groups(3)).toEqual([{ file: 0, group: 0 }, { file: 0, group: 1 }, { file: 1, group: 0 }]);
});

test("planes of many tracks are closed at first, the first one aside, and stay so", () => {
  const many = (n: number) => Array.from({ length: n }, (_, i) => track(`t${i}`, 1));
  const m = new Model(catalogue({ a: [["big", many(60)], ["small", many(2)]], b: [["few", many(2)]] }));
  expect(["p0.0", "p0.60", "p1.0"].map((key) => m.isOpen(key))).toEqual([true, false, false]);
  m.take(catalogue({ a: [["big", many(60)], ["small", many(3)]], b: [["few", many(2)]] }));
  expect(["p0.0", "p0.60", "p1.0"].map((key) => m.isOpen(key))).toEqual([true, false, false]);
  const fresh = new Model(catalogue({ a: [["few", many(2)], ["big", many(49)], ["next", many(1)]] }));
  expect(["p0.0", "p0.2", "p0.51"].map((key) => fresh.isOpen(key))).toEqual([true, false, false]);
});

test("a session reaches from its first event to its last one", () => {
  const m = new Model({ ...catalogue({ a: [["p", [track("early", 1, 1, { first_ps: "-500", last_ps: "700" }), track("late", 1, 1, { first_ps: "5", last_ps: "9000" }), track("none", 0, 0, { first_ps: "-9000", last_ps: "99000" })]]] }), duration_ns: 2 });
  expect([m.beginPs, m.endPs]).toEqual([-500, 9000]);
  expect(new Model(catalogue({ a: [] })).endPs).toBe(1000);
});
