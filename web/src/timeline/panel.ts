// SPDX-License-Identifier: Apache-2.0
// What is known of what is selected, as text and tables: every number of the picture is here, too.
import { byId, copy, el } from "../dom";
import { count, exact, plural, share, span } from "../format";
import { graphAddress } from "../viewers";
import type { Model } from "./model";
import type { Selected } from "./scene";
import { changes, csv, type Jump, order, type SelectionDoc, type Sum, sumsOf } from "./sums";

/* Answers of docs/viewer.md. */
export interface EventDoc {
  name: string; display_name: string; row: number; start_ps: string; duration_ps: string; args: [string, string][];
  of_name: { count?: number; total_ps?: string; min_ps?: string; max_ps?: string };
  parents: { event: number; name: string }[];
  flow: { file: number; track: number; event: number; direction: number; start_ps: string }[];
}
export interface SearchDoc { events: number; matches: number; total_ps: string; different: number; names: Sum[]; tracks: [number, number, number][] }

const NAME_SHOWN = 400;

export function show(title: string, close: () => void, ...children: (Node | string)[]): void {
  const panel = byId("v-panel");
  panel.replaceChildren(el("div", { className: "head" }, el("h2", { textContent: title }),
    el("button", { className: "plain", textContent: "close", title: "Esc", onclick: close })), ...children);
  panel.hidden = false;
}

export function hide(): void { byId("v-panel").hidden = true; }

function pairs(rows: [string, Node | string][]): HTMLTableElement {
  return el("table", { className: "pairs" }, el("tbody", {}, ...rows.map(([k, v]) => el("tr", {}, el("th", { scope: "row", textContent: k }), el("td", {}, v)))));
}

/* A source location or a web address becomes a link, nothing else does. */
function value(text: string): Node | string {
  return /^https?:\/\/[^\s]+$/.test(text) ? el("a", { href: text, textContent: text, rel: "noreferrer noopener", target: "_blank" }) : text;
}

/** A long one only as far as it leaves room for the rest. */
export function nameOf(name: string): HTMLElement {
  const p = el("p", { className: "name", textContent: name.slice(0, NAME_SHOWN) || "(no name)" });
  if (name.length > NAME_SHOWN) p.append("… ", el("button", { className: "link", textContent: `all ${count(name.length)} characters`, onclick: () => { p.textContent = name; } }));
  return p;
}

function ofName(doc: EventDoc): string {
  const n = doc.of_name;
  if (!n.count) return "";
  return `${plural(n.count, "event")} on this track, ${span(Number(n.total_ps))} in all, mean ${span(Number(n.total_ps) / n.count)}, ` +
    `${span(Number(n.min_ps))} to ${span(Number(n.max_ps))}`;
}

/* Of an operation of XLA, where an XProf is known, also its place in the graph. */
function graphLink(model: Model, host: string, args: [string, string][]): Node {
  const of = new Map(args), op = of.get("hlo_op"), module = of.get("hlo_module"), out = el("span");
  if (op && module) void graphAddress(model.doc.session, model.doc.run, host, op, module).then((href) => {
    if (href) out.append(" ", el("a", { href, textContent: "its graph in XProf", target: "_blank", rel: "noopener" }));
  });
  return out;
}

export function showEvent(model: Model, e: Selected, doc: EventDoc, jump: (to: Jump) => void, all: () => void, close: () => void): void {
  const at = model.find(e.file, e.track)!, bound = at.host.clock_bound_ns;
  const link = (to: Jump, text: string): Node => el("button", { className: "link", textContent: text, onclick: () => jump(to) });
  const ends = doc.flow.filter((f) => f.file !== e.file || f.track !== e.track || f.event !== e.event);
  const rows: [string, Node | string][] = [
    ["start", `${exact(BigInt(doc.start_ps))} after T0`],
    ["duration", exact(BigInt(doc.duration_ps))],
    ["track", `${at.host.host} › ${at.plane.name} › ${at.info.name}`],
    ["clock", bound === null ? "not calibrated: compare with other hosts' events at your own risk" : `the host's times are right within ±${span(bound * 1000)}`],
    ["this name", el("span", {}, `${ofName(doc)} `, el("button", { className: "link", textContent: "all hosts, histogram (h)", onclick: all }))],
  ];
  if (doc.display_name && doc.display_name !== doc.name) rows.push(["shown as", doc.display_name]);
  if (doc.parents.length) rows.push(["inside", el("span", {}, ...doc.parents.flatMap((p) => [link({ ...e, event: p.event }, p.name), " › "]).slice(0, -1))]);
  if (ends.length) rows.push(["flow", el("span", {}, ...ends.slice(0, 20).map((f) => link(f, `${f.direction === 2 ? "from" : "to"} ${model.find(f.file, f.track)?.host.host} › ${model.find(f.file, f.track)?.info.name} at ${span(Number(f.start_ps))} `)))]);
  show("Event", close, nameOf(doc.name),
    el("div", { className: "columns" }, pairs(rows), pairs(doc.args.map(([k, v]) => [k, k === "hlo_op" ? el("span", {}, value(v), graphLink(model, at.host.host, doc.args)) : value(v)]))));
}

/* Times that no name has, as those of a search, get no column. */
function sums(list: Sum[], more: number): Node {
  const times: [string, (n: Sum) => string | undefined][] = [["Total", (n) => n.total_ps], ["Self", (n) => n.self_ps], ["Mean", (n) => String(Number(n.total_ps) / n.count)], ["Least", (n) => n.min_ps], ["Largest", (n) => n.max_ps]];
  const there = times.filter(([, of]) => list.some((n) => of(n) !== undefined)), cell = (v?: string): HTMLElement => el("td", { className: "num", textContent: v === undefined ? "" : span(Number(v)) });
  if (!list.length) return el("div");
  const body = (): Node[] => list.map((n) => el("tr", {}, el("td", { className: "name", textContent: n.name }), el("td", { className: "num", textContent: count(n.count) }), ...there.map(([, of]) => cell(of(n)))));
  const keys: [string, (n: Sum) => number | string][] = [["Name", (n) => n.name], ["Count", (n) => -n.count], ...there.map(([title, of]): [string, (n: Sum) => number] => [title, (n) => -Number(of(n) ?? 0)])];
  const table = el("table", { className: "sums" }), rows = el("tbody", {}, ...body());
  table.append(el("thead", {}, el("tr", {}, ...keys.map(([title, key], i) => el("th", { className: i ? "num" : "", scope: "col" }, el("button", {
    className: "plain", textContent: title, onclick: () => {
      list.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
      rows.replaceChildren(...body());
    },
  }))))), rows);
  return el("div", {}, table, ...(more > 0 ? [el("p", { className: "soft", textContent: `and ${plural(more, "further name")}` })] : []));
}

export function showSelected(model: Model, list: Selected[], close: () => void): void {
  const total = list.reduce((sum, e) => sum + e.durationPs, 0);
  show(`${plural(list.length, "event")} selected`, close, el("p", { textContent: `${span(total)} in all${list.length === 2 ? `; ${order(model, list[0], list[1])}` : ""}` }), sums(sumsOf(list), 0));
}

/* Signs tell more from less, not only colours. */
function changesTable(before: SelectionDoc, now: SelectionDoc): HTMLElement {
  return el("table", { className: "sums" }, el("caption", { textContent: "Compared with the box before" }),
    el("thead", {}, el("tr", {}, ...["Name", "Count", "Before", "Now", "Change"].map((t, i) => el("th", { scope: "col", className: i ? "num" : "", textContent: t })))),
    el("tbody", {}, ...changes(before, now).slice(0, 200).map((r) => el("tr", {}, el("td", { className: "name", textContent: r.name }), el("td", { className: "num", textContent: `${count(r.counts[0])} → ${count(r.counts[1])}` }),
      el("td", { className: "num", textContent: span(r.from) }), el("td", { className: "num", textContent: span(r.to) }),
      el("td", { className: `num ${r.to > r.from ? "more" : "less"}`, textContent: `${r.to >= r.from ? "+" : "−"}${span(Math.abs(r.to - r.from))}${r.from ? ` (${r.to >= r.from ? "+" : "−"}${Math.abs(100 * (r.to / r.from - 1)).toFixed(1)} %)` : ""}` })))));
}

/** `before` is the box that this one is compared with, and the page that shows both. */
export function showSelection(doc: SelectionDoc, before: { doc: SelectionDoc; page: string } | null, act: { compare: () => void; flame: () => void; close: () => void }): void {
  const verb = (text: string, fn: () => void): Node => el("button", { className: "link", textContent: text, onclick: fn });
  show(`${plural(doc.count, "event")} in the box`, act.close,
    el("p", { textContent: `${span(Number(doc.total_ps))} in all, ${span(Number(doc.self_ps))} self ` },
      verb("copy as CSV", () => copy(csv(doc.names))), verb("compare the next box with this one", act.compare), verb("flame graph of its time (g)", act.flame)),
    ...(before ? [changesTable(before.doc, doc), el("p", {}, el("a", { href: before.page, textContent: "both as a page with an address" }))] : []), sums(doc.names, doc.different - doc.names.length));
}

export function showSearch(model: Model, text: string, doc: SearchDoc, jump: () => void, close: () => void): void {
  const hosts = new Map<string, number>();
  for (const [file, track, n] of doc.tracks) {
    const host = model.find(file, track)?.host.host ?? "";
    hosts.set(host, (hosts.get(host) ?? 0) + n);
  }
  const most = Math.max(1, ...hosts.values());
  show(`“${text}”`, close,
    el("p", { textContent: doc.matches ? `${plural(doc.matches, "match", "matches")} among ${count(doc.events)} events, ${share(doc.matches, doc.events)}, ${span(Number(doc.total_ps))} in all ` : `0 of ${count(doc.events)} events have “${text}” in their name` },
      ...(doc.matches ? [el("button", { className: "plain", textContent: "next (Enter)", onclick: jump })] : [])),
    el("div", { className: "columns" }, sums(doc.names, doc.different - doc.names.length),
      el("table", { className: "pairs" }, el("tbody", {}, ...[...hosts].map(([host, n]) => el("tr", {}, el("th", { scope: "row", textContent: host }),
        el("td", {}, el("meter", { min: 0, max: most, value: n }), ` ${count(n)}`)))))));
}
