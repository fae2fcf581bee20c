// SPDX-License-Identifier: Apache-2.0
// Sums by name, of a box, a search or what is selected; what changed between two; which of two events came first.
import { span } from "../format";
import type { Model } from "./model";
import type { Selected } from "./scene";

export interface Jump { file: number; track: number; event: number }

/* Of docs/viewer.md. */
export interface Sum { name: string; count: number; total_ps: string; self_ps?: string; min_ps?: string; max_ps?: string }
export interface SelectionDoc { count: number; total_ps: string; self_ps: string; different: number; names: Sum[] }

/** Which of two events came first, as far as their hosts' clocks can tell. */
export function order(model: Pick<Model, "find">, a: Selected, b: Selected): string {
  const [first, second] = a.startPs <= b.startPs ? [a, b] : [b, a], by = second.startPs - first.startPs;
  const hosts = [first, second].map((e) => model.find(e.file, e.track)!.host);
  if (hosts[0] === hosts[1]) return `${span(by)} between their starts, on one clock`;
  if (hosts.some((h) => h.clock_bound_ns === null)) return "not ordered: a host's clock is not calibrated";
  const bound = hosts.reduce((sum, h) => sum + h.clock_bound_ns! * 1000, 0);
  return by <= bound ? `not ordered: bounds overlap (${span(by)} apart, ±${span(bound)})`
    : `${hosts[0].host} began ${span(by)} ±${span(bound)} before ${hosts[1].host}`;
}

/** Of the events that are selected one by one. */
export function sumsOf(list: Selected[]): Sum[] {
  const by = new Map<string, Sum & { min: number; max: number; total: number }>();
  for (const e of list) {
    const n = by.get(e.name) ?? { name: e.name, count: 0, total_ps: "0", total: 0, min: Infinity, max: 0 };
    by.set(e.name, { ...n, count: n.count + 1, total: n.total + e.durationPs, min: Math.min(n.min, e.durationPs), max: Math.max(n.max, e.durationPs) });
  }
  return [...by.values()].map((n) => ({ ...n, total_ps: String(n.total), min_ps: String(n.min), max_ps: String(n.max) }));
}

/** What changed from one box to another, the largest change first. */
export function changes(before: SelectionDoc, now: SelectionDoc): { name: string; from: number; to: number; counts: [number, number] }[] {
  const old = new Map(before.names.map((n) => [n.name, n])), names = new Set([...old.keys(), ...now.names.map((n) => n.name)]);
  return [...names].map((name) => {
    const a = old.get(name), b = now.names.find((n) => n.name === name);
    return { name, from: Number(a?.total_ps ?? 0), to: Number(b?.total_ps ?? 0), counts: [a?.count ?? 0, b?.count ?? 0] as [number, number] };
  }).sort((x, y) => Math.abs(y.to - y.from) - Math.abs(x.to - x.from));
}

export function csv(list: Sum[]): string {
  const quote = (s: string): string => `"${s.replaceAll("\"", "\"\"")}"`;
  return ["name,count,total_ps,self_ps,min_ps,max_ps", ...list.map((n) => [quote(n.name), n.count, n.total_ps, n.self_ps ?? "", n.min_ps ?? "", n.max_ps ?? ""].join(","))].join("\n");
}
