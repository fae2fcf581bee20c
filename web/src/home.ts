// SPDX-License-Identifier: Apache-2.0
// The first screen: capture, sessions, hosts.
import { api, eventsUrl, fileUrl } from "./api";
import { byId, el, fill } from "./dom";
import { bytes, time } from "./format";

/* Documents of docs/wire.md, as far as they are shown. */
interface Tracer { name: string; state: string; reason?: string }
interface Job { state: string; pid?: number; command?: string; address: string; framework?: string; port?: number }
interface Host {
  host: string; state: string; clock?: { calibrated: boolean; offset_ns: number; bound_ns: number };
  tracers?: Tracer[]; jobs?: Job[]; more_jobs?: number; labels?: Record<string, string>;
}
interface Result {
  host: string; files: string[]; file: string; events: number; bytes: number; reason: string; detail: string;
  refined?: { offset_ns: number; bound_ns: number };
}
interface Summary { session: string; run: string; duration_ns: number; hosts: number; complete: number; partial: number; failed: number; bytes: number }
interface Capture {
  session: string; state: string; complete: number; partial: number; failed: number; hosts: Result[]; bytes: number;
  position?: number; waits_for?: string; snapshot?: boolean; callers?: number;
}

const form = byId<HTMLFormElement>("capture");
const field = (name: string): HTMLInputElement => form.elements.namedItem(name) as HTMLInputElement;

/* ---- hosts ---- */

function tracerText(tracers: Tracer[]): Node[] {
  return tracers.map((t) => el("span", {
    title: t.reason || "", className: t.state === "ok" ? "" : t.state === "degraded" ? "warn" : "soft",
    textContent: `${t.name}${t.state === "ok" ? "" : ` (${t.state})`} `,
  }));
}

function jobText(h: Host): Node[] {
  const jobs: Node[] = (h.jobs || []).map((j) => el("div", {
    className: j.state === "no-profiler" ? "warn" : j.state === "ready" ? "" : "soft",
    title: j.state === "no-profiler" ? "no port of it is a profiler server's: does it call jax.profiler.start_server()?" : j.address,
    textContent: `${j.pid || ""} ${j.command || j.address} ${j.framework ? `(${j.framework}) ` : ""}${j.port ? `:${j.port} ` : ""}${j.state}`,
  }));
  return h.more_jobs ? [...jobs, el("div", { className: "soft", textContent: `and ${h.more_jobs} more` })] : jobs;
}

function showHosts(doc: { hosts: Host[] }): void {
  fill(byId<HTMLTableElement>("hosts"), doc.hosts.map((h) => {
    const clock = h.clock?.calibrated ? h.clock : null;
    return el("tr", {},
      el("td", { textContent: h.host }),
      el("td", { textContent: h.state, className: h.state === "connected" ? "good" : "bad" }),
      el("td", {}, clockAxis(clock, h.host)),
      el("td", { className: "num", textContent: clock ? time(clock.offset_ns) : "–" }),
      el("td", { className: clock ? "num" : "num warn", textContent: clock ? `±${time(clock.bound_ns)}` : "not calibrated" }),
      el("td", {}, ...tracerText(h.tracers || [])),
      el("td", {}, ...jobText(h)),
      el("td", { className: "soft", textContent: Object.entries(h.labels || {}).map(([k, v]) => `${k}=${v}`).join(" ") }));
  }), 8, "No agent has connected yet. Start one with: tutti-agent --aggregator HOST:7401");
}

/* Of all hosts on one axis: a symmetric logarithm from 100 ns to 10 s, with the limit of 1 ms as lines, the offset as a dot
 * and its bound as a bar. */
function clockAxis(clock: { offset_ns: number; bound_ns: number } | null, host: string): Node {
  const at = (ns: number): number => 50 + 50 * Math.sign(ns) * Math.min(1, Math.max(0, Math.log10(Math.max(Math.abs(ns), 1) / 100)) / 8);
  const axis = el("div", { className: "axis", role: "img", ariaLabel: clock ? `${host}: ${time(clock.offset_ns)}, within ${time(clock.bound_ns)}` : `${host}: not calibrated` });
  const put = (className: string, from: number, to = from): void => {
    const mark = el("span", { className });
    Object.assign(mark.style, { left: `${from}%`, width: `${to - from}%` });
    axis.append(mark);
  };
  for (const ns of [-1e6, 0, 1e6]) put(ns ? "limit" : "zero", at(ns));
  if (clock) {
    put("bound", at(clock.offset_ns - clock.bound_ns), at(clock.offset_ns + clock.bound_ns));
    put("dot", at(clock.offset_ns));
  }
  return axis;
}

/* ---- sessions ---- */

const CELLS = 64; // hosts beyond share a bar

/* A cell a host, or a bar of shares: complete, partial, failed. The text beside it says the same. */
function hostStrip(s: Summary): Node {
  const kinds: [string, number][] = [["complete", s.complete], ["partial", s.partial], ["failed", s.failed]];
  const cells = s.hosts <= CELLS ? kinds.flatMap(([kind, n]) => Array.from({ length: n }, () => el("span", { className: kind })))
    : kinds.filter(([, n]) => n).map(([kind, n]) => { const bar = el("span", { className: kind }); bar.style.flexGrow = String(n); return bar; });
  return el("span", { className: s.hosts <= CELLS ? "strip" : "strip shares", ariaHidden: "true" }, ...cells);
}

function outcome(s: Summary): Node {
  const bad = s.failed || s.partial;
  return el("span", {
    className: bad ? "warn" : "good",
    textContent: `${s.complete} of ${s.hosts} complete` + (s.partial ? `, ${s.partial} partial` : "") + (s.failed ? `, ${s.failed} failed` : ""),
  });
}

async function removeSession(id: string): Promise<void> {
  if (!confirm(`Delete session ${id}?`)) return;
  try { await api(`sessions/${id}`, { method: "DELETE" }); } catch (e) { alert((e as Error).message); }
  loadSessions();
}

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
    ...(h.reason ? [el("span", { className: h.file ? "warn" : "bad", title: h.detail, textContent: `${h.host}: ${h.reason} ${h.file ? "" : h.detail} ` })] : [])]);
  row.after(el("tr", { className: "files" }, el("td", { colSpan: 6 }, ...files)));
}

/* A session's id begins with its planned T0 in UTC. */
function startOf(id: string): string {
  const [year, month, day, hour, minute, second] = id.split("_").map(Number);
  return new Date(Date.UTC(year, month - 1, day, hour, minute, second)).toLocaleString();
}

async function loadSessions(): Promise<void> {
  const doc: { sessions: Summary[] } = await api("sessions?limit=50");
  fill(byId<HTMLTableElement>("sessions"), doc.sessions.map((s) => {
    const row = el("tr", {},
      el("td", {}, el("a", {
        href: `#/s/${s.session}`, textContent: s.session, title: `its files; T0 ${startOf(s.session)}`,
        onclick: (ev: Event) => { ev.preventDefault(); showFiles(s.session, row); },
      })),
      el("td", { textContent: s.run }),
      el("td", { className: "num", textContent: time(s.duration_ns) }),
      el("td", {}, hostStrip(s), outcome(s)),
      el("td", { className: "num", textContent: bytes(s.bytes) }),
      el("td", { className: "verbs" },
        el("button", { className: "plain", textContent: "delete", onclick: () => removeSession(s.session) }),
        el("button", { className: "open", textContent: "Timeline", onclick: () => { location.hash = `#/s/${s.session}`; } })));
    return row;
  }), 6, "No session yet.");
}

/* ---- captures ---- */

const started = new Map<string, HTMLElement>(); // the captures that this page started: session -> its line; the newest line is on top
const seen = new Map<string, Capture>(); // what events said of captures: one may come before the answer to the request
const MAX_LINES = 6, MAX_SEEN = 64;

function addLine(className: string, text: string): HTMLElement {
  const line = el("p", { className, textContent: text }), progress = byId("progress");
  progress.prepend(line);
  while (progress.children.length > MAX_LINES) progress.lastChild!.remove();
  return line;
}

function captureText(c: Capture): string {
  if (c.state === "queued") return `${c.session}: queued, number ${c.position}, waits for ${c.waits_for}`;
  const done = c.complete + c.partial + c.failed;
  const why = c.hosts.filter((h) => h.reason).map((h) => `${h.host}: ${h.reason}`).join(", ");
  return `${c.session}: ${c.snapshot ? "snapshot " : ""}${c.state}, ${done} of ${c.hosts.length} hosts done, ${bytes(c.bytes)}${why ? ` (${why})` : ""}${(c.callers ?? 1) > 1 ? `, shared by ${c.callers}` : ""}`;
}

function showCapture(c: Capture): void {
  const line = started.get(c.session);
  seen.delete(c.session);
  seen.set(c.session, c);
  if (seen.size > MAX_SEEN) seen.delete(seen.keys().next().value!);
  if (!line) return;
  const ended = c.state === "committed" || c.state === "failed";
  line.className = c.state === "failed" ? "bad" : ended && c.failed + c.partial ? "warn" : ended ? "good" : "soft";
  line.textContent = captureText(c);
  if (ended) started.delete(c.session);
  if (!c.snapshot) form.querySelector("button")!.disabled = !ended;
}

/** Of the form: what captures and snapshots have in common. */
function request(): object {
  const settings: Record<string, string> = {};
  for (const word of field("settings").value.split(/\s+/).filter(Boolean)) {
    const at = word.indexOf("=");
    settings[at < 0 ? word : word.slice(0, at)] = at < 0 ? "" : word.slice(at + 1);
  }
  return { hosts: field("hosts").value, run: field("run").value, settings };
}

async function begin(path: string, body: object): Promise<void> {
  try {
    const capture: Capture = await api(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (!started.has(capture.session)) started.set(capture.session, addLine("soft", capture.session));
    showCapture(seen.get(capture.session) || capture);
  } catch (e) {
    addLine("bad", (e as Error).message);
  }
}

export function startHome(): void {
  form.addEventListener("submit", (ev) => {
    ev.preventDefault();
    begin("captures", { ...request(), duration_ns: Math.round(Number(field("duration").value) * 1e9) });
  });
  field("last").addEventListener("input", () => { byId("snapshot").textContent = `Snapshot: last ${field("last").value} s`; });
  byId("snapshot").addEventListener("click", () => {
    if (form.reportValidity()) begin("snapshots", { ...request(), last_ns: Math.round(Number(field("last").value) * 1e9) });
  });
  const events = new EventSource(eventsUrl);
  events.onopen = () => { byId("link").textContent = "live"; loadSessions(); };
  events.onerror = () => { byId("link").textContent = "connection lost, reconnecting…"; };
  events.addEventListener("hosts", (ev) => showHosts(JSON.parse(ev.data)));
  events.addEventListener("capture", (ev) => showCapture(JSON.parse(ev.data)));
  events.addEventListener("sessions", loadSessions);
  api("hosts").then(showHosts);
  loadSessions();
}
