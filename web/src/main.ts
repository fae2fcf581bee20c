// SPDX-License-Identifier: Apache-2.0
// Which page the address names, and what is on all of them: the bar, the keys that work everywhere, the list of keys.
import "./style.css";
import { leader } from "./api";
import { openCapture, startCapture } from "./capture/dialog";
import { showCluster, startCluster } from "./cluster";
import { leaveCompare, showCompare } from "./compare";
import { byId, el } from "./dom";
import { bytes } from "./format";
import { startLive } from "./live";
import { openSession, type Waiting } from "./open";
import { showSessions, startSessions } from "./sessions";
import { startTheme, themeButton } from "./theme";
import { KEYS } from "./timeline/keys";
import type { Catalogue } from "./timeline/model";
import { hide } from "./timeline/panel";
import { View } from "./timeline/view";

type Page = "home" | "cluster" | "compare" | "viewer";
const TITLES: Record<Page, string> = { home: "Sessions", cluster: "Cluster", compare: "Compare", viewer: "" };
const EVERYWHERE: [string, string][] = [["c", "capture, or take a snapshot"], ["/", "find: sessions, names or events"], ["?", "these keys"], ["Esc", "close what is open"], ["↑ ↓, Del", "in the list of sessions: the next one; delete it"]];

let view: View | null = null;
let shown = ""; // the session on the screen
let turn = 0; // a new address ends what an older one still waits for

function notice(...children: (Node | string)[]): void { byId("v-notices").replaceChildren(el("p", {}, ...children)); }

/* No session is shown; nothing of the one before stays on the screen. */
function clearStage(): void {
  view?.close();
  view = null;
  byId<HTMLCanvasElement>("v-canvas").width = 0;
  for (const id of ["v-tools", "v-notices", "v-time", "v-note", "v-hits"]) byId(id).replaceChildren();
  hide();
}

/* Opened `again`, because the aggregator has closed it, a session stays as it is until it is there anew. */
async function showSession(session: string, query: URLSearchParams, again: boolean): Promise<void> {
  if (shown === session && view && !again) return view.restore(query);
  const mine = ++turn;
  let old = shown === session ? view : null, isAway = false;
  const prepared = (w: Waiting | Catalogue): string => `Preparing ${bytes(w.done_bytes)} of ${bytes(w.bytes)}`;
  if (!old) clearStage();
  shown = session;
  byId("v-name").textContent = session;
  const retry = (): Node => el("button", { className: "link", textContent: "Try again", onclick: () => showSession(session, query, true) }), all = (): Node => el("a", { href: "#/", textContent: "All sessions" });
  const wait = (w: Waiting): boolean => {
    if (turn !== mine) return false;
    if (view) {
      if (old || isAway) view.note(old ? prepared(w) : "");
      if (!old) view.showProgress(w.done_bytes, w.bytes);
      isAway = false;
    } else if (w.state === "waiting") notice("Another session is being prepared first.");
    else notice(`${prepared(w)} `, el("progress", { max: w.bytes || 1, value: w.done_bytes, ariaLabel: "Preparing" }));
    return true;
  };
  const away = (why: string): boolean => {
    if (turn !== mine) return false;
    isAway = true;
    if (view) view.note(`${why}; trying again`);
    else notice(`Waiting: ${why}. This page tries again by itself. `, retry(), all());
    return true;
  };
  const take = (doc: Catalogue): boolean => {
    if (turn !== mine) return false;
    if (view && !old) {
      if (isAway) view.note("");
      isAway = false;
      view.refine(doc);
      return true;
    }
    if (old && doc.state !== "ready") {
      old.note(prepared(doc));
      return true;
    }
    if (old?.goOn(doc)) return true;
    old?.store();
    old?.close();
    view = new View(doc, old ? new URLSearchParams(location.hash.split("?")[1]) : query, () => showSession(session, query, true));
    old = null;
    return true;
  };
  try {
    await openSession(session, { wait, away, take });
  } catch (e) {
    if (turn !== mine) return;
    clearStage();
    notice(`${(e as Error).message} `, retry(), all());
  }
}

function leaveSession(): void {
  turn++;
  clearStage();
  shown = "";
}

function route(): void {
  const [path, text] = location.hash.split("?"), query = new URLSearchParams(text), session = /^#\/s\/(\w+)$/.exec(path)?.[1];
  const page: Page = session ? "viewer" : path === "#/hosts" ? "cluster" : path === "#/compare" ? "compare" : "home";
  for (const p of Object.keys(TITLES) as Page[]) {
    byId(p).hidden = p !== page;
    const link = document.getElementById(`nav-${p}`);
    if (p === page) link?.setAttribute("aria-current", "page");
    else link?.removeAttribute("aria-current");
  }
  document.title = `${session ?? TITLES[page]} – Tutti`;
  if (page !== "viewer") leaveSession();
  if (page !== "compare") leaveCompare();
  if (session) return void showSession(session, query, false);
  if (page === "cluster") showCluster();
  else if (page === "compare") showCompare(query);
  else showSessions(query);
}

/* ---- keys everywhere ---- */

function showKeys(): void {
  const table = (title: string, keys: [string, string][]): Node => el("table", { className: "pairs" }, el("caption", { textContent: title }), el("tbody", {}, ...keys.map(([k, v]) => el("tr", {}, el("th", { scope: "row", textContent: k }), el("td", { textContent: v })))));
  const dialog = byId<HTMLDialogElement>("keys");
  dialog.replaceChildren(el("div", { className: "head" }, el("h2", { id: "keys-title", textContent: "Keys" }), el("button", { className: "plain", textContent: "close", title: "Esc", onclick: () => dialog.close() })), el("div", { className: "tables" }, table("Everywhere", EVERYWHERE), table("In a timeline", KEYS)));
  dialog.showModal();
}

function onKey(ev: KeyboardEvent): void {
  const at = ev.target as HTMLElement, typing = at.matches("input, select, textarea");
  if (document.querySelector("dialog[open]") || ev.ctrlKey || ev.metaKey || ev.altKey) return;
  if (typing && ev.key === "Escape") at.blur();
  if (typing) return;
  const find = byId("home").hidden ? byId("compare").hidden ? null : document.getElementById("p-find") : byId("s-find");
  if (ev.key === "c" && leader === null) openCapture();
  else if (ev.key === "?") showKeys();
  else if (ev.key === "/" && find) find.focus();
  else return;
  ev.preventDefault();
}

/* Read-only, for tests. */
Object.defineProperty(window, "tutti", { value: { state: () => view?.state() ?? null, hitAt: (x: number, y: number) => view?.hitAt(x, y) ?? null, sampleAt: (x: number, y: number) => view?.sampleAt(x, y) ?? null } });

byId("theme").append(themeButton());
byId("keys-open").addEventListener("click", showKeys);
window.addEventListener("keydown", onKey);
startTheme();
startSessions();
startCluster();
startCapture();
void startLive();
window.addEventListener("popstate", route);
route();
