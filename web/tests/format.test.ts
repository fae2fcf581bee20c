// SPDX-License-Identifier: Apache-2.0
import { afterEach, expect, test, vi } from "vitest";
import { ago, bytes, count, exact, plural, share, span, time } from "../src/format";

afterEach(() => { vi.useRealTimers(); });

test("bytes have a unit that suits them", () => {
  expect([0, 999, 1000, 1_234_567, 999_949_999, 1e9, 12_345_678_901].map(bytes)).toEqual(["0 B", "999 B", "1.0 kB", "1.2 MB", "999.9 MB", "1.00 GB", "12.35 GB"]);
});

test("nanoseconds have a unit that suits them, below zero, too", () => {
  expect([999, 1000, -1500, 2_500_000, 999_900_000, 1e9, -61_234_567_890].map(time)).toEqual(["999 ns", "1.0 µs", "-1.5 µs", "2.5 ms", "999.9 ms", "1.000 s", "-61.235 s"]);
});

test("a span has six digits at most, and no zeros behind them", () => {
  expect([0, 1, 999, 1000, 1_234_567, 20e9, -20e9, 1.5e12, 3_600e12, 0.5].map(span))
    .toEqual(["0 s", "1 ps", "999 ps", "1 ns", "1.23457 µs", "20 ms", "-20 ms", "1.5 s", "3600 s", "0.5 ps"]);
});

test("an exact time loses no picosecond", () => {
  expect([0n, 7n, 1_000_000n, 1_050_000n, 1_234_567_891n, -5n, -1_500n].map(exact)).toEqual(["0 ps", "7 ps", "1 µs", "1.05 µs", "1.234567891 ms", "−5 ps", "−1.5 ns"]);
  expect(exact(2n ** 60n + 1n)).toBe("1,152,921.504606846977 s"); // beyond what a double holds
});

test("counts, shares and plurals", () => {
  expect([0, 1234567].map(count)).toEqual(["0", "1,234,567"]);
  expect([share(1, 8), share(2, 3), share(0, 0)]).toEqual(["12.5 %", "66.7 %", "0.0 %"]);
  expect([plural(0, "event"), plural(1, "event"), plural(1200, "event"), plural(2, "match", "matches"), plural(1, "match", "matches")])
    .toEqual(["0 events", "1 event", "1,200 events", "2 matches", "1 match"]);
});

test("how long ago something was", () => {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 31, 12, 0, 0) });
  const at = (...t: [number, number, number, number]): string => ago(new Date(Date.UTC(2026, 0, ...t)));
  expect([at(31, 12, 0, 0), at(31, 11, 59, 31), at(31, 11, 55, 0), at(31, 9, 0, 0), at(30, 12, 0, 0), at(24, 12, 0, 0), at(31, 14, 0, 0)])
    .toEqual(["now", "29 seconds ago", "5 minutes ago", "3 hours ago", "yesterday", "7 days ago", "in 2 hours"]);
});
