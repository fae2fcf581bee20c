// SPDX-License-Identifier: Apache-2.0
// The first page: what was captured, what is being captured, and what becomes of it.
import { api, fileUrl, isPassing, Refusal, send } from "./api";
import { progressText, className } from "./capture/progress";
import { showProgress } from "./capture/dialog";
import { byId, copy, el, fill } from "./dom";
import { ago, bytes, count, plural, time } from "./format";
import { xprofAddress } from "./viewers";
import { type Capture, captures, hasEnded, onLive, type Result } from "./live";

interface Summary { session: string; run: string; duration_ns: number; hosts: number; complete: number; partial: number; failed: number; bytes: number; pinned?: boolean }
type State = "all" | "complete" | "partial" | "failed";

const PAGE = 50, CELLS = 64, UNDO_MS = 8000, AGAIN_MS = 3000;
const table = byId<HTMLTableElement>("sessions");
const picked = new Set<string>(); // to be compared: two at most
const leaving = new Map<string, number>(); // deleted on the screen, not yet in the store: until the timer rings
let list: Summary[] = [];
let more = false;
let isKnown = false; // there was a list
let failure: Error | null = null; // why there is no newer one
let again = 0; // a timer; 0 = none
let state: State = "all";

const stateOf = (s: Summary): State => (s.failed ? "failed" : s.partial ? "partial" : "complete");

/* A cell for each host: filled, half filled, or crossed out; of many hosts the shares. */
function hostStrip(s: Summary): Node {
  const kinds: [string, number][] = [["complete", s.complete], ["partial", s.partial], ["failed", s.failed]];
  const cells = s.hosts <= CELLS ? kinds.flatMap(([kind, n]) => Array.from({ length: n }, () => el("span", { className: kind })))
    : kinds.filter(([, n]) => n).map(([kind, n]) => { const bar = el("span", { className: kind }); bar.style.flexGrow = String(n); return bar; });
  return el("span", { className: s.hosts <= CELLS ? "strip" : "strip shares", ariaHidden: "true" }, ...cells);
}

function outcome(s: Summary): Node {
  const bad = s.failed || s.partial;
  return el("span", { className: bad ? "warn" : "good", textContent: `${s.complete} of ${s.hosts} complete` + (s.partial ? `, ${s.partial} partial` : "") + (s.failed ? `, ${s.failed} failed` : "") });
}

/* A session's id begins with its planned T0 in UTC. */
function startOf(id: string): Date {
  const [year, month, day, hour, minute, second] = id.split("_").map(Number);
  return new Date(Date.UTC(year, month - 1, day, hour, minute, second));
}

function say(...children: (Node | string)[]): void { byId("s-note").replaceChildren(...(children.length ? [el("p", {}, ...children)] : [])); }
const sayWrong = (e: Error): void => say(el("span", { className: "bad", textContent: e.message }));

/* ---- files, deleting ---- */

function refinedText(h: Result): Node[] {
  return h.refined ? [el("span", {
    className: "soft", title: "computed from events that hosts share; the file keeps the clock's times, tutti export --refined moves them",
    textContent: `${h.host}: refined ${h.refined.offset_ns < 0 ? "" : "+"}${time(h.refined.offset_ns)} ±${time(h.refined.bound_ns)} `,
  })] : [];
}

/* The session's files below its row; a second click closes them. */
async function showFiles(id: string, row: HTMLTableRowElement): Promise<void> {
  const next = row.nextElementSibling;
  if (next?.classList.contains("files")) return next.remove();
  const manifest: { hosts: Result[] } = await api(`sessions/${id}`);
  const files = manifest.hosts.flatMap((h) => [
    ...h.files.map((f) => el("a", { href: fileUrl(id, f), textContent: f, title: `${h.events} events, ${bytes(h.bytes)}` })),
    ...refinedText(h),
    ...(h.reason ? [el("span", { className: h.file ? "warn" : "bad", title: h.detail, textContent: `${h.host}: ${h.reason}${h.file || !h.detail ? "" : ` (${h.detail})`}` })] : [])]);
  row.after(el("tr", { className: "files" }, el("td", {}), el("td", { colSpan: row.cells.length - 1 }, ...files)));
}

async function deleteNow(id: string): Promise<void> {
  clearTimeout(leaving.get(id));
  leaving.delete(id);
  try { await api(`sessions/${id}`, { method: "DELETE" }); say(); } catch (e) { sayWrong(e as Error); }
  load();
}

/* It goes off the screen at once, and out of the store when it is too late for Undo. */
function remove(id: string): void {
  leaving.set(id, window.setTimeout(() => deleteNow(id), UNDO_MS));
  const undo = el("button", { className: "link", textContent: "Undo", onclick: () => { clearTimeout(leaving.get(id)); leaving.delete(id); say(); show(); } });
  say(`Deleted ${id}. `, undo, el("button", { className: "link", textContent: "Delete now", onclick: () => deleteNow(id) }));
  undo.focus();
  show();
}

/* ---- rows ---- */

function running(c: Capture): HTMLElement {
  return el("tr", { className: "running" }, el("td", {}), el("td", {}, el("button", { className: "link", textContent: c.session, onclick: () => showProgress(c.session) })), el("td", { textContent: "now" }),
    el("td", { textContent: c.run }), el("td", { className: className(c), textContent: progressText(c) }), el("td", { className: "num", textContent: time(c.duration_ns) }), el("td", { className: "num", textContent: bytes(c.bytes) }), el("td", {}));
}

function pick(id: string, on: boolean): void {
  if (on) picked.add(id);
  else picked.delete(id);
  if (picked.size > 2) picked.delete(picked.values().next().value!);
  show();
}

function row(s: Summary): HTMLTableRowElement {
  const address = `#/s/${s.session}`, verb = (text: string, title: string, onclick: () => void): Node => el("button", { className: "link", textContent: text, title, onclick });
  const tr: HTMLTableRowElement = el("tr", {
    onkeydown: (ev: KeyboardEvent) => {
      const to = (ev.key === "ArrowDown" ? tr.nextElementSibling : ev.key === "ArrowUp" ? tr.previousElementSibling : null)?.querySelector<HTMLElement>("a, button");
      if (to) { to.focus(); ev.preventDefault(); }
      if (ev.key === "Delete") remove(s.session);
    },
    onclick: (ev: Event) => { if (!(ev.target as HTMLElement).closest("a, button, input")) location.hash = address; },
  }, el("td", {}, el("input", { type: "checkbox", ariaLabel: `Compare ${s.session}`, title: "Compare two", checked: picked.has(s.session), onchange: (ev: Event) => pick(s.session, (ev.target as HTMLInputElement).checked) })),
    el("td", {}, el("a", { href: address, textContent: s.session, className: "id" })),
    el("td", { title: ago(startOf(s.session)), textContent: startOf(s.session).toLocaleString() }),
    el("td", { textContent: s.run }),
    el("td", {}, hostStrip(s), outcome(s)),
    el("td", { className: "num", textContent: time(s.duration_ns) }),
    el("td", { className: "num", textContent: bytes(s.bytes) }),
    el("td", { className: "verbs" }, verb("files", "Its files, and what hosts say", () => showFiles(s.session, tr).catch(sayWrong)),
      verb("copy link", "The address of its timeline", () => copy(new URL(address, location.href).href)),
      s.pinned ? el("span", { className: "soft", textContent: "pinned", title: "It stays until it is unpinned: tutti pin --remove" }) : verb("delete", "Del", () => remove(s.session))));
  tr.dataset.session = s.session;
  void xprofAddress(s.session, s.run).then((href) => { if (href) tr.cells[tr.cells.length - 1].prepend(el("a", { href, textContent: "XProf", title: "Open it in XProf", target: "_blank", rel: "noopener" })); });
  return tr;
}

function show(): void {
  const want = byId<HTMLInputElement>("s-find").value.trim().toLowerCase(), now = [...captures.values()].filter((c) => !hasEnded(c)).reverse();
  const there = list.filter((s) => !leaving.has(s.session)), seen = there.filter((s) => (state === "all" || stateOf(s) === state) && `${s.run} ${s.session}`.toLowerCase().includes(want));
  const late = failure === null ? "" : el("span", { className: "bad" }, `The sessions cannot be listed now: ${failure.message}. ${again ? "This page tries again by itself. " : ""}`, el("button", { className: "link", textContent: "Try again", onclick: () => void load() }));
  const empty = there.length ? "No session matches." : !isKnown ? late : el("span", {}, "No session yet: ", el("button", { className: "link", textContent: "capture the first one", onclick: () => byId("capture-open").click() }), "or run ", el("code", { textContent: "tutti capture" }));
  const focus = document.activeElement as HTMLElement, at = focus.closest<HTMLElement>("#sessions tr"), place = at && [...at.querySelectorAll("a, button, input")].indexOf(focus);
  fill(table, [...now.map(running), ...seen.map(row)], empty);
  if (at?.dataset.session) [...table.tBodies[0].querySelectorAll<HTMLElement>(`[data-session="${at.dataset.session}"] :is(a, button, input)`)][place!]?.focus();
  byId("s-sum").replaceChildren(...(isKnown ? [`${plural(seen.length, "session")}${more ? " so far" : ""}, ${bytes(seen.reduce((sum, s) => sum + s.bytes, 0))} `, late] : []));
  byId("s-states").replaceChildren(...(["all", "complete", "partial", "failed"] as State[]).map((kind) => el("button", {
    className: "tool", ariaPressed: String(kind === state), textContent: `${kind} ${count(kind === "all" ? there.length : there.filter((s) => stateOf(s) === kind).length)}`, onclick: () => { state = kind; store(); show(); },
  })));
  byId("s-more").hidden = !more;
  const [a, b] = [...picked], link = byId<HTMLAnchorElement>("s-compare");
  link.hidden = !b;
  link.href = `#/compare?${new URLSearchParams({ a: a ?? "", b: b ?? "" })}`;
}

/* The filter is in the address, too. */
function store(): void {
  const q = new URLSearchParams(), text = byId<HTMLInputElement>("s-find").value;
  if (text) q.set("q", text);
  if (state !== "all") q.set("state", state);
  history.replaceState(null, "", `#/${q.size ? `?${q}` : ""}`);
}

async function load(after = ""): Promise<void> {
  clearTimeout(again);
  again = 0;
  try {
    const doc: { sessions: Summary[] } = await api(`sessions?limit=${PAGE}${after ? `&after=${after}` : ""}`);
    list = after ? [...list, ...doc.sessions] : doc.sessions;
    more = doc.sessions.length === PAGE;
    isKnown = true;
    failure = null;
  } catch (e) {
    failure = e as Error;
    if (!(e instanceof Refusal) || isPassing(e.status)) again = window.setTimeout(() => load(after), AGAIN_MS);
  }
  show();
}

/** The page as this address has it. */
export function showSessions(q: URLSearchParams): void {
  byId<HTMLInputElement>("s-find").value = q.get("q") ?? "";
  state = (["complete", "partial", "failed"] as State[]).find((s) => s === q.get("state")) ?? "all";
  show();
}

export function startSessions(): void {
  byId("s-find").addEventListener("input", () => { store(); show(); });
  byId("s-more").addEventListener("click", () => load(list.at(-1)!.session));
  onLive("sessions", () => load());
  onLive("capture", show);
  window.addEventListener("pagehide", () => leaving.forEach((_, id) => send(`sessions/${id}`, { method: "DELETE", keepalive: true })));
}
