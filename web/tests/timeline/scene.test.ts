// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Row } from "../../src/timeline/model";
import { psOf, type Scene, shiftOf, xOf, yOf } from "../../src/timeline/scene";

const scene = (t0: number, t1: number, y = 0): Scene => ({ t0, t1, y, gutter: 100, width: 1124 }) as Scene; // 1,024 pixels of time

test("a bucket is one to two pixels wide", () => {
  expect([1024, 1025, 2048, 2049, 1e12].map((size) => shiftOf(scene(0, size)))).toEqual([0, 1, 1, 2, 30]); // 1e12 / 1024 is some 0.91 * 2^30
  expect([shiftOf(scene(5, 6)), shiftOf(scene(0, 2 ** 80)), shiftOf({ t0: 0, t1: 4, width: 10, gutter: 100 })]).toEqual([0, 50, 2]);
});

test("times and places of the picture", () => {
  const s = scene(-1000, 1048);
  expect([xOf(s, -1000), xOf(s, 24), xOf(s, 1048)]).toEqual([100, 612, 1124]);
  expect([psOf(s, 100), psOf(s, 612), psOf(s, 1124), psOf(s, 99)]).toEqual([-1000, 24, 1048, -1002]);
  expect(yOf(scene(0, 1, 30), { y: 100 } as Row)).toBe(130); // below 60 pixels of ruler and overview
});
