// SPDX-License-Identifier: Apache-2.0

export const bytes = (n: number): string =>
  n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(2)} GB`;

export const time = (ns: number): string =>
  Math.abs(ns) < 1e3 ? `${ns} ns` : Math.abs(ns) < 1e6 ? `${(ns / 1e3).toFixed(1)} µs` : Math.abs(ns) < 1e9 ? `${(ns / 1e6).toFixed(1)} ms` : `${(ns / 1e9).toFixed(3)} s`;

const units: [number, string][] = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];

/** Picoseconds with a unit that suits them, at most six digits. */
export function span(ps: number): string {
  const size = Math.abs(ps);
  if (!size) return "0 s";
  const [unit, name] = units.find(([u]) => size >= u) ?? units[4];
  return `${Number((ps / unit).toPrecision(6))} ${name}`;
}

/** The same, exact: "1,234.567891 µs". */
export function exact(ps: bigint): string {
  const size = ps < 0n ? -ps : ps;
  const [unit, name] = units.find(([u]) => size >= BigInt(u)) ?? units[4];
  const digits = Math.log10(unit);
  const whole = (size / BigInt(unit)).toLocaleString("en");
  const rest = digits ? (size % BigInt(unit)).toString().padStart(digits, "0").replace(/0+$/, "") : "";
  return `${ps < 0n ? "−" : ""}${whole}${rest ? `.${rest}` : ""} ${name}`;
}

export const count = (n: number): string => n.toLocaleString("en");

/** "12.3 %" */
export const share = (part: number, whole: number): string => `${(100 * part / Math.max(whole, 1)).toFixed(1)} %`;

export const plural = (n: number, word: string, several = `${word}s`): string => `${count(n)} ${n === 1 ? word : several}`;

/** "5 minutes ago" */
export function ago(at: Date): string {
  const s = (Date.now() - at.getTime()) / 1000, [n, unit] = ([[86400, "day"], [3600, "hour"], [60, "minute"]] as [number, "day" | "hour" | "minute"][]).find(([size]) => Math.abs(s) >= size) ?? [1, "second" as const];
  return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-Math.round(s / n), unit);
}
