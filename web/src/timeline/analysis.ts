// SPDX-License-Identifier: Apache-2.0
// What a selection adds up to beyond a table: a flame graph, how long the events of a name take, which host is late.
import { el } from "../dom";
import { count, plural, share, span } from "../format";
import { colorOf } from "./color";
import { isDark } from "../theme";
import { arrange, type Box, drawFlame } from "./flame";
import { matcher, type Wanted } from "./match";
import type { Model } from "./model";
import { type Jump, nameOf, show } from "./panel";

/* Answers of docs/viewer.md. */
export interface FlameDoc {
  total_ns: number; stacks: number; nodes: [number, number, number, number, number][]; names: string[]; left_out: number;
  top: { name: string; self_ns: number; total_ns: number; count: number }[];
}
interface Longest extends Jump { start_ps: string; duration_ps: string }
export interface DurationsDoc {
  name: string; count: number; total_ps: string; min_ps: string; p50_ps: string; p90_ps: string; p99_ps: string; max_ps: string;
  bins: [number, number, number][]; longest: Longest[];
  hosts: { host: string; count: number; total_ps: string; max_ps: string; starts_ps: number[]; first: Longest }[];
}

const SAMPLED = /^\/host:CPU( samples| python|$| \[)/; // planes with stacks
const FEW = 200;

const css = (name: string): string => `#${(colorOf(name, false, isDark()) & 0xffffff).toString(16).padStart(6, "0").replace(/(..)(..)(..)/, "$3$2$1")}`;

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

function topTable(doc: FlameDoc): HTMLElement {
  const bar = (ns: number): Node => el("td", { className: "num" }, el("meter", { min: 0, max: Math.max(doc.total_ns, 1), value: ns }), ` ${share(ns, doc.total_ns)}`);
  return el("table", { className: "sums top" }, el("caption", { textContent: "Top functions" }),
    el("thead", {}, el("tr", {}, ...["Function", "Own", "Total"].map((t, i) => el("th", { scope: "col", className: i ? "num" : "", textContent: t })))),
    el("tbody", {}, ...doc.top.slice(0, 100).map((t) => el("tr", {}, el("td", { className: "name", textContent: t.name }), bar(t.self_ns), bar(t.total_ns)))));
}

/* How much of the time is spent in functions that are searched for, and in what they call; a caller counts once with all in it. */
function found(all: Box[], find: (name: string) => boolean): string {
  const is = all.map((b, i) => i > 0 && find(b.name)), within: boolean[] = [];
  let total = 0, own = 0;
  all.forEach((b, i) => {
    within.push(i > 0 && (is[b.parent] || within[b.parent]));
    if (is[i]) own += b.own;
    if (is[i] && !within[i]) total += b.total;
  });
  return `${share(total, all[0].total)}, ${share(own, all[0].total)} its own`;
}

export function showFlame(doc: FlameDoc, fromPs: number, toPs: number, wanted: Wanted | null, close: () => void): void {
  const stage = el("div", { className: "flame" }), all = boxesOf(doc), find = wanted && matcher(wanted);
  const few = doc.stacks < FEW ? `; few stacks: ± ${Math.round(100 / Math.sqrt(Math.max(doc.stacks, 1)))} %` : "";
  drawFlame(stage, all, 0, { label: (b) => b.name, title: (b) => `${b.name}: ${span(b.total * 1000)}, ${share(b.total, all[0].total)}; own ${span(b.own * 1000)}`, color: (b) => css(b.name), find });
  show("Flame graph", close,
    el("p", { textContent: doc.total_ns ? `${span(toPs - fromPs)} of the session, ${span(doc.total_ns * 1000)} of all threads, ${plural(doc.stacks, "stack")}${few}${find ? `; “${wanted.text}”: ${found(all, find)}` : ""}. A click zooms.`
      : "No stacks were sampled in this time. The tracers cpu and python sample them." }),
    ...(doc.total_ns ? [el("div", { className: "columns flames" }, stage, topTable(doc))] : []));
}

/* ---- durations of a name ---- */

function histogram(doc: DurationsDoc): HTMLElement {
  const low = doc.bins.length ? Math.log2(Math.max(doc.bins[0][0], 1)) : 0, high = doc.bins.length ? Math.log2(Math.max(doc.bins.at(-1)![1], 2)) : 1;
  const most = Math.max(1, ...doc.bins.map((b) => b[2])), x = (ps: number): number => 100 * (Math.log2(Math.max(ps, 1)) - low) / Math.max(high - low, 1e-9);
  return el("div", { className: "histogram", role: "img", ariaLabel: `${plural(doc.bins.length, "bin")} from ${span(Number(doc.min_ps))} to ${span(Number(doc.max_ps))}` },
    ...doc.bins.map(([from, to, n]) => {
      const bar = el("span", { title: `${count(n)} from ${span(from)} to ${span(to)}` });
      Object.assign(bar.style, { left: `${x(from)}%`, width: `${Math.max(x(to) - x(from) - 0.3, 0.4)}%`, height: `${Math.max(2, 100 * n / most)}%` });
      return bar;
    }),
    el("small", { textContent: span(Number(doc.min_ps)) }), el("small", { className: "end", textContent: span(Number(doc.max_ps)) }));
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

/* How much later than the middle host each host's events begin. */
function lateness(doc: DurationsDoc): number[] | null {
  if (doc.hosts.length < 2) return null;
  const delays = doc.hosts.map((h) => delay(h.starts_ps, doc.hosts[0].starts_ps));
  if (delays.some((d) => d === null)) return null;
  const least = middle(delays as number[]);
  return (delays as number[]).map((d) => d - least);
}

export function showDurations(model: Model, doc: DurationsDoc, jump: (to: Jump) => void, close: () => void): void {
  const late = lateness(doc), clock = (i: number): number => (model.doc.hosts.find((h) => h.host === doc.hosts[i]?.host)?.clock_bound_ns ?? 0) * 1000;
  const bound = (i: number): number => clock(i) + clock(late?.indexOf(0) ?? -1); // of its clock, and of the middle host's
  const order = doc.hosts.map((_, i) => i).sort((a, b) => (late ? late[b] - late[a] : Number(doc.hosts[b].max_ps) - Number(doc.hosts[a].max_ps)));
  const link = (to: Jump, text: string): HTMLButtonElement => el("button", { className: "link", textContent: text, onclick: () => jump(to) });
  const lateText = (i: number): string => !late ? "" : !late[i] ? "the middle host" : Math.abs(late[i]) <= bound(i) ? "within the clocks' bounds" : `${span(Math.abs(late[i]))} ${late[i] > 0 ? "later" : "earlier"}`;
  const hosts = el("table", { className: "sums", id: "v-late" }, el("thead", {}, el("tr", {}, ...["Host", ...(late ? ["Begins, by the median"] : []), "Count", "Mean", "Longest"].map((t, i) => el("th", { scope: "col", className: i ? "num" : "", textContent: t })))),
    el("tbody", {}, ...order.map((i) => {
      const h = doc.hosts[i];
      return el("tr", {}, el("td", {}, link(h.first, h.host)), ...(late ? [el("td", { className: late[i] > bound(i) ? "num warn" : "num", textContent: lateText(i) })] : []),
        el("td", { className: "num", textContent: count(h.count) }), el("td", { className: "num", textContent: span(Number(h.total_ps) / h.count) }), el("td", { className: "num", textContent: span(Number(h.max_ps)) }));
    })));
  show("All of this name", close, nameOf(doc.name),
    el("p", { textContent: `${plural(doc.count, "event")}, ${span(Number(doc.total_ps))} in all, mean ${span(Number(doc.total_ps) / Math.max(doc.count, 1))}, median ${span(Number(doc.p50_ps))}, 90 % ${span(Number(doc.p90_ps))}, 99 % ${span(Number(doc.p99_ps))}` }),
    el("div", { className: "columns" }, el("div", {}, histogram(doc), el("p", {}, "longest: ", ...doc.longest.map((l) => link(l, `${span(Number(l.duration_ps))} `)))), hosts));
  hosts.querySelector("button")?.focus();
}
