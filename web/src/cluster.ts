// SPDX-License-Identifier: Apache-2.0
// The hosts of the fleet: whether they are there, how far their clocks can be trusted, what they record.
import { byId, el, fill } from "./dom";
import { ago, plural, time } from "./format";
import { type Host, hosts, onLive, type Tracer } from "./live";

const LIMIT_NS = 1e6, MANY = 128, WORST = 20;

/* Of all hosts on one axis: a symmetric logarithm from 100 ns to 10 s, in percent. */
const LEAST_NS = 100, DECADES = 8;
const at = (ns: number): number => 50 + 50 * Math.sign(ns) * Math.min(1, Math.max(0, Math.log10(Math.max(Math.abs(ns), 1) / LEAST_NS)) / DECADES);

const calibrated = (h: Host): boolean => Boolean(h.clock?.calibrated);

/* The limit of 1 ms as lines, the offset as a dot and its bound as a bar. */
function clockAxis(h: Host): Node {
  const clock = calibrated(h) ? h.clock! : null;
  const axis = el("div", { className: "axis", role: "img", ariaLabel: clock ? `${h.host}: ${time(clock.offset_ns)}, within ${time(clock.bound_ns)}` : `${h.host}: not calibrated` });
  const put = (className: string, from: number, to = from): void => {
    const mark = el("span", { className });
    Object.assign(mark.style, { left: `${from}%`, width: `${to - from}%` });
    axis.append(mark);
  };
  for (const ns of [-LIMIT_NS, 0, LIMIT_NS]) put(ns ? "limit" : "zero", at(ns));
  if (clock) {
    put(clock.bound_ns > LIMIT_NS ? "bound loose" : "bound", at(clock.offset_ns - clock.bound_ns), at(clock.offset_ns + clock.bound_ns));
    put("dot", at(clock.offset_ns));
  }
  return axis;
}

/* What the places of the axis mean. */
function axisHead(): Node[] {
  const ticks: [number, string][] = [[-1e10, "−10 s"], [0, "0"], [LIMIT_NS, "1 ms"], [1e10, "10 s"]];
  return ["Clock ", el("span", { className: "ticks", ariaHidden: "true" }, ...ticks.map(([ns, text]) => {
    const tick = el("small", { textContent: text });
    tick.style.left = `${at(ns)}%`;
    return tick;
  }))].map((n) => (typeof n === "string" ? document.createTextNode(n) : n));
}

function tracerText(tracers: Tracer[]): Node[] {
  return tracers.map((t) => el("span", { title: t.reason ?? "", className: t.state === "ok" ? "" : t.state === "degraded" ? "warn" : "soft", textContent: `${t.name}${t.state === "ok" ? "" : ` (${t.state})`} ` }));
}

/* How far back a snapshot can go: the rings that do not reach as far as others are named. */
function reach(h: Host, nowMs: number): Node[] {
  const rings = (h.tracers ?? []).filter((t) => t.begin_ns).map((t): [string, number] => [t.name, nowMs / 1e3 - t.begin_ns! / 1e9]).sort((a, b) => a[1] - b[1]);
  const text = (s: number): string => (s < 120 ? `${Math.max(0, Math.round(s))} s` : `${Math.round(s / 60)} min`);
  if (!rings.length) return [el("span", { className: "soft", textContent: "no ring" })];
  return [el("span", { title: rings.map(([name, s]) => `${name}: ${text(s)}`).join(", "), textContent: `${text(rings[0][1])}${rings.length > 1 && rings.at(-1)![1] > rings[0][1] * 1.5 + 2 ? ` (${rings[0][0]}) to ${text(rings.at(-1)![1])}` : ""}` })];
}

function jobText(h: Host): Node[] {
  const jobs: Node[] = (h.jobs ?? []).map((j) => el("div", {
    className: j.state === "no-profiler" ? "warn" : j.state === "ready" ? "" : "soft",
    title: j.state === "no-profiler" ? "no port of it is a profiler server's: does it call jax.profiler.start_server()?" : j.address,
    textContent: `${j.pid || ""} ${j.command || j.address} ${j.framework ? `(${j.framework}) ` : ""}${j.port ? `:${j.port} ` : ""}${j.state}`,
  }));
  if (h.steps) jobs.push(el("div", { className: "soft", textContent: `at step ${h.steps.step}${h.steps.period_ns ? `, one each ${time(h.steps.period_ns)}` : ""}` }));
  return h.more_jobs ? [...jobs, el("div", { className: "soft", textContent: `and ${h.more_jobs} more` })] : jobs;
}

function row(h: Host, nowMs: number): HTMLElement {
  const clock = calibrated(h) ? h.clock! : null, up = h.state === "connected", loose = clock && clock.bound_ns > LIMIT_NS;
  return el("tr", {}, el("th", { scope: "row", textContent: h.host, title: [h.version && `agent ${h.version}`, h.address].filter(Boolean).join(", ") }),
    el("td", { className: up ? "good" : "bad", textContent: `${up ? "●" : "✕"} ${h.state}`, title: h.seen_ns ? `last heard of ${ago(new Date(h.seen_ns / 1e6))}` : "" }),
    el("td", {}, clockAxis(h)),
    el("td", { className: "num", textContent: clock ? `${clock.offset_ns > 0 ? "+" : ""}${time(clock.offset_ns)}` : "–" }),
    el("td", { className: !clock || loose ? "num warn" : "num", textContent: clock ? `±${time(clock.bound_ns)}` : "not calibrated" }),
    el("td", {}, ...tracerText(h.tracers ?? [])), el("td", {}, ...reach(h, nowMs)), el("td", {}, ...jobText(h)),
    el("td", { className: "soft", textContent: Object.entries(h.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(" ") }));
}

const badness = (h: Host): number => (h.state === "lost" ? 1e18 : calibrated(h) ? h.clock!.bound_ns : 1e17);

/* Of very many hosts: a cell each, coloured by how wide its bound is. */
function grid(list: Host[]): HTMLElement {
  const step = (h: Host): string => (h.state === "lost" ? "lost" : !calibrated(h) ? "unknown" : `step${[1e4, 1e5, 1e6, 1e7, Infinity].findIndex((ns) => h.clock!.bound_ns <= ns)}`);
  return el("div", { className: "cells", role: "img", ariaLabel: `${plural(list.length, "host")}, each a cell` }, ...list.map((h) => el("span", { className: `cell ${step(h)}`, title: `${h.host}: ${h.state}${calibrated(h) ? `, ±${time(h.clock!.bound_ns)}` : ", not calibrated"}` })));
}

function notices(list: Host[]): string[] {
  const out: string[] = [], names = (of: Host[]): string => of.slice(0, 6).map((h) => h.host).join(", ") + (of.length > 6 ? `, and ${of.length - 6} more` : "");
  const lost = list.filter((h) => h.state === "lost"), there = list.filter((h) => h.state === "connected"), unknown = there.filter((h) => !calibrated(h)), loose = there.filter((h) => calibrated(h) && h.clock!.bound_ns > LIMIT_NS);
  if (lost.length) out.push(`${plural(lost.length, "host")} lost: ${names(lost)}. Captures of all hosts report them as failed.`);
  if (unknown.length) out.push(`Not calibrated: ${names(unknown)}. Their times cannot be compared with those of others yet.`);
  if (loose.length) out.push(`Clocks that may be off by more than 1 ms: ${names(loose)}.`);
  for (const reason of new Set(there.flatMap((h) => (h.tracers ?? []).filter((t) => t.state === "degraded" && t.reason).map((t) => `${t.name}: ${t.reason}`)))) out.push(`Records less on ${names(there.filter((h) => h.tracers?.some((t) => `${t.name}: ${t.reason}` === reason)))}: ${reason}`);
  return out;
}

function summary(list: Host[]): string {
  const bounds = list.filter((h) => h.state === "connected" && calibrated(h)).map((h) => h.clock!.bound_ns), lost = list.filter((h) => h.state === "lost").length;
  return `${list.length - lost} of ${plural(list.length, "host")} connected${bounds.length ? `, worst bound ${time(Math.max(...bounds))}` : ""}${lost ? `, ${lost} lost` : ""}`;
}

function show(): void {
  if (byId("cluster").hidden) return;
  const list = hosts ?? [], many = list.length > MANY, nowMs = Date.now();
  const rows = many ? [...list].sort((a, b) => badness(b) - badness(a)).slice(0, WORST) : list;
  const start = `tutti-agent --aggregator ${location.hostname || "HOST"}:7401`;
  byId("c-sum").textContent = hosts ? `${summary(list)}${many ? `; the ${WORST} worst are listed` : ""}` : "";
  byId("c-notices").replaceChildren(...notices(list).map((text) => el("p", { className: "warn", textContent: text })));
  byId("c-grid").replaceChildren(...(many ? [grid(list)] : []));
  fill(byId<HTMLTableElement>("hosts"), rows.map((h) => row(h, nowMs)), el("span", {}, hosts ? "No agent has connected yet. Start one on each host: " : "Asking for the hosts…", ...(hosts ? [el("code", { textContent: start })] : [])));
}

export function showCluster(): void { show(); }

export function startCluster(): void {
  byId("c-axis").replaceChildren(...axisHead());
  onLive("hosts", show);
}
