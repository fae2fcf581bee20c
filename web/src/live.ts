// SPDX-License-Identifier: Apache-2.0
// What the aggregator says by itself: hosts, captures, sessions. One stream for the whole page.
import { api, askLeader, eventsUrl, isSignedIn, leader, ready, signOut } from "./api";
import { byId, el } from "./dom";

/* Documents of docs/wire.md, as far as they are shown. */
export interface Tracer { name: string; state: "ok" | "degraded" | "off"; reason?: string; begin_ns?: number }
export interface Job { state: string; pid?: number; command?: string; address: string; framework?: string; port?: number }
export interface Clock { calibrated: boolean; offset_ns: number; bound_ns: number; grade?: string; method?: string }
export interface Host {
  host: string; state: "connected" | "lost"; clock?: Clock; version?: string; address?: string; seen_ns?: number;
  tracers?: Tracer[]; jobs?: Job[]; more_jobs?: number; labels?: Record<string, string>; steps?: { step: number; period_ns: number };
}
export interface Result {
  host: string; state: string; files: string[]; file: string; events: number; bytes: number; bytes_done: number; reason: string; detail: string;
  clock_bound_ns: number | null; refined?: { offset_ns: number; bound_ns: number };
}
export interface Capture {
  session: string; run: string; state: string; complete: number; partial: number; failed: number; hosts: Result[]; bytes: number; duration_ns: number;
  position?: number; waits_for?: string; snapshot?: boolean; callers?: number; shared?: boolean; error?: string; warnings?: string[];
}

export const hasEnded = (c: Capture): boolean => c.state === "committed" || c.state === "failed";

type Kind = "hosts" | "capture" | "sessions";
const listeners: { [kind in Kind]: Set<(doc: any) => void> } = { hosts: new Set(), capture: new Set(), sessions: new Set() };
const KEPT = 64; // captures

export let hosts: Host[] | null = null; // null: not known yet
export const captures = new Map<string, Capture>(); // as the last event said; the newest is last

export function onLive(kind: Kind, fn: (doc: any) => void): void { listeners[kind].add(fn); }

function tell(kind: Kind, doc: unknown): void { listeners[kind].forEach((fn) => fn(doc)); }

function takeHosts(doc: { hosts: Host[] }): void {
  hosts = doc.hosts;
  tell("hosts", hosts);
}

/** Also of answers to requests. An event may come before the answer, which then says less. */
export function takeCapture(c: Capture, isEvent = false): void {
  if (captures.has(c.session) && !isEvent) return;
  captures.set(c.session, c);
  for (const [id, old] of captures) if (captures.size > KEPT && hasEnded(old)) captures.delete(id);
  tell("capture", c);
}

let last = Date.now();

function showLink(isUp: boolean): void {
  byId("link").className = isUp ? "good" : "bad";
  byId("link").textContent = isUp ? "● live" : `○ reconnecting, last data ${Math.round((Date.now() - last) / 1000)} s old`;
}

export async function startLive(): Promise<void> {
  await ready;
  if (isSignedIn()) byId("link").after(el("button", { className: "tool", textContent: "Sign out", onclick: () => void signOut() }));
  if (leader !== null) return standBy();
  document.addEventListener("visibilitychange", listen);
  listen();
}

const STANDBY_MS = 5000;

/** The page of a follower reads what is stored. Events, hosts and captures are the leader's, and no page may follow a redirection there. */
function standBy(): void {
  const say = (): void => {
    if (leader === null) return location.reload();
    byId("link").className = "bad";
    byId("link").textContent = "○ stands by";
    byId("standby").replaceChildren("This aggregator stands by: it shows what is stored. ",
      leader ? el("a", { href: new URL(`./${location.hash}`, leader.replace(/\/?$/, "/")).href, textContent: "The one that leads" }) : "Which one leads is not known now",
      leader ? " has the hosts, and captures." : ".");
    tell("sessions", null);
  };
  byId("standby").hidden = false;
  byId<HTMLButtonElement>("capture-open").disabled = true;
  setInterval(() => void askLeader().then(say, () => undefined), STANDBY_MS);
  say();
}

let events: EventSource | null = null;

/* A browser has six connections to a server, for all its tabs together: one that nobody sees takes none. */
function listen(): void {
  events?.close();
  events = null;
  if (document.hidden) return;
  const now = events = new EventSource(eventsUrl), on = (kind: Kind, fn: (doc: any) => void): void => now.addEventListener(kind, (ev) => { last = Date.now(); fn(JSON.parse(ev.data)); });
  events.onopen = () => { last = Date.now(); showLink(true); tell("sessions", null); };
  events.onerror = () => showLink(false);
  on("hosts", takeHosts);
  on("capture", (c) => takeCapture(c, true));
  on("sessions", (doc) => tell("sessions", doc));
  api("hosts").then(takeHosts, () => undefined);
  api("captures").then((doc: { captures: Capture[] }) => doc.captures.forEach((c) => takeCapture(c, captures.has(c.session) && !hasEnded(captures.get(c.session)!))), () => undefined);
}
