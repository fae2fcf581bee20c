// SPDX-License-Identifier: Apache-2.0
// Two sessions, or two ranges of one, name by name, and as a flame graph. The address has all of it: sessions a and b, their times at
// and bt (picoseconds since T0), their tracks an and bn, the filter q, the order, whether there is a flame graph.
import { api } from "./api";
import { byId, copy, el } from "./dom";
import { bytes, count, plural, span } from "./format";
import { flameDiff } from "./flame_diff";
import { openSession, type Waiting } from "./open";
import { twoNumbers } from "./timeline/address";
import { type FlameDoc, sampledTracks } from "./timeline/analysis";
import type { Catalogue } from "./timeline/model";
import type { SelectionDoc } from "./timeline/sums";

interface Side { session: string; range: string; tracks: string }
interface Row { name: string; count: [number, number]; total: [number, number] }

const SHOWN = 300;
const ORDERS: [string, string, (r: Row) => number | string][] = [
  ["name", "Name", (r) => r.name], ["counta", "Count A", (r) => -r.count[0]], ["countb", "Count B", (r) => -r.count[1]], ["totala", "Total A", (r) => -r.total[0]], ["totalb", "Total B", (r) => -r.total[1]],
  ["meana", "Mean A", (r) => -mean(r, 0)], ["meanb", "Mean B", (r) => -mean(r, 1)], ["diff", "Difference of totals", (r) => -Math.abs(r.total[1] - r.total[0])], ["diffmean", "of means", (r) => -Math.abs(mean(r, 1) - mean(r, 0))],
];
const mean = (r: Row, i: 0 | 1): number => (r.count[i] ? r.total[i] / r.count[i] : 0);

let turn = 0;
let shownFor = ""; // the address whose sums are on the screen
let rows: Row[] = [];
let find = "", order = "diff", withFlame = false;
let opened: [Catalogue, Catalogue] | null = null; // of what is on the screen
let asked: [Catalogue, Catalogue] | null = null; // their flame graphs are under way, or there
let flames: [FlameDoc, FlameDoc] | null = null;

const sideOf = (q: URLSearchParams, key: string): Side => ({ session: q.get(key) ?? "", range: q.get(`${key}t`) ?? "", tracks: q.get(`${key}n`) ?? "" });

function addressOf(a: Side, b: Side): string {
  const q = new URLSearchParams();
  for (const [key, side] of [["a", a], ["b", b]] as [string, Side][]) {
    q.set(key, side.session);
    if (side.range) q.set(`${key}t`, side.range);
    if (side.tracks) q.set(`${key}n`, side.tracks);
  }
  if (find) q.set("q", find);
  if (order !== "diff") q.set("sort", order);
  if (withFlame) q.set("flame", "1");
  return `#/compare?${q}`;
}

const say = (...children: (Node | string)[]): void => byId("p-note").replaceChildren(...(children.length ? [el("p", {}, ...children)] : []));

/* ---- what is asked ---- */

function ask<T>(side: Side, doc: Catalogue, what: string, query: Record<string, string>): Promise<T> {
  const [from, to] = twoNumbers(side.range) ?? [-(2 ** 59), 2 ** 59];
  return api(`sessions/${side.session}/view/${what}?${new URLSearchParams({ build: doc.build, from_ps: String(Math.round(from)), to_ps: String(Math.round(to)), ...query })}`);
}

async function openSide(side: Side, name: string, mine: number): Promise<Catalogue | null> {
  let doc: Catalogue | null = null;
  const tell = (text: string): boolean => {
    if (turn === mine) say(text);
    return turn === mine;
  };
  const wait = (w: Waiting): boolean => tell(`Preparing ${name}, ${bytes(w.done_bytes)} of ${bytes(w.bytes)}`), away = (why: string): boolean => tell(`Waiting for ${name}: ${why}. This page tries again by itself.`);
  await openSession(side.session, { wait, away, take: (part) => { doc = part; return wait({ state: "building", done_bytes: part.done_bytes, bytes: part.bytes }); } });
  return turn === mine ? doc : null;
}

async function askFlames(a: Side, b: Side, of: [Catalogue, Catalogue]): Promise<void> {
  const [docA, docB] = of, one = (side: Side, doc: Catalogue): Promise<FlameDoc> => ask(side, doc, "flame", { tracks: side.tracks || sampledTracks({ doc }), group: "none" });
  const docs: [FlameDoc, FlameDoc] = [await one(a, docA), await one(b, docB)];
  if (opened !== of) return;
  flames = docs;
  show(a, b);
}

function join(a: SelectionDoc, b: SelectionDoc): Row[] {
  const by = new Map<string, Row>();
  [a, b].forEach((doc, i) => doc.names.forEach((n) => {
    const r = by.get(n.name) ?? { name: n.name, count: [0, 0], total: [0, 0] };
    r.count[i] += n.count;
    r.total[i] += Number(n.total_ps);
    by.set(n.name, r);
  }));
  return [...by.values()];
}

/* ---- what is shown ---- */

const signed = (ps: number): string => (ps === 0 ? "0" : `${ps > 0 ? "+" : "−"}${span(Math.abs(ps))}`);
const change = (from: number, to: number): string => `${signed(to - from)}${from && to !== from ? ` (${to > from ? "+" : "−"}${Math.abs(100 * (to / from - 1)).toFixed(1)} %)` : ""}`;

function tableOf(list: Row[], a: Side, b: Side): HTMLElement {
  const num = (textContent: string, className = ""): HTMLElement => el("td", { className: `num ${className}`, textContent });
  const sorted = [...list].sort(((key) => (x: Row, y: Row) => (key(x) < key(y) ? -1 : key(x) > key(y) ? 1 : 0))(ORDERS.find(([id]) => id === order)![2]));
  return el("table", { className: "sums" }, el("caption", { textContent: `${plural(list.length, "name")}${list.length > SHOWN ? `, the first ${SHOWN}` : ""}` }),
    el("thead", {}, el("tr", {}, ...ORDERS.map(([id, title], i) => el("th", { scope: "col", className: i ? "num" : "", ariaSort: id === order ? (id === "name" ? "ascending" : "descending") : "none" },
      el("button", { className: "plain", textContent: title, onclick: () => { order = id; store(a, b); show(a, b); } }))))),
    el("tbody", {}, ...sorted.slice(0, SHOWN).map((r) => {
      const moreOf = (a: number, b: number): string => (b > a ? "more" : b < a ? "less" : ""), both = r.count[0] && r.count[1];
      return el("tr", {}, el("td", { className: "name", textContent: r.name || "(no name)" }), num(count(r.count[0])), num(count(r.count[1])), num(span(r.total[0])), num(span(r.total[1])),
        num(r.count[0] ? span(mean(r, 0)) : "–"), num(r.count[1] ? span(mean(r, 1)) : "–"), num(change(r.total[0], r.total[1]), moreOf(...r.total)), num(both ? change(mean(r, 0), mean(r, 1)) : r.count[1] ? "only in B" : "only in A", both ? moreOf(mean(r, 0), mean(r, 1)) : ""));
    })));
}

function csv(list: Row[]): string {
  return ["name,count_a,count_b,total_a_ps,total_b_ps", ...list.map((r) => [`"${r.name.replaceAll("\"", "\"\"")}"`, ...r.count, ...r.total].join(","))].join("\n");
}

function show(a: Side, b: Side): void {
  const seen = rows.filter((r) => r.name.toLowerCase().includes(find.toLowerCase()));
  byId("p-result").replaceChildren(el("p", {}, el("button", { className: "link", textContent: "copy as CSV", onclick: () => copy(csv(seen)) }), el("button", { className: "link", textContent: "copy link", onclick: () => copy(location.href) }),
    el("a", { href: timelineOf(a), textContent: "A as a timeline" }), " ", el("a", { href: timelineOf(b), textContent: "B as a timeline" }), " ",
    el("button", { className: "tool", id: "p-flame", textContent: "Flame graph", ariaPressed: String(withFlame), onclick: () => { withFlame = !withFlame; store(a, b); show(a, b); byId("p-flame").focus(); } })),
    ...(withFlame && flames ? [flameDiff(flames, find)] : []), tableOf(seen, a, b));
  if (!withFlame || !opened || asked === opened) return;
  asked = opened;
  askFlames(a, b, opened).catch((e) => { asked = null; fail(e); });
}

const fail = (e: Error): void => say(el("span", { className: "bad", textContent: e.message }));

const timelineOf = (s: Side): string => `#/s/${s.session}${s.range ? `?t=${s.range}` : ""}`;

function store(a: Side, b: Side): void { history.replaceState(null, "", addressOf(a, b)); shownFor = keyOf(a, b); }
const keyOf = (a: Side, b: Side): string => JSON.stringify([a, b]);

/* ---- what is chosen ---- */

/* A range in seconds, as one types it. */
function rangeFields(side: Side): [HTMLInputElement, HTMLInputElement] {
  const range = twoNumbers(side.range), field = (label: string, at: number | undefined): HTMLInputElement => el("input", { type: "number", step: "any", ariaLabel: label, placeholder: label, value: at === undefined ? "" : String(at / 1e12), className: "short" });
  return [field("from (s)", range?.[0]), field("to (s)", range?.[1])];
}

async function showForm(a: Side, b: Side): Promise<void> {
  const mine = turn, known: { sessions: { session: string; run: string }[] } = await api("sessions?limit=100");
  if (turn !== mine) return;
  const ids = [...new Set([a.session, b.session, ...known.sessions.map((s) => s.session)].filter(Boolean))], runs = new Map(known.sessions.map((s) => [s.session, s.run]));
  const sideNode = (name: string, side: Side): { node: HTMLElement; read: () => Side } => {
    const choice = el("select", { ariaLabel: `Session ${name}` }, el("option", { value: "", textContent: "choose a session" }), ...ids.map((id) => el("option", { value: id, selected: id === side.session, textContent: runs.get(id) ? `${id} (${runs.get(id)})` : id })));
    const [from, to] = rangeFields(side), edge = (f: HTMLInputElement, open: number): number => (f.value === "" ? open : Math.round(Number(f.value) * 1e12));
    const read = (): Side => ({ session: choice.value, range: from.value || to.value ? `${edge(from, -(2 ** 59))}_${edge(to, 2 ** 59)}` : "", tracks: choice.value === side.session ? side.tracks : "" });
    return { read, node: el("fieldset", {}, el("legend", { textContent: name }), choice, from, to, ...(side.tracks ? [el("span", { className: "soft", textContent: ` ${plural(side.tracks.split(",").length, "track")} of it` })] : [])) };
  };
  const left = sideNode("A", a), right = sideNode("B", b);
  const filter = el("input", { type: "search", ariaLabel: "Only names with this text", placeholder: "Only names with ( / )", value: find, id: "p-find", oninput: () => { find = filter.value; store(a, b); show(a, b); } });
  byId<HTMLFormElement>("p-form").replaceChildren(left.node, right.node, el("div", { className: "line" }, el("button", {}, "Compare"), filter));
  byId<HTMLFormElement>("p-form").onsubmit = (ev) => { ev.preventDefault(); location.hash = addressOf(left.read(), right.read()); };
}

/** The page as this address has it. */
export async function showCompare(q: URLSearchParams): Promise<void> {
  const a = sideOf(q, "a"), b = sideOf(q, "b"), isSame = keyOf(a, b) === shownFor;
  find = q.get("q") ?? "";
  order = ORDERS.find(([id]) => id === q.get("sort"))?.[0] ?? "diff";
  withFlame = q.get("flame") === "1";
  if (isSame) return show(a, b);
  const mine = ++turn;
  rows = [];
  opened = asked = flames = null;
  shownFor = "";
  byId("p-result").replaceChildren();
  showForm(a, b).catch(fail);
  if (!a.session || !b.session) return say("Choose two sessions, or two ranges of one. Times are seconds since T0; without them all of the session counts.");
  try {
    const docA = await openSide(a, "A", mine), first = docA && await ask<SelectionDoc>(a, docA, "selection", { tracks: a.tracks || "all" });
    const docB = first && await openSide(b, "B", mine), second = docB && await ask<SelectionDoc>(b, docB, "selection", { tracks: b.tracks || "all" });
    if (!first || !second || turn !== mine) return;
    opened = [docA, docB];
    rows = join(first, second);
    shownFor = keyOf(a, b);
    const cut = [first, second].some((d) => d.different > d.names.length);
    say(`A: ${plural(first.count, "event")}, ${span(Number(first.total_ps))}. B: ${plural(second.count, "event")}, ${span(Number(second.total_ps))}.${cut ? " Only the 1,000 names with the most time of each are compared." : ""}`);
    show(a, b);
  } catch (e) {
    if (turn === mine) fail(e as Error);
  }
}

/** Ends what the page still waits for. */
export function leaveCompare(): void { turn++; }
