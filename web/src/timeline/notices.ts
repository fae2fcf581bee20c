// SPDX-License-Identifier: Apache-2.0
// What a reader must know before he believes the picture.
import { byId, el } from "../dom";
import { count, plural, span } from "../format";
import type { Catalogue } from "./model";

const NAMED = 6;

const names = (hosts: { host: string; reason?: string }[]): string =>
  hosts.slice(0, NAMED).map((h) => `${h.host}${h.reason ? ` (${h.reason})` : ""}`).join(", ") + (hosts.length > NAMED ? `, and ${hosts.length - NAMED} more` : "");

function noticesOf(doc: Catalogue): string[] {
  const out: string[] = [], there = doc.hosts.filter((h) => h.files.length), missing = doc.hosts.filter((h) => !h.files.length);
  const lost = doc.hosts.filter((h) => h.lost), unknown = there.filter((h) => h.clock_bound_ns === null), loose = there.filter((h) => h.clock_bound_ns! > 1e6);
  const unplaced = there.flatMap((h) => h.files.flatMap((f) => f.planes.flatMap((p) => p.tracks))).reduce((n, t) => n + (t.unplaced ?? 0), 0);
  if (missing.length) out.push(`${missing.length} of ${plural(doc.hosts.length, "host")} gave nothing: ${names(missing)} `);
  for (const f of there.flatMap((h) => h.files)) if (f.error) out.push(`Not shown: ${f.error} `);
  if (lost.length) out.push(`Records are known to be lost: ${lost.slice(0, NAMED).map((h) => `${count(h.lost)} on ${h.host}`).join(", ")}${lost.length > NAMED ? `, and on ${lost.length - NAMED} more hosts` : ""} `);
  if (unknown.length && doc.hosts.length > 1) out.push(`Not calibrated, so their times cannot be compared with those of others: ${names(unknown.map(({ host }) => ({ host })))} `);
  if (loose.length) out.push(`Clocks that may be off by more than 1 ms: ${loose.slice(0, NAMED).map((h) => `${h.host} (±${span(h.clock_bound_ns! * 1000)})`).join(", ")}${loose.length > NAMED ? `, and ${loose.length - NAMED} more` : ""} `);
  if (unplaced) out.push(`${plural(unplaced, "event")} have times out of range and are not shown `);
  return out;
}

/** The lines above the picture: what the catalogue says, which changes while the session is indexed, and what the page offers. */
export class Notices {
  private readonly dismissed = new Set<string>();
  private offers: Node[] = [];
  private lines: Node[] = [];

  constructor(private readonly onChange: () => void) {}

  take(doc: Catalogue): void {
    this.lines = noticesOf(doc).filter((text) => !this.dismissed.has(text)).map((text) => {
      const p = el("p", {}, text, el("button", { className: "plain", textContent: "dismiss", onclick: () => { this.dismissed.add(text); this.lines.splice(this.lines.indexOf(p), 1); this.show(); } }));
      return p;
    });
    this.show();
  }

  offer(text: string, verb: string, act: () => void): void {
    const p = el("p", {}, text, el("button", { className: "link", textContent: verb, onclick: () => { this.offers.splice(this.offers.indexOf(p), 1); this.show(); act(); } }));
    this.offers.push(p);
    this.show();
  }

  private show(): void {
    byId("v-notices").replaceChildren(...this.lines, ...this.offers);
    this.onChange();
  }
}
