// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { matcher } from "../../src/timeline/match";

const names = ["all-reduce.1", "All-Reduce", "fusion.12", "a.b", "axb", ""];
const found = (text: string, pattern: boolean, withCase: boolean): string[] => names.filter(matcher({ text, pattern, case: withCase }));

test("a text is found anywhere in a name, in small letters and capitals unless these count", () => {
  expect(found("REDUCE", false, false)).toEqual(["all-reduce.1", "All-Reduce"]);
  expect(found("reduce", false, true)).toEqual(["all-reduce.1"]);
  expect(found("Reduce", false, true)).toEqual(["All-Reduce"]);
  expect(found("a.b", false, false)).toEqual(["a.b"]); // no pattern
});

test("a pattern", () => {
  expect(found("a.b", true, false)).toEqual(["a.b", "axb"]);
  expect(found("^all-.*[0-9]$", true, false)).toEqual(["all-reduce.1"]);
  expect(found("^all", true, false)).toEqual(["all-reduce.1", "All-Reduce"]);
  expect(found("^all", true, true)).toEqual(["all-reduce.1"]);
});

test("one that only the aggregator understands pales nothing", () => {
  expect(found("(", true, false)).toEqual(names);
  expect(found("[[:digit:]]$", true, false)).toEqual(names);
  expect(found("[a[.b.]]", true, true)).toEqual(names);
});
