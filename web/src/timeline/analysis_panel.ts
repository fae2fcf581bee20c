// SPDX-License-Identifier: Apache-2.0
// What analysis.ts reckons, as pictures and tables beside the timeline.
import { el } from "../dom";
import { count, plural, share, span } from "../format";
import { isDark } from "../theme";
import { barsOf, boxesOf, byLateness, type DurationsDoc, type FlameDoc, found, lateText } from "./analysis";
import { colorOf } from "./color";
import { drawFlame } from "./flame";
import { matcher, type Wanted } from "./match";
import type { Model } from "./model";
import { nameOf, show } from "./panel";
import type { Jump } from "./sums";

const FEW = 200;

const css = (name: string): string => `#${(colorOf(name, false, isDark()) & 0xffffff).toString(16).padStart(6, "0").replace(/(..)(..)(..)/, "$3$2$1")}`;

function topTable(doc: FlameDoc): HTMLElement {
  const bar = (ns: number): Node => el("td", { className: "num" }, el("meter", { min: 0, max: Math.max(doc.total_ns, 1), value: ns }), ` ${share(ns, doc.total_ns)}`);
  return el("table", { className: "sums top" }, el("caption", { textContent: "Top functions" }),
    el("thead", {}, el("tr", {}, ...["Function", "Own", "Total"].map((t, i) => el("th", { scope: "col", className: i ? "num" : "", textContent: t })))),
    el("tbody", {}, ...doc.top.slice(0, 100).map((t) => el("tr", {}, el("td", { className: "name", textContent: t.name }), bar(t.self_ns), bar(t.total_ns)))));
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

function histogram(doc: DurationsDoc): HTMLElement {
  const bars = barsOf(doc.bins);
  return el("div", { className: "histogram", role: "img", ariaLabel: `${plural(doc.bins.length, "bin")} from ${span(Number(doc.min_ps))} to ${span(Number(doc.max_ps))}` },
    ...doc.bins.map(([from, to, n], i) => {
      const bar = el("span", { title: `${count(n)} from ${span(from)} to ${span(to)}` }), { left, width, height } = bars[i];
      Object.assign(bar.style, { left: `${left}%`, width: `${width}%`, height: `${height}%` });
      return bar;
    }),
    el("small", { textContent: span(Number(doc.min_ps)) }), el("small", { className: "end", textContent: span(Number(doc.max_ps)) }));
}

export function showDurations(model: Model, doc: DurationsDoc, jump: (to: Jump) => void, close: () => void): void {
  const order = byLateness(model, doc), late = order.some((h) => h.latePs !== null);
  const link = (to: Jump, text: string): HTMLButtonElement => el("button", { className: "link", textContent: text, onclick: () => jump(to) });
  const hosts = el("table", { className: "sums", id: "v-late" }, el("thead", {}, el("tr", {}, ...["Host", ...(late ? ["Begins, by the median"] : []), "Count", "Mean", "Longest"].map((t, i) => el("th", { scope: "col", className: i ? "num" : "", textContent: t })))),
    el("tbody", {}, ...order.map(({ at, latePs, boundPs }) => {
      const h = doc.hosts[at];
      return el("tr", {}, el("td", {}, link(h.first, h.host)), ...(latePs === null ? [] : [el("td", { className: latePs > boundPs ? "num warn" : "num", textContent: lateText(latePs, boundPs) })]),
        el("td", { className: "num", textContent: count(h.count) }), el("td", { className: "num", textContent: span(Number(h.total_ps) / h.count) }), el("td", { className: "num", textContent: span(Number(h.max_ps)) }));
    })));
  show("All of this name", close, nameOf(doc.name),
    el("p", { textContent: `${plural(doc.count, "event")}, ${span(Number(doc.total_ps))} in all, mean ${span(Number(doc.total_ps) / Math.max(doc.count, 1))}, median ${span(Number(doc.p50_ps))}, 90 % ${span(Number(doc.p90_ps))}, 99 % ${span(Number(doc.p99_ps))}` }),
    el("div", { className: "columns" }, el("div", {}, histogram(doc), el("p", {}, "longest: ", ...doc.longest.map((l) => link(l, `${span(Number(l.duration_ps))} `)))), hosts));
  hosts.querySelector("button")?.focus();
}
