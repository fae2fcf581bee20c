// SPDX-License-Identifier: Apache-2.0
// The bytes are written down as docs/viewer.md has them, number by number.
import { expect, test } from "vitest";
import { Tile, unpack } from "../../src/timeline/tile";

const word = (n: number): number[] => [n & 255, n >>> 8 & 255, n >>> 16 & 255, n >>> 24];
const ascii = (text: string): number[] => [...text].map((c) => c.charCodeAt(0));
const bufferOf = (...parts: number[][]): ArrayBuffer => Uint8Array.from(parts.flat()).buffer;

const events = bufferOf(
  ascii("TVT2"), word(3), word(4), word(2), word(3), word(3), word(4), // three tracks: the second one has no entry
  [5, 0xce, 0x01, 0xd8, 0x04, 10], // begins: -3, +103, +300; +5, from 0 again
  [50, 0xc8, 0x01, 0, 0xff, 0xff, 0xff, 0xff, 0x0f], // lengths: 50, 200, 0, 2^32 - 1
  [0, 1, 0, 1], // names
  [14, 4, 1, 4], // events: +7, +2, -1; +2
  [1, 12, 1, 1], // counts
  [0, 2, 0, 1], // rows
  [128], // how busy the second entry is, the only fold
  [0, 5, 3, 2], ascii("trainp!"), // "train"; 3 characters of it, and 2 more
);

test("a tile of events", () => {
  const t = new Tile(7, unpack(events, { shift: 10, index: 3, rows: 12 }));
  expect([t.id, t.shift, t.rows, t.fromPs, t.unit]).toEqual([7, 10, 12, 3 * 1024 * 1024, 4]);
  expect([...t.ends]).toEqual([3, 3, 4]);
  expect([0, 1, 2].map((k) => t.from(k))).toEqual([0, 3, 3]);
  expect([...t.start]).toEqual([-3, 100, 400, 5]);
  expect([...t.length]).toEqual([50, 200, 0, 4294967295]);
  expect([...t.event]).toEqual([7, 9, 8, 2]);
  expect([...t.count]).toEqual([1, 12, 1, 1]);
  expect([...t.row].map((r) => r & 0xffff)).toEqual([0, 2, 0, 1]);
  expect([...t.row].map((r) => r >>> 16)).toEqual([65535, 128 * 257, 65535, 65535]);
  expect([...t.name].map((n) => t.names[n])).toEqual(["train", "trap!", "train", "trap!"]);
});

test("the unit is a bucket's 256th, and a picosecond at least", () => {
  const at = (shift: number, index: number): number[] => { const t = new Tile(0, unpack(events, { shift, index, rows: 1 })); return [t.unit, t.fromPs]; };
  expect([at(0, 5), at(8, -1), at(9, 1), at(40, 2)]).toEqual([[1, 5120], [1, -262144], [2, 524288], [2 ** 32, 2 ** 51]]);
});

test("a tile of a counter has floats", () => {
  const t = new Tile(0, unpack(bufferOf(
    ascii("TVT2"), word(1), word(2), word(0), word(2),
    [0, 20], // at 0 and 10
    [0x80, 0x80, 0x80, 0x80, 0x0c, 0x80, 0x80, 0x80, 0xfe, 0x03], // least: -2, 1.5 are 0xc0000000, 0x3fc00000
    [0x80, 0x80, 0x80, 0x81, 0x04, 0x80, 0x80, 0x80, 0xfe, 0x03], // largest: 2.5 is 0x40200000; 1.5
    [0x80, 0x80, 0x80, 0x82, 0x08, 0xff, 0xff, 0xff, 0x05], // last: 2.5, then 0x600000 less: 1.5
    [3, 1], [0, 0], [0],
  ), { shift: 0, index: 0, rows: 1 }));
  expect([...t.start]).toEqual([0, 10]);
  expect([[...t.least], [...t.largest], [...t.last]]).toEqual([[-2, 1.5], [2.5, 1.5], [2.5, 1.5]]);
  expect([...t.count]).toEqual([3, 1]);
});

test("names beyond ASCII", () => {
  const t = new Tile(0, unpack(bufferOf(ascii("TVT2"), word(0), word(0), word(3), [0, 4, 1, 1, 0, 2], [0x61, 0xc3, 0xa9, 0x62], [0x63], [0xc2, 0xb5]), { shift: 0, index: 0, rows: 0 }));
  expect(t.names).toEqual(["aéb", "ac", "µ"]);
});

test("what is no tile is refused", () => {
  expect(() => unpack(bufferOf(ascii("TVT1"), word(0), word(0), word(0)), { shift: 0, index: 0, rows: 0 })).toThrow("this is no tile");
});
