// SPDX-License-Identifier: Apache-2.0
// docs/selectors.md, as far as it is about hosts and labels.
import { expect, test } from "vitest";
import { current, selected } from "../../src/capture/selector";
import type { Host } from "../../src/live";

const host = (name: string, labels?: Record<string, string>): Host => ({ host: name, state: "connected", labels });
const fleet = [
  host("tpu-1", { zone: "a", rack: "r7" }), host("tpu-2", { zone: "b", rack: "r7" }), host("tpu-13", { zone: "a" }),
  host("cpu-1", { zone: "c", "topology.example/slice": "s.1" }), host("cpu.2"),
];
const names = (text: string, of = fleet): string[] | null => selected(text, of)?.map((h) => h.host) ?? null;

test.each<[string, string[]]>([
  ["all", ["tpu-1", "tpu-2", "tpu-13", "cpu-1", "cpu.2"]],
  [" all ", ["tpu-1", "tpu-2", "tpu-13", "cpu-1", "cpu.2"]],
  ["tpu-1", ["tpu-1"]],
  ["tpu-1,cpu.2", ["tpu-1", "cpu.2"]], // one name is enough
  ["tpu-*", ["tpu-1", "tpu-2", "tpu-13"]],
  ["tpu-?", ["tpu-1", "tpu-2"]],
  ["cpu?2", ["cpu.2"]],
  ["cpu.?", ["cpu.2"]], // a point is one
  ["pu-1", []], // all of the name
  ["zone=a", ["tpu-1", "tpu-13"]],
  ["zone=a,rack=r7", ["tpu-1"]], // all other terms
  ["zone = a", ["tpu-1", "tpu-13"]],
  ["zone!=a", ["tpu-2", "cpu-1", "cpu.2"]], // no label is not this value
  ["!zone=a", ["tpu-2", "cpu-1", "cpu.2"]],
  ["!zone!=a", ["tpu-1", "tpu-13"]],
  ["zone in (a,b)", ["tpu-1", "tpu-2", "tpu-13"]],
  ["zone in (a, b),rack notin (r6, r8)", ["tpu-1", "tpu-2", "tpu-13"]],
  ["zone notin (a,c)", ["tpu-2", "cpu.2"]],
  ["!zone notin (a,c)", ["tpu-1", "tpu-13", "cpu-1"]],
  ["zone=*", ["tpu-1", "tpu-2", "tpu-13", "cpu-1"]],
  ["!zone=*", ["cpu.2"]],
  ["tpu-*,!tpu-13,!zone=b", ["tpu-1"]],
  ["!tpu-*", ["cpu-1", "cpu.2"]],
  ["! tpu-1,zone=a", ["tpu-13"]],
  ["node=tpu-2", ["tpu-2"]], // a host without that label is its own node
  ["topology.example/slice=s.?", ["cpu-1"]],
])("%s", (text, hosts) => { expect(names(text)).toEqual(hosts); });

test("what is not finished, or is about pods, the page does not know", () => {
  expect(["", "tpu-1,", "zone in (a", "zone in a", "!", "job=train", "pod=web-*,zone=a", "tpu 1"].map((t) => names(t))).toEqual(Array(8).fill(null));
});

test("a label that is called as a key of pods is a label", () => {
  const of = [host("a", { job: "train" }), host("b", { job: "serve" }), host("c")];
  expect(names("job=train", of)).toEqual(["a"]);
  expect(names("namespace=ml", of)).toBeNull();
});

test("ranks are numbers, and ranges of them", () => {
  const of = ["0", "7", "8", "12", "012", "x", ""].map((rank, i) => host(`h${i}`, { rank })).concat(host("none"));
  expect(names("rank=0-7", of)).toEqual(["h0", "h1"]);
  expect(names("rank=12", of)).toEqual(["h3", "h4"]);
  expect(names("rank in (0-7, 12)", of)).toEqual(["h0", "h1", "h3", "h4"]);
  expect(names("rank notin (0-7,12)", of)).toEqual(["h2", "h5", "h6", "none"]);
  expect(["rank=", "rank=0-", "rank=7-0", "rank=*", "rank in (1,x)", "rank=1234567890"].map((t) => names(t, of))).toEqual(Array(6).fill(null)); // the aggregator refuses them
  expect(names("rank=0-7")).toBeNull(); // of pods, where no host has that label
});

test("the term at the cursor", () => {
  expect(current("tpu-1, zone=a", 3)).toEqual({ from: 0, word: "tpu" });
  expect(current("tpu-1, zone=a", 12)).toEqual({ from: 7, word: "zone=" });
  expect(current("tpu-1,", 6)).toEqual({ from: 6, word: "" });
  expect(current("tpu-1,  x", 7)).toEqual({ from: 7, word: "" }); // in the blanks before the word
});
