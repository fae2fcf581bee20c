// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { blend, colorOf, mix, pack } from "../../src/timeline/color";

test("colours are packed as a canvas has them, the red byte lowest", () => {
  expect(pack([1, 2, 3])).toBe(0xff030201);
  expect(pack([255, 255, 255])).toBe(0xffffffff);
});

test("a mix has a share of the first colour", () => {
  expect(mix([100, 0, 200], [0, 100, 0], 0.25)).toEqual([25, 75, 50]);
});

test("packed colours blend channel by channel", () => {
  expect([blend(0xff804020, 0xff000000, 128), blend(0xff804020, 0xff000000, 256), blend(0xff804020, 0xff102030, 0), blend(0xffffffff, 0xff000000, 64)]).toEqual([0xff402010, 0xff804020, 0xff102030, 0xff3f3f3f]);
});

/* Degrees on the wheel of colours. */
function hue(packed: number): number {
  const [r, g, b] = [packed & 255, packed >>> 8 & 255, packed >>> 16 & 255], most = Math.max(r, g, b), range = most - Math.min(r, g, b);
  const sixth = most === r ? (g - b) / range : most === g ? 2 + (b - r) / range : 4 + (r - g) / range;
  return (60 * sixth + 360) % 360;
}

test("what computes, communicates and copies has a range of colours each, with a degree for rounding", () => {
  const within = (names: string[], device: boolean, from: number, to: number): void => {
    for (const n of names) for (const dark of [false, true]) { const h = hue(colorOf(n, device, dark)); expect(h, n).toBeGreaterThan(from - 1.5); expect(h, n).toBeLessThan(to + 1.5); }
  };
  within(["all-reduce.1", "AllGather", "ncclKernel", "reduce-scatter"], true, 295, 350);
  within(["MemcpyH2D", "infeed", "copy.3"], true, 40, 70);
  within(["fusion.1", "dot", "convolution"], true, 195, 275);
  within(["main", "train", "load batch"], false, 95, 180);
});

test("names that differ in the number at their end look alike; what waits is grey", () => {
  expect(colorOf("fusion.12", true, false)).toBe(colorOf("fusion.3", true, false));
  expect(colorOf("fusion", true, false)).toBe(colorOf("fusion.3", true, false));
  expect(colorOf("fusion", true, false)).not.toBe(colorOf("fusion", true, true));
  const grey = colorOf("futex_wait 3", false, false), parts = [grey & 255, grey >>> 8 & 255, grey >>> 16 & 255];
  expect(Math.max(...parts) - Math.min(...parts)).toBeLessThan(12);
});
