// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Model } from "../../src/timeline/model";
import type { Selected } from "../../src/timeline/scene";
import { changes, csv, order, type SelectionDoc, type Sum, sumsOf } from "../../src/timeline/sums";
import { catalogue, track } from "./catalogue";

const event = (file: number, startPs: number, durationPs = 0, name = ""): Selected => ({ file, track: 0, event: 0, row: 0, startPs, durationPs, name });

test("which of two events came first, as far as clocks can tell", () => {
  const one = [["/host:CPU", [track("main", 5)]]] as [string, ReturnType<typeof track>[]][];
  const model = new Model(catalogue({ a: one, b: one, c: one }, { a: 1, b: 2 })); // bounds in ns; that of c is not known
  expect(order(model, event(0, 5000), event(0, 2000))).toBe("3 ns between their starts, on one clock");
  expect(order(model, event(0, 5000), event(1, 2000))).toBe("not ordered: bounds overlap (3 ns apart, ±3 ns)");
  expect(order(model, event(0, 5001), event(1, 2000))).toBe("b began 3.001 ns ±3 ns before a");
  expect(order(model, event(0, 2000), event(1, 9000))).toBe("a began 7 ns ±3 ns before b");
  expect(order(model, event(0, 0), event(2, 1e12))).toBe("not ordered: a host's clock is not calibrated");
});

test("sums of what is selected", () => {
  expect(sumsOf([event(0, 0, 30, "f"), event(0, 50, 5, "g"), event(1, 9, 10, "f"), event(0, 70, 20, "f")]).map((n) => [n.name, n.count, n.total_ps, n.min_ps, n.max_ps]))
    .toEqual([["f", 3, "60", "10", "30"], ["g", 1, "5", "5", "5"]]);
  expect(sumsOf([])).toEqual([]);
});

const box = (...names: [string, number, string][]): SelectionDoc => ({ count: 0, total_ps: "0", self_ps: "0", different: names.length, names: names.map(([name, count, total_ps]): Sum => ({ name, count, total_ps })) });

test("what changed between two boxes, the largest change first, whether more or less", () => {
  expect(changes(box(["same", 1, "50"], ["less", 9, "100"], ["gone", 2, "30"]), box(["more", 4, "20"], ["same", 2, "50"], ["less", 3, "10"]))).toEqual([
    { name: "less", from: 100, to: 10, counts: [9, 3] }, { name: "gone", from: 30, to: 0, counts: [2, 0] }, { name: "more", from: 0, to: 20, counts: [0, 4] }, { name: "same", from: 50, to: 50, counts: [1, 2] }]);
});

test("sums as CSV", () => {
  expect(csv([{ name: 'f<"a,b">', count: 2, total_ps: "60", self_ps: "50", min_ps: "10", max_ps: "50" }, { name: "g", count: 1, total_ps: "5" }]))
    .toBe('name,count,total_ps,self_ps,min_ps,max_ps\n"f<""a,b"">",2,60,50,10,50\n"g",1,5,,,');
});
