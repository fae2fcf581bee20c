// SPDX-License-Identifier: Apache-2.0
// How far a capture is, host by host, as the aggregator says; in the end a link to the session.
import { api } from "../api";
import { el } from "../dom";
import { bytes, plural, time } from "../format";
import { type Capture, hasEnded, type Result } from "../live";

const ROWS = 16, WORST = 5;
const ORDER = ["failed", "partial", "arming", "armed", "running", "gathering", "uploading", "complete"]; // the slowest first, what is done last
const WORD: { [state: string]: string } = { arming: "being armed", armed: "armed", running: "records", gathering: "collects", uploading: "sends", complete: "complete", partial: "partial", failed: "failed" };
const GLYPH: { [state: string]: string } = { complete: "●", partial: "◐", failed: "✕" };
const PHASES = ["arming", "armed", "running", "gathering", "uploading", "complete"];

/* 0 to 1: the phases count alike, and of an upload its bytes. */
function share(h: Result): number {
  if (h.state === "failed" || h.state === "partial" || h.state === "complete") return 1;
  const phase = PHASES.indexOf(h.state) / (PHASES.length - 1);
  return h.state === "uploading" && h.bytes ? phase + 0.2 * Math.min(1, h.bytes_done / h.bytes) : phase;
}

const kind = (h: Result): string => (h.state === "failed" ? "bad" : h.state === "partial" ? "warn" : h.state === "complete" ? "good" : "");

function row(h: Result): HTMLElement {
  const got = h.bytes ? (h.state === "uploading" ? `${bytes(h.bytes_done)} of ${bytes(h.bytes)}` : bytes(h.bytes)) : "";
  return el("tr", {}, el("th", { scope: "row", textContent: h.host }), el("td", { className: kind(h), textContent: `${GLYPH[h.state] ?? "○"} ${WORD[h.state] ?? h.state}` }),
    el("td", {}, ...(h.state === "failed" ? [] : [el("progress", { max: 1, value: share(h), ariaLabel: `${h.host}: ${WORD[h.state] ?? h.state}` })])), el("td", { className: "num", textContent: got }),
    el("td", { className: kind(h) || "soft", textContent: h.reason ? `${h.reason}${h.detail ? `: ${h.detail}` : ""}` : h.events ? plural(h.events, "event") : "" }));
}

function sorted(hosts: Result[]): Result[] {
  return [...hosts].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || share(a) - share(b) || (a.host < b.host ? -1 : 1));
}

/** One line for the bar and the list of sessions. */
export function progressText(c: Capture): string {
  if (c.state === "queued") return `queued, number ${c.position}, waits for ${c.waits_for}`;
  const done = c.complete + c.partial + c.failed;
  return `${c.snapshot ? "snapshot " : ""}${c.state}, ${done} of ${plural(c.hosts.length, "host")} done, ${bytes(c.bytes)}${(c.callers ?? 1) > 1 ? `, shared by ${c.callers}` : ""}`;
}

export const className = (c: Capture): string => (c.state === "failed" ? "bad" : !hasEnded(c) ? "soft" : c.failed + c.partial ? "warn" : "good");

/** The rows of all hosts; of many a cell each, and rows for those that are worst off. */
export function progressNode(c: Capture, close: () => void): HTMLElement {
  const order = sorted(c.hosts), many = order.length > ROWS, ended = hasEnded(c);
  const ask = (verb: string, method: string, path: string): HTMLElement => el("button", {
    className: "tool", textContent: verb, onclick: (ev: Event) => {
      const button = ev.currentTarget as HTMLButtonElement;
      button.disabled = true;
      api(`captures/${c.session}${path}`, { method }).catch((e) => { button.disabled = false; button.title = (e as Error).message; button.textContent = `${verb}: ${(e as Error).message}`; });
    },
  });
  const open = el("a", { className: "button", href: `#/s/${c.session}`, textContent: "Open session", onclick: close });
  return el("div", { className: "progress" },
    el("p", { className: className(c), role: "status", textContent: `${c.session}: ${progressText(c)}, window ${time(c.duration_ns)}` }),
    ...(c.error ? [el("p", { className: "bad", textContent: c.error })] : []),
    ...(many ? [el("div", { className: "cells", role: "img", ariaLabel: progressText(c) }, ...order.map((h) => el("span", { className: `cell ${h.state}`, title: `${h.host}: ${WORD[h.state] ?? h.state}${h.reason ? `, ${h.reason}` : ""}` })))] : []),
    el("div", { className: "wide" }, el("table", {}, el("caption", { className: "unseen", textContent: many ? `The ${WORST} hosts that are worst off` : "Hosts" }), el("tbody", {}, ...(many ? order.slice(0, WORST) : order).map(row)))),
    ...(c.warnings ?? []).map((text) => el("p", { className: "warn", textContent: text })),
    el("div", { className: "line" }, ...(!ended ? [ask("Stop now", "POST", "/stop"), ask("Cancel", "DELETE", "")] : c.state === "committed" ? [open] : []),
      el("button", { className: "tool", textContent: ended ? "Close" : "Close: it goes on", onclick: close })));
}
