// SPDX-License-Identifier: Apache-2.0
// Finding events in the whole session: the aggregator counts, lists and steps; the page pales what does not match.
import { byId } from "../dom";
import { plural } from "../format";
import { type SearchDoc, showSearch } from "./panel";
import type { Jump } from "./sums";
import type { View } from "./view";

const TYPING_MS = 120;
export const TICKS = 512; // of the overview

export interface SearchFlags { pattern: boolean; case: boolean }
const BUTTONS = ["pattern", "case"] as const;

export class Search {
  text = "";
  private doc: SearchDoc | null = null;
  private timer = 0;

  constructor(private readonly v: View, signal: AbortSignal) {
    byId("v-find").addEventListener("input", (ev) => this.find((ev.target as HTMLInputElement).value), { signal });
    for (const key of BUTTONS) byId(`v-${key}`).addEventListener("click", () => {
      this.flags = { ...this.flags, [key]: !this.flags[key] };
      this.find(this.text);
    }, { signal });
  }

  get flags(): SearchFlags {
    const on = (key: string): boolean => byId(`v-${key}`).getAttribute("aria-pressed") === "true";
    return { pattern: on("pattern"), case: on("case") };
  }

  set flags(to: SearchFlags) { for (const key of BUTTONS) byId(`v-${key}`).setAttribute("aria-pressed", String(to[key])); }

  private get asked(): { text: string; pattern: number; case: number } { return { text: this.text, pattern: Number(this.flags.pattern), case: Number(this.flags.case) }; }

  find(text: string): void {
    this.text = text;
    this.doc = null;
    Object.assign(this.v.scene, { find: text ? { text, ...this.flags } : null, ticks: null });
    byId("v-hits").textContent = "";
    clearTimeout(this.timer);
    this.v.redraw();
    if (text) this.timer = window.setTimeout(() => this.run(text), TYPING_MS);
    else if (!this.v.scene.selected.length) this.v.closePanel();
  }

  private async run(text: string): Promise<void> {
    const v = this.v, doc = await v.ask<SearchDoc>("search", this.asked);
    if (!doc || this.text !== text) return;
    this.doc = doc;
    byId("v-hits").textContent = doc.matches ? plural(doc.matches, "match", "matches") : "no match";
    if (!v.scene.selected.length) {
      showSearch(v.model, text, doc, () => this.next(false), () => v.closePanel());
      v.resize();
    }
    v.move(v.scene.t0, v.scene.t1);
    const where = doc.matches ? await v.ask<{ bins: number[] }>("spread", { ...this.asked, from_ps: Math.floor(v.model.beginPs), to_ps: Math.ceil(v.model.endPs), bins: TICKS }) : null;
    if (!where || this.text !== text) return;
    v.scene.ticks = where.bins;
    v.redraw();
  }

  /** The next match from the selected event on, or from the window's edge; after the last one, the first. */
  async next(backward: boolean): Promise<void> {
    const v = this.v, s = v.scene, [e] = s.selected;
    if (!this.text) return;
    const from = e ? { start_ps: e.startPs, file: e.file, track: e.track, event: e.event } : { start_ps: Math.round(backward ? s.t1 : s.t0), file: 0, track: 0, event: 0 };
    const query = { ...this.asked, backward: Number(backward) }, around = backward ? Math.round(v.model.endPs) + 1 : Math.round(v.model.beginPs) - 1;
    let doc = await v.ask<Jump & { found: boolean }>("next", { ...query, ...from });
    if (doc && !doc.found && this.doc?.matches) doc = await v.ask<Jump & { found: boolean }>("next", { ...query, start_ps: around, file: 0, track: 0, event: 0 });
    if (doc?.found) await v.jump({ file: doc.file, track: doc.track, event: doc.event });
    else if (doc) v.say("no match");
  }

  close(): void { clearTimeout(this.timer); }
}
