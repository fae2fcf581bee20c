// SPDX-License-Identifier: Apache-2.0
// Two flame graphs as one: what became more and what less, call by call, as shares of each side's time.
import { el } from "./dom";
import { share, span } from "./format";
import { boxesOf, type FlameDoc } from "./timeline/analysis";
import { arrange, type Box, drawFlame } from "./timeline/flame";

export interface Pair { name: string; parent: number; total: number; own: number; ns: [number, number] }

/** Boxes with the same callers are one. It is as wide as the mean of both shares: so what a caller has adds up, and nothing vanishes. */
export function paired(docs: [FlameDoc, FlameDoc]): Pair[] {
  const out: Pair[] = [{ name: "all", parent: -1, total: 0, own: 0, ns: [0, 0] }], known = new Map<string, number>();
  docs.forEach((doc, side) => {
    const places: number[] = [], add = (at: number, b: Box): void => {
      const part = 1 / (2 * Math.max(doc.total_ns, 1));
      out[at].ns[side] += b.total;
      out[at].total += b.total * part;
      out[at].own += b.own * part;
    };
    boxesOf(doc).forEach((b, i) => {
      const parent = i ? places[b.parent] : -1, key = `${parent} ${b.name}`;
      let at = i ? known.get(key) : 0;
      if (at === undefined) {
        known.set(key, at = out.length);
        out.push({ name: b.name, parent, total: 0, own: 0, ns: [0, 0] });
      }
      places.push(at);
      add(at, b);
    });
  });
  return out;
}

const signed = (points: number): string => `${points < 0 ? "−" : "+"}${Math.abs(points).toFixed(1)} %`;
const STRONG = 60; // percent of the colour at most: text lies on it

/* The more of a box is gone or new, the stronger its colour. */
function colorOf(a: number, b: number): string {
  const of = Math.round(STRONG * Math.abs(b - a) / Math.max(a + b, 1e-12));
  return `color-mix(in srgb, var(--${b > a ? "more" : "less"}) ${of}%, var(--box))`;
}

/** By name of a function, in percent of each side's time. */
export function flameDiff(docs: [FlameDoc, FlameDoc], find: string): HTMLElement {
  if (!docs.every((d) => d.total_ns)) return el("p", { textContent: `${docs[0].total_ns ? "B" : docs[1].total_ns ? "A" : "Neither A nor B"} has no stacks in this time. The tracers cpu and python sample them.` });
  const pairs = paired(docs), part = (i: number, side: 0 | 1): number => pairs[i].ns[side] / docs[side].total_ns, points = (i: number): number => 100 * (part(i, 1) - part(i, 0));
  const stage = el("div", { className: "flame" }), text = find.toLowerCase(), side = (i: number, k: 0 | 1): string => `${"AB"[k]} ${span(pairs[i].ns[k] * 1000)}, ${share(pairs[i].ns[k], docs[k].total_ns)}`;
  drawFlame(stage, arrange(pairs), 0, {
    label: (b, i) => (Math.abs(points(i)) < 0.05 ? b.name : `${signed(points(i))} ${b.name}`), title: (b, i) => `${b.name}: ${side(i, 0)}; ${side(i, 1)}; ${signed(points(i))}`,
    color: (_, i) => colorOf(part(i, 0), part(i, 1)), find: find ? (name) => name.toLowerCase().includes(text) : null,
  });
  return el("div", { className: "flames" }, el("p", {}, `A has ${span(docs[0].total_ns * 1000)} of all threads, B ${span(docs[1].total_ns * 1000)}. Each box is as wide as the mean of its shares of both; `,
    el("span", { className: "more", textContent: "+ is more in B" }), ", ", el("span", { className: "less", textContent: "− is less" }), ", in percent of all of its side. A click zooms."), stage);
}
