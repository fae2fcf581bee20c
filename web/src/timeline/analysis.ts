// SPDX-License-Identifier: Apache-2.0
// What a selection adds up to beyond a table: a flame graph, how long the events of a name take, which host is late. Numbers only:
// analysis_panel.ts shows them.
import { share, span } from "../format";
import { arrange, type Box } from "./flame";
import type { Model } from "./model";
import type { Jump } from "./sums";

/* Answers of docs/viewer.md. */
export interface FlameDoc {
  total_ns: number; stacks: number; nodes: [number, number, number, number, number][]; names: string[]; left_out: number;
  top: { name: string; self_ns: number; total_ns: number; count: number }[];
}
export interface Longest extends Jump { start_ps: string; duration_ps: string }
export interface DurationsDoc {
  name: string; count: number; total_ps: string; min_ps: string; p50_ps: string; p90_ps: string; p99_ps: string; max_ps: string;
  bins: [number, number, number][]; longest: Longest[];
  hosts: { host: string; count: number; total_ps: string; max_ps: string; starts_ps: number[]; first: Longest }[];
}

const SAMPLED = /^\/host:CPU( samples| python|$| \[)/; // planes with stacks

/** The tracks of the session that stacks were sampled on, as a question wants them; at most 700. */
export function sampledTracks(model: Pick<Model, "doc">): string {
  const out: [number, number][] = [];
  for (const host of model.doc.hosts) for (const f of host.files) for (const p of f.planes) {
    if (SAMPLED.test(p.name)) p.tracks.forEach((t, i) => { if (!t.counter && t.events && t.name !== "Steps") out.push([f.file, p.first_track + i]); });
  }
  return out.sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, 700).map((t) => t.join(".")).join(",");
}

/* ---- the flame graph ---- */

/** Its nodes as boxes, behind one for all. */
export const boxesOf = (doc: FlameDoc): Box[] => arrange([{ name: "all", parent: -1, total: doc.total_ns, own: 0 }, ...doc.nodes.map(([parent, name, total, own]) => ({ name: doc.names[name], parent: parent + 1, total, own }))]);

/** How much of the time is spent in functions that are searched for, and in what they call; a caller counts once with all in it. */
export function found(all: Box[], find: (name: string) => boolean): string {
  const is = all.map((b, i) => i > 0 && find(b.name)), within: boolean[] = [];
  let total = 0, own = 0;
  all.forEach((b, i) => {
    within.push(i > 0 && (is[b.parent] || within[b.parent]));
    if (is[i]) own += b.own;
    if (is[i] && !within[i]) total += b.total;
  });
  return `${share(total, all[0].total)}, ${share(own, all[0].total)} its own`;
}

/* ---- durations of a name ---- */

/** The bins of a histogram over the logarithm of the length, in percent of its width and height. */
export function barsOf(bins: DurationsDoc["bins"]): { left: number; width: number; height: number }[] {
  if (!bins.length) return [];
  const low = Math.log2(Math.max(bins[0][0], 1)), high = Math.log2(Math.max(bins.at(-1)![1], 2)), most = Math.max(1, ...bins.map((b) => b[2]));
  const x = (ps: number): number => 100 * (Math.log2(Math.max(ps, 1)) - low) / Math.max(high - low, 1e-9);
  return bins.map(([from, to, n]) => ({ left: x(from), width: Math.max(x(to) - x(from) - 0.3, 0.4), height: Math.max(2, 100 * n / most) }));
}

const middle = (list: number[]): number => list.slice().sort((a, b) => a - b)[(list.length - 1) >> 1];
const EDGE = 8; // events that a host may have more than another one at the window's begin

/* How much later one host's events are than another's, by the median. Which belong together is not known where a window cuts
 * some off: the pairing with the least difference is taken. */
function delay(starts: number[], of: number[]): number | null {
  let best: number | null = null;
  for (let shift = -EDGE; shift <= EDGE; shift++) {
    const pairs = starts.flatMap((s, i) => (of[i + shift] === undefined ? [] : [s - of[i + shift]]));
    if (pairs.length * 2 < Math.min(starts.length, of.length)) continue;
    const d = middle(pairs);
    if (best === null || Math.abs(d) < Math.abs(best)) best = d;
  }
  return best;
}

/** How much later than the middle host each host's events begin. */
export function lateness(doc: Pick<DurationsDoc, "hosts">): number[] | null {
  if (doc.hosts.length < 2) return null;
  const delays = doc.hosts.map((h) => delay(h.starts_ps, doc.hosts[0].starts_ps));
  if (delays.some((d) => d === null)) return null;
  const least = middle(delays as number[]);
  return (delays as number[]).map((d) => d - least);
}

/** The same in words: what lies within the bounds of both clocks is no lateness. */
export function lateText(latePs: number, boundPs: number): string {
  return !latePs ? "the middle host" : Math.abs(latePs) <= boundPs ? "within the clocks' bounds" : `${span(Math.abs(latePs))} ${latePs > 0 ? "later" : "earlier"}`;
}

export interface LateHost { at: number /* in the answer */; latePs: number | null; boundPs: number /* of its clock and the middle host's */ }

/** The hosts, the latest one first; by their longest event where it is not known which ones belong together. */
export function byLateness(model: Pick<Model, "doc">, doc: Pick<DurationsDoc, "hosts">): LateHost[] {
  const late = lateness(doc), clock = (i: number): number => (model.doc.hosts.find((h) => h.host === doc.hosts[i]?.host)?.clock_bound_ns ?? 0) * 1000, ofMiddle = clock(late?.indexOf(0) ?? -1);
  return doc.hosts.map((_, at): LateHost => ({ at, latePs: late && late[at], boundPs: clock(at) + ofMiddle }))
    .sort((a, b) => (late ? b.latePs! - a.latePs! : Number(doc.hosts[b.at].max_ps) - Number(doc.hosts[a.at].max_ps)));
}
