// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { addressOf, placesOf, restore, twoNumbers } from "../../src/timeline/address";
import type { View } from "../../src/timeline/view";

/* As much of a view as an address is made of. */
function view(over: object = {}, model: object = {}, asked: object = {}) {
  const v = {
    scene: { t0: 0, t1: 10, y: 0, selected: [] as object[], marks: [] as object[], ...over },
    model: { doc: { session: "S1" }, pinned: new Set<string>(), flipped: new Set<string>(), filter: "", ...model },
    flows: { on: false }, wanted: "", flags: { pattern: false, case: false },
    searchFlags: () => v.flags,
    setFilter: (text: string) => { v.model.filter = text; },
    setSearchFlags: (to: { pattern: boolean; case: boolean }) => { v.flags = to; },
    setSearch: (text: string) => { v.wanted = text; },
    ...asked,
  };
  return v as typeof v & View;
}

test("two numbers, the second one larger", () => {
  expect(["0_1000", "-5_5", "1.5_2"].map(twoNumbers)).toEqual([[0, 1000], [-5, 5], [1.5, 2]]);
  expect(["5_5", "5_4", "5", "", "_", "a_5", "5_a", "NaN_1"].map(twoNumbers)).toEqual(Array(8).fill(null));
});

test("an address has what differs from a session that was just opened", () => {
  expect(addressOf(view())).toBe("#/s/S1?t=0_10");
});

test("an address has all that is seen", () => {
  const e = { row: 0, startPs: 0, durationPs: 0, name: "" };
  const v = view({ t0: 1000.4, t1: 2000.6, y: 12.3, selected: [{ file: 0, track: 3, event: 7, ...e }, { file: 1, track: 0, event: 2, ...e }], marks: [{ fromPs: 1.2, toPs: 9.7 }, { fromPs: -4, toPs: 4 }] },
    { pinned: new Set(["0.3", "1.2"]), flipped: new Set(["p0.3", "hhost-a"]), filter: "gpu/0" }, { wanted: "a&b c", flags: { pattern: true, case: true }, flows: { on: true } });
  expect(addressOf(v)).toBe("#/s/S1?t=1000_2001&y=12&sel=0.3.7_1.0.2&q=a%26b+c&pattern=1&case=1&pin=0.3_1.2&only=gpu%2F0&open=p0.3%7Ehhost-a&m=1_10%7E-4_4&flow=1");
});

test("an address has fifty of the selected events", () => {
  const v = view({ selected: Array.from({ length: 60 }, (_, event) => ({ file: 0, track: 1, event })) }), places = placesOf(new URLSearchParams(addressOf(v).split("?")[1]));
  expect(places.length).toBe(50);
  expect(places[49]).toEqual({ file: 0, track: 1, event: 49 });
});

test("what is no event is left out of the selection", () => {
  const of = (sel: string): object[] => placesOf(new URLSearchParams({ sel }));
  expect(of("0.3.7_1.0.2")).toEqual([{ file: 0, track: 3, event: 7 }, { file: 1, track: 0, event: 2 }]);
  expect(of("0.3_x.1.2_1.2.3.4_5.6.7_")).toEqual([{ file: 5, track: 6, event: 7 }]);
  expect(placesOf(new URLSearchParams())).toEqual([]);
});

test("an address is restored, whatever was seen before", () => {
  const v = view({ t0: 1, t1: 2, y: 99, marks: [{ fromPs: 3, toPs: 4 }] }, { pinned: new Set(["9.9"]), flipped: new Set(["hold"]), filter: "old" }, { wanted: "old", flags: { pattern: true, case: false } });
  restore(v, new URLSearchParams("t=1000_2001&y=12&q=a%26b+c&case=1&pin=0.3_bad_1.2_1.x&only=gpu%2F0&open=p0.3~hhost-a&m=1_10~bad~4_4~-4_4&flow=1"));
  expect(v.scene).toMatchObject({ t0: 1000, t1: 2001, y: 12, marks: [{ fromPs: 1, toPs: 10 }, { fromPs: -4, toPs: 4 }] });
  expect([...v.model.pinned]).toEqual(["0.3", "1.2"]);
  expect([...v.model.flipped]).toEqual(["p0.3", "hhost-a"]);
  expect([v.model.filter, v.wanted, v.flows.on]).toEqual(["gpu/0", "a&b c", true]);
  expect(v.flags).toEqual({ pattern: false, case: true });
});

test("an address without anything leaves the window, and nothing else", () => {
  const v = view({ t0: 1, t1: 2, y: 99, marks: [{ fromPs: 3, toPs: 4 }] }, { pinned: new Set(["9.9"]), flipped: new Set(["hold"]), filter: "old" }, { wanted: "old", flows: { on: true } });
  restore(v, new URLSearchParams("y=x&t=5_4"));
  expect(v.scene).toMatchObject({ t0: 1, t1: 2, y: 0, marks: [] });
  expect([v.model.pinned.size, v.model.flipped.size, v.model.filter, v.wanted, v.flows.on]).toEqual([0, 0, "", "", false]);
});
