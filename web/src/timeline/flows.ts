// SPDX-License-Identifier: Apache-2.0
// The arrows of all flows in the window, while they are wanted: asked for when the window rests.
import { byId } from "../dom";
import { count, plural } from "../format";
import type { View } from "./view";

/** One end of an arrow. */
export interface End { file: number; track: number; event: number; row: number; startPs: number }
export interface Link { from: End; to: End }

/* Of docs/viewer.md: file, track, event, row and start of the one end, then of the other. */
type Pair = [number, number, number, number, string, number, number, number, number, string];
interface LinksDoc { flows: number; links: Pair[] }

const SHOWN = 120, REST_MS = 150;

export class Flows {
  on = false;
  links: Link[] = [];
  private timer = 0;
  private seen = ""; // the window that the links are of

  constructor(private readonly v: View) {}

  /** After each change of the window. */
  follow(): void {
    const s = this.v.scene, tracks = this.v.tracksBetween(0, s.height), window = `${Math.round(s.t0)} ${Math.round(s.t1)} ${tracks}`;
    byId("v-flows")?.setAttribute("aria-pressed", String(this.on));
    clearTimeout(this.timer);
    if (!this.on || window === this.seen) return;
    this.timer = globalThis.setTimeout(() => this.load(window, tracks), REST_MS) as unknown as number;
  }

  private async load(window: string, tracks: string): Promise<void> {
    const s = this.v.scene;
    if (!tracks) return;
    const doc = await this.v.ask<LinksDoc>("links", { from_ps: Math.round(s.t0), to_ps: Math.round(s.t1), tracks, limit: SHOWN });
    if (!doc || !this.on) return;
    this.seen = window;
    this.links = doc.links.map((l) => ({ from: { file: l[0], track: l[1], event: l[2], row: l[3], startPs: Number(l[4]) }, to: { file: l[5], track: l[6], event: l[7], row: l[8], startPs: Number(l[9]) } }));
    this.v.note(doc.flows > doc.links.length ? `${count(doc.links.length)} of ${count(doc.flows)} arrows are drawn: zoom in for all` : plural(doc.flows, "arrow"));
    this.v.redraw();
  }

  toggle(): void {
    this.on = !this.on;
    this.links = [];
    this.seen = "";
    this.v.say(this.on ? "arrows of flows are shown" : "arrows of flows are hidden");
    this.follow();
  }

  close(): void { clearTimeout(this.timer); }
}
