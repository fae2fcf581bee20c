// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { barsOf, boxesOf, byLateness, type DurationsDoc, type FlameDoc, found, lateness, lateText, sampledTracks } from "../../src/timeline/analysis";
import { catalogue, track } from "./catalogue";

const MS = 1e9;

/* The starts of each host's events, in ms. */
const durations = (starts: Record<string, number[]>, longest: Record<string, number> = {}): Pick<DurationsDoc, "hosts"> => ({
  hosts: Object.entries(starts).map(([host, list]) => ({ host, count: list.length, total_ps: "0", max_ps: String(longest[host] ?? 0), starts_ps: list.map((ms) => ms * MS), first: { file: 0, track: 0, event: 0, start_ps: "0", duration_ps: "0" } })),
});
const late = (starts: Record<string, number[]>): number[] | undefined => lateness(durations(starts))?.map((ps) => ps / MS);

/* Steps each 200 ms. */
const steps = (from: number, n: number): number[] => Array.from({ length: n }, (_, i) => from + 200 * i);

test("how late a host is counts from the middle host", () => {
  expect(late({ a: steps(0, 6), b: steps(1, 6), c: steps(21, 6) })).toEqual([-1, 0, 20]);
  expect(late({ c: steps(21, 6), a: steps(0, 6), b: steps(1, 6) })).toEqual([20, -1, 0]); // the first one is no reference
  expect(late({ a: steps(0, 6), b: steps(20, 6), c: steps(20, 6) })).toEqual([-20, 0, 0]); // an early one
  expect(late({ a: steps(0, 6), b: steps(20, 6) })).toEqual([0, 20]);
});

test("one host is late to no one", () => {
  expect(lateness(durations({ a: steps(0, 6) }))).toBeNull();
  expect(lateness(durations({}))).toBeNull();
});

test("one late step makes no late host", () => {
  expect(late({ a: [0, 200, 400, 600, 800], b: [0, 200, 490, 600, 800], c: [0, 270, 400, 600, 800] })).toEqual([0, 0, 0]);
});

test("where the window cuts some off, the pairing with the least difference is taken", () => {
  expect(late({ a: steps(200, 6), b: steps(0, 7), c: steps(20, 6) })).toEqual([0, 0, 20]);
  expect(late({ a: steps(1000, 20), b: steps(0, 25), c: steps(-380, 27) })).toEqual([0, 0, 20]); // some more, up to eight
  expect(late({ a: steps(0, 9), b: steps(0, 9), c: steps(120, 9) })).toEqual([0, 0, -80]); // by more than half of the period: it looks early
});

test("lateness in words: what lies within both clocks' bounds is none", () => {
  expect([lateText(0, 5), lateText(20 * MS, 1e8), lateText(-20 * MS, 1e8), lateText(1e8, 1e8), lateText(-1e8, 1e8), lateText(1e8 + 1, 1e8)])
    .toEqual(["the middle host", "20 ms later", "20 ms earlier", "within the clocks' bounds", "within the clocks' bounds", "100 µs later"]);
});

test("the latest host comes first, with the bound of its clock and of the middle host's", () => {
  const model = { doc: catalogue({ a: [], b: [], c: [] }, { a: 1000, b: 2000, c: 4000 }) };
  expect(byLateness(model, durations({ a: steps(0, 6), b: steps(1, 6), c: steps(21, 6) }))).toEqual([
    { at: 2, latePs: 20 * MS, boundPs: 6e6 }, { at: 1, latePs: 0, boundPs: 4e6 }, { at: 0, latePs: -MS, boundPs: 3e6 }]);
});

test("where lateness is not known, the host with the longest event comes first", () => {
  expect(byLateness({ doc: catalogue({ a: [] }, { a: 1000 }) }, durations({ a: [0] }))).toEqual([{ at: 0, latePs: null, boundPs: 1e6 }]);
});

test("stacks were sampled on these tracks", () => {
  const doc = catalogue({
    a: [["/host:CPU", [track("main", 5), track("Steps", 3), track("load", 9, 1, { counter: true })]], ["/device:GPU:0", [track("Stream", 7)]], ["/host:CPU samples train", [track("t1", 1), track("t2", 0)]]],
    b: [["/host:CPU lost cpu", [track("lost", 2)]], ["/host:CPU python", [track("main", 4)]], ["/host:CPU [pod x]", [track("main", 4)]], ["/host:metadata", [track("x", 4)]]],
  });
  expect(sampledTracks({ doc })).toBe("0.0,0.4,1.1,1.2");
});

test("no more than 700 of them are asked for, in order", () => {
  const doc = catalogue({ a: [["/host:CPU", Array.from({ length: 800 }, (_, i) => track(`t${i}`, 1))]] }), asked = sampledTracks({ doc }).split(",");
  expect([asked.length, asked[0], asked[10], asked[699]]).toEqual([700, "0.0", "0.10", "0.699"]);
});

/* main 800 (100 of its own) calls solve 500 and io 200; idle 200. */
const flame: FlameDoc = {
  total_ns: 1000, stacks: 9, left_out: 0, top: [], names: ["main", "idle", "solve", "io"],
  nodes: [[-1, 0, 800, 100, 8], [-1, 1, 200, 200, 2], [0, 2, 500, 500, 5], [0, 3, 200, 200, 2]],
};

test("the nodes of a flame graph lie in one box for all", () => {
  expect(boxesOf(flame).map((b) => [b.name, b.parent, b.total, b.own, b.depth, b.at])).toEqual([
    ["all", -1, 1000, 0, 0, 0], ["main", 0, 800, 100, 1, 0], ["idle", 0, 200, 200, 1, 800], ["solve", 1, 500, 500, 2, 0], ["io", 1, 200, 200, 2, 500]]);
});

test("the share of what is searched for", () => {
  const of = (...names: string[]): string => found(boxesOf(flame), (n) => names.includes(n));
  expect([of("main"), of("io"), of("main", "io"), of("idle", "io"), of("nothing"), of("all")])
    .toEqual(["80.0 %, 10.0 % its own", "20.0 %, 20.0 % its own", "80.0 %, 30.0 % its own", "40.0 %, 40.0 % its own", "0.0 %, 0.0 % its own", "0.0 %, 0.0 % its own"]);
});

test("what calls itself counts once, however deep", () => {
  const doc: FlameDoc = { ...flame, names: ["f", "g"], nodes: [[-1, 0, 600, 100, 1], [0, 1, 500, 100, 1], [1, 0, 400, 400, 1]] }; // f calls g, which calls f
  expect(found(boxesOf(doc), (n) => n === "f")).toBe("60.0 %, 50.0 % its own");
});

test("a histogram's bars lie on a logarithmic axis", () => {
  const bars = barsOf([[1, 2, 5], [2, 4, 10], [8, 16, 0]]); // four doublings
  expect(bars.map((b) => [b.left, Number(b.width.toFixed(6)), b.height])).toEqual([[0, 24.7, 50], [25, 24.7, 100], [75, 24.7, 2]]);
  expect(barsOf([])).toEqual([]);
  expect(barsOf([[0, 1, 3]])).toEqual([{ left: 0, width: 0.4, height: 100 }]);
});
