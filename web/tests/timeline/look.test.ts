// SPDX-License-Identifier: Apache-2.0
// A pixel is a picosecond, from 100 pixels on; rows begin 60 pixels below the top: the host's 24 and the plane's 20, then lanes of 15.
import { expect, test } from "vitest";
import type { Drafts } from "../../src/timeline/draft";
import { firstInside, firstOnScreen, hitAt, sampleAt, snap } from "../../src/timeline/look";
import { Model } from "../../src/timeline/model";
import type { Scene, Selected } from "../../src/timeline/scene";
import { Tile } from "../../src/timeline/tile";
import { catalogue, track } from "./catalogue";

/* Entries of track 0 as [start, length, row, count, event]; of the counter as [start, least, largest, last, samples]. */
function draftsOf(events: number[][], samples: number[][] = []): Drafts {
  const n = events.length + samples.length, columns = new ArrayBuffer(4 * 6 * n), ints = (i: number): Uint32Array => new Uint32Array(columns, 4 * n * i, n), floats = (i: number): Float32Array => new Float32Array(columns, 4 * n * i, n);
  const [start, length, , event, count, row] = [0, 1, 2, 3, 4, 5].map(ints);
  events.forEach(([s, l, r, c = 1, e = 0], i) => { [start[i], length[i], row[i], count[i], event[i]] = [s, l, r | 65535 << 16, c, e]; });
  samples.forEach(([s, least, largest, last, c], k) => { const i = events.length + k; [start[i], floats(1)[i], floats(2)[i], floats(3)[i], count[i]] = [s, least, largest, last, c]; });
  const tile = new Tile(0, { shift: 0, index: 0, rows: 12, ends: Uint32Array.of(events.length, n), columns, names: Uint8Array.of(0, 5, ...[..."train"].map((c) => c.charCodeAt(0))), named: 1 });
  const model = new Model(catalogue({ a: [["/host:CPU", [track("main", events.length, 3), track("load", samples.length, 1, { counter: true })]]] }));
  return { model, *pieces(_: number, k: number) { yield { tile, from: tile.from(k), to: tile.ends[k] }; } } as unknown as Drafts;
}

const scene = (over: Partial<Scene> = {}): Scene => ({ t0: 0, t1: 1000, y: 0, gutter: 100, width: 1100, height: 400, ...over }) as Scene;
const LANE0 = 60 + 24 + 20 + 1 + 7, LANE1 = LANE0 + 15, LOAD = 60 + 24 + 20 + 3 * 15 + 3 + 20;

const events = draftsOf([[100, 50, 0, 1, 4], [110, 20, 1, 1, 5], [200, 100, 0, 7, 6], [210, 5, 1, 1, 9]]);
const at = (x: number, y: number, s = scene()): number | undefined => { const h = hitAt(events, s, 100 + x, y); return h ? h.tile.event[h.entry] : undefined; };

test("the pointer meets the event of its lane, or one that is less than two pixels away", () => {
  expect([at(100, LANE0), at(149, LANE0), at(151.5, LANE0), at(98.5, LANE0)]).toEqual([4, 4, 4, 4]);
  expect([at(152, LANE0), at(98, LANE0), at(120, LANE0 + 30)]).toEqual([undefined, undefined, undefined]);
  expect([at(120, LANE0), at(120, LANE1), at(250, LANE0)]).toEqual([4, 5, 6]);
  expect(hitAt(events, scene(), 350, LANE0)).toMatchObject({ file: 0, track: 0, lane: 0, startPs: 200, lengthPs: 100, count: 7, name: "train" });
});

test("between two events the nearer one is met", () => {
  const close = draftsOf([[100, 10, 0, 1, 1], [113, 10, 0, 1, 2]]), s = scene();
  expect([111, 111.4, 111.6, 112].map((x) => hitAt(close, s, 100 + x, LANE0)?.entry)).toEqual([0, 0, 1, 1]);
});

test("nothing is met on names, rulers, hosts' lines and counters", () => {
  expect([hitAt(events, scene(), 99, LANE0), hitAt(events, scene(), 220, 59), hitAt(events, scene(), 220, 70), hitAt(events, scene(), 220, LOAD), hitAt(events, scene(), 220, 390)]).toEqual([null, null, null, null, null]);
});

test("a picture that is scrolled", () => {
  expect(at(120, LANE1 - 40, scene({ y: 40 }))).toBe(5);
});

test("measuring snaps to the nearer edge of an event within six pixels", () => {
  const to = (x: number): number => snap(events, scene(), 100 + x, LANE0);
  expect([to(103), to(99), to(105.9), to(106), to(125), to(146), to(151), to(170)]).toEqual([100, 100, 100, 106, 125, 150, 150, 170]);
});

test("a counter's value is that of the latest sample up to the pointer", () => {
  const counter = draftsOf([], [[10, 1, 4, 2.5, 3], [50, 6, 6, 6, 1], [90, 0.5, 8, 7, 2]]), of = (x: number) => sampleAt(counter, scene(), 100 + x, LOAD);
  expect(of(9)).toBeNull();
  expect([of(10), of(49)].map((s) => s && [s.atPs, s.least, s.largest, s.last, s.count])).toEqual([[10, 1, 4, 2.5, 3], [10, 1, 4, 2.5, 3]]);
  expect([of(50)?.last, of(999)?.last, of(50)?.name]).toEqual([6, 7, "load"]);
  expect(sampleAt(events, scene(), 220, LANE0)).toBeNull();
});

test("the first event that begins in the window", () => {
  const row = events.model.trackRow(0, 0)!;
  expect([scene(), scene({ t0: 101 }), scene({ t0: 111 }), scene({ t0: 211 }), scene({ t1: 100 })].map((s) => firstOnScreen(events, s, row))).toEqual([4, 5, 6, null, null]);
});

test("the first event inside another one is one row below, within its time, and no fold", () => {
  const outer = (startPs: number, durationPs: number, row = 0): Selected => ({ file: 0, track: 0, event: 0, row, startPs, durationPs, name: "" });
  expect(firstInside(events, scene(), outer(100, 50))).toBe(5);
  expect(firstInside(events, scene(), outer(200, 100))).toBe(9);
  expect(firstInside(events, scene(), outer(100, 50, 1))).toBeNull();
  const d = draftsOf([[100, 50, 0], [101, 5, 1, 3, 1], [110, 60, 1, 1, 2], [130, 5, 1, 1, 3], [120, 5, 1, 1, 4]]);
  expect(firstInside(d, scene(), outer(100, 50))).toBe(4); // a fold is none; one that ends after it is not inside
});
