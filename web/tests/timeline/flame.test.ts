// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { arrange, placed } from "../../src/timeline/flame";

/* all calls main and idle; main calls io and solve; solve calls tiny. */
const boxes = (): ReturnType<typeof arrange> => arrange([
  { name: "all", parent: -1, total: 10_000, own: 0 }, { name: "idle", parent: 0, total: 2000, own: 2000 }, { name: "main", parent: 0, total: 8000, own: 1000 },
  { name: "io", parent: 2, total: 2000, own: 2000 }, { name: "solve", parent: 2, total: 5000, own: 4991 }, { name: "tiny", parent: 4, total: 9, own: 9 },
]);

test("the widest box is the first of its caller", () => {
  expect(boxes().map((b) => [b.name, b.depth, b.at])).toEqual([["all", 0, 0], ["idle", 1, 8000], ["main", 1, 0], ["io", 2, 5000], ["solve", 2, 0], ["tiny", 3, 0]]);
  expect(boxes()[2].children).toEqual([4, 3]);
});

test("boxes are as wide as their share; one of less than a thousandth is left out", () => {
  expect(placed(boxes(), 0)).toEqual([
    { i: 0, left: 0, width: 100 }, { i: 1, left: 80, width: 20 }, { i: 2, left: 0, width: 80 }, { i: 3, left: 50, width: 20 }, { i: 4, left: 0, width: 50 },
  ]);
});

test("zoomed, a box is as wide as its callers, and nothing is beside them", () => {
  expect(placed(boxes(), 2)).toEqual([{ i: 0, left: 0, width: 100 }, { i: 2, left: 0, width: 100 }, { i: 3, left: 62.5, width: 25 }, { i: 4, left: 0, width: 62.5 }, { i: 5, left: 0, width: 0.1125 }]);
  expect(placed(boxes(), 3)).toEqual([{ i: 0, left: 0, width: 100 }, { i: 2, left: 0, width: 100 }, { i: 3, left: 0, width: 100 }]);
});

test("without any time there is no box", () => {
  expect(placed(arrange([{ name: "all", parent: -1, total: 0, own: 0 }]), 0)).toEqual([]);
});
