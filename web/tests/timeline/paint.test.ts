// SPDX-License-Identifier: Apache-2.0
// Small pictures, a letter a pixel: what is behind is a point.
import { expect, test } from "vitest";
import { paintBehind, paintEntries, type Place, shadeEntries } from "../../src/timeline/paint";
import type { Tile } from "../../src/timeline/tile";

const WIDTH = 20, LEFT = 2, GROUND = ".".charCodeAt(0);

/* Entries as [start, length, row, letter, count, how busy]. */
function tileOf(entries: [number, number, number, string, number?, number?][]): { tile: Tile; colors: Uint32Array } {
  const column = (of: (e: (typeof entries)[number]) => number): Uint32Array => Uint32Array.from(entries, of);
  const tile = { start: Int32Array.from(entries, (e) => e[0]), length: column((e) => e[1]), row: column((e) => (e[2] | (e[5] ?? 255) << 24) >>> 0), count: column((e) => e[4] ?? 1), name: column((_) => 0) };
  return { tile: tile as unknown as Tile, colors: column((e) => e[3].charCodeAt(0)) };
}

const place = (over: Partial<Place> = {}): Place => ({ zero: LEFT, unit: 1, low: LEFT, high: WIDTH, left: LEFT, width: WIDTH, top: 0, least: 0, lane: 1, firstLane: 0, endLane: 2, edged: Infinity, labelled: Infinity, ...over });
const lines = (words: Uint32Array): string[] => [0, 1].map((y) => String.fromCharCode(...words.subarray(y * WIDTH, (y + 1) * WIDTH)));

function painted(entries: Parameters<typeof tileOf>[0], over: Partial<Place> = {}): { lines: string[]; shown: number; wide: number[]; filled: number[] } {
  const { tile, colors } = tileOf(entries), words = new Uint32Array(2 * WIDTH).fill(GROUND), filled = new Uint8Array(2), wide: number[] = [];
  const shown = paintEntries(words, colors, tile, 0, entries.length, place(over), GROUND, filled, wide);
  return { lines: lines(words), shown, wide, filled: [...filled] };
}

test("entries are as long as their time, in their lane, and a pixel at least", () => {
  expect(painted([[0, 3, 0, "a"], [1, 1, 1, "b"], [5, 0, 0, "c"], [10, 16, 1, "e"]])).toEqual({
    lines: ["..aaa..c............", "...b........eeeeeeee"], shown: 4, wide: [], filled: [1, 1] });
});

test("an entry has each pixel that it touches", () => {
  expect(painted([[0, 3, 0, "a"], [5, 3, 0, "b"]], { unit: 1.5, zero: LEFT + 0.2 }).lines[0]).toBe("..aaaaa..bbbbbb....."); // 2.2 to 6.7, 9.7 to 14.2
});

test("what is outside is not drawn, and what reaches in is cut off", () => {
  expect(painted([[-9, 3, 0, "a"], [-4, 6, 0, "b"], [3, 1, 2, "c"], [15, 99, 0, "d"], [18, 1, 0, "e"], [30, 1, 0, "f"]])).toMatchObject({ lines: ["..bb.............ddd", "...................."], shown: 2, filled: [1, 0] });
  expect(painted([[0, 3, 0, "a"], [8, 3, 0, "b"]], { high: 9 })).toMatchObject({ lines: ["..aaa...............", "...................."], shown: 1 }); // the next tile has it
});

test("wide ones have an edge, and those that are no fold a label", () => {
  expect(painted([[0, 4, 0, "a"], [4, 3, 0, "b"], [8, 5, 0, "c", 7]], { edged: 4, labelled: 4 })).toMatchObject({ lines: ["..aaa.bbb.cccc......", "...................."], wide: [0] });
});

test("of tracks behind each other the first one that was drawn stays", () => {
  const words = new Uint32Array(2 * WIDTH).fill(GROUND), covered = new Uint8Array(WIDTH), filled = new Uint8Array(2), paint = (...entries: Parameters<typeof tileOf>[0]): number => {
    const { tile, colors } = tileOf(entries);
    return paintBehind(words, colors, tile, 0, entries.length, place({ endLane: 1 }), GROUND, filled, covered);
  };
  expect(paint([2, 4, 0, "a"])).toBe(1);
  expect(paint([0, 10, 0, "b"], [3, 2, 0, "c"], [8, 4, 0, "d"])).toBe(2); // c is covered
  expect(lines(words)[0]).toBe("..bbaaaabbdddd......");
  expect([...covered].join("")).toBe("00111111111111000000");
  expect(paint([0, 9, 1, "e"])).toBe(0); // not in the first row
});

test("folds are paler the less busy they are, and what is not found is paler still", () => {
  const { tile } = tileOf([[0, 1, 0, "a"], [0, 1, 0, "a", 5, 0], [0, 1, 0, "a", 5, 255]]), shade = (found: Uint8Array | null): number[] => {
    const out = new Uint32Array(3);
    shadeEntries(out, tile, 0, 3, Uint32Array.of(0xff000080), found, 0xff000000);
    return [...out].map((c) => c & 0xffffff);
  };
  expect(shade(null)).toEqual([128, 45, 102]); // 128 * 90 / 256; 128 * (90 + 114) / 256
  expect(shade(Uint8Array.of(1))).toEqual([128, 45, 102]);
  expect(shade(Uint8Array.of(0))).toEqual([38, 13, 30]); // of these 77 / 256
});
