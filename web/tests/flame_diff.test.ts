// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { paired } from "../src/flame_diff";
import type { FlameDoc } from "../src/timeline/analysis";

/* Nodes are [parent, name, total, own]: -1 is behind no one. */
function flame(total_ns: number, names: string[], ...nodes: [number, number, number, number][]): FlameDoc {
  return { total_ns, names, nodes: nodes.map((n) => [...n, 1]), stacks: nodes.length, left_out: 0, top: [] };
}

test("calls with the same callers are one, as wide as the mean of their shares", () => {
  const a = flame(1000, ["main", "solve", "io"], [-1, 0, 1000, 0], [0, 1, 600, 600], [0, 2, 400, 400]);
  const b = flame(2000, ["io", "main", "draw"], [-1, 1, 2000, 0], [0, 2, 1000, 1000], [0, 0, 1000, 1000]);
  const pairs = paired([a, b]).map((p) => ({ ...p, total: Number(p.total.toFixed(9)), own: Number(p.own.toFixed(9)) }));
  expect(pairs).toEqual([
    { name: "all", parent: -1, ns: [1000, 2000], total: 1, own: 0 },
    { name: "main", parent: 0, ns: [1000, 2000], total: 1, own: 0 },
    { name: "solve", parent: 1, ns: [600, 0], total: 0.3, own: 0.3 }, // 60 % of A, nothing of B
    { name: "io", parent: 1, ns: [400, 1000], total: 0.45, own: 0.45 }, // 40 % and 50 %
    { name: "draw", parent: 1, ns: [0, 1000], total: 0.25, own: 0.25 },
  ]);
});

test("a function that others call is another one", () => {
  const a = flame(100, ["f", "g"], [-1, 0, 60, 60], [-1, 1, 40, 0], [1, 0, 40, 40]); // f; g, which calls f
  const b = flame(100, ["f"], [-1, 0, 100, 100]);
  expect(paired([a, b]).map((p) => [p.name, p.parent, ...p.ns])).toEqual([["all", -1, 100, 100], ["f", 0, 60, 100], ["g", 0, 40, 0], ["f", 2, 40, 0]]);
});
