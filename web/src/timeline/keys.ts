// SPDX-License-Identifier: Apache-2.0
// What keys do to the timeline. W, A, S and D are told by their place, so that other layouts have them under the same fingers.
import { byId } from "../dom";
import type { View } from "./view";

export type Tool = "select" | "pan" | "zoom" | "time";
export const TOOLS: [Tool, string, string, string][] = [["select", "1", "!", "Select"], ["pan", "2", "@", "Pan"], ["zoom", "3", "#", "Zoom"], ["time", "4", "$", "Measure"]];

/** All of them, for people: docs/viewer.md has the same. */
export const KEYS: [string, string][] = [
  ["W S", "zoom in and out at the pointer; hold to go on"], ["A D", "move left and right; with Shift faster"],
  ["1 2 3 4, or ! @ # $", "select, pan, zoom, measure"], ["click, Ctrl+click, drag", "select an event, one more, all in a box"],
  ["x", "sum up all that is on the screen, as a box over it does"], ["h", "all events of this name: hosts, histogram, the longest"],
  ["g", "flame graph of the box, or of the window"], ["l", "which host is late; Enter goes there"], ["v", "arrows of all flows in the window"],
  ["j k", "the next and the previous row: host, plane or track"], ["o", "open or close the row"],
  ["p, P", "pin the event's track on top, or put it back; move it up among the pinned ones"], ["t", "show only tracks with a text in their name"],
  ["f", "zoom to what is selected"], ["m", "mark what is selected, with its length"], ["M", "remove all marks"],
  ["← →", "the event before and after on the track; without one, the row's first on the screen"], ["↑ ↓", "the event around this one; the first one inside"],
  ["/", "find in the whole session"], ["Enter, Shift+Enter", "next and previous match"],
  ["wheel, Ctrl+wheel, Shift+wheel", "scroll, zoom, move"], ["PageUp, PageDown", "scroll by half a screen"], ["double click", "zoom to the event"],
  ["0", "the whole session"], ["Esc", "select nothing"],
];

const ZOOM = 2.2; // e-folds a second
const MOVES = ["KeyW", "KeyA", "KeyS", "KeyD"];

export class Keys {
  private readonly held = new Set<string>();
  private lastFrame = 0;

  constructor(private readonly v: View, signal: AbortSignal) {
    const on = { signal };
    window.addEventListener("keydown", (ev) => this.onKey(ev), on);
    window.addEventListener("keyup", (ev) => { this.held.delete(ev.code); if (ev.key === "Shift") this.held.delete("Shift"); v.redraw(); }, on);
    window.addEventListener("blur", () => this.held.clear(), on);
  }

  get areHeld(): boolean { return this.held.size > 0; }

  /** Keys that are held move the window as long as they are. */
  step(now: number): void {
    const v = this.v, elapsed = Math.min(100, this.lastFrame ? now - this.lastFrame : 16) / 1000;
    this.lastFrame = this.held.size ? now : 0;
    if (!this.held.size) return;
    const by = (v.scene.t1 - v.scene.t0) * elapsed * (this.held.has("Shift") ? 3 : 1);
    if (this.held.has("KeyW")) v.zoom(Math.exp(-ZOOM * elapsed));
    if (this.held.has("KeyS")) v.zoom(Math.exp(ZOOM * elapsed));
    if (this.held.has("KeyA")) v.move(v.scene.t0 - by, v.scene.t1 - by);
    if (this.held.has("KeyD")) v.move(v.scene.t0 + by, v.scene.t1 + by);
    v.redraw();
  }

  private onKey(ev: KeyboardEvent): void {
    const v = this.v, at = ev.target as HTMLElement, typing = at instanceof HTMLInputElement || at instanceof HTMLSelectElement || at instanceof HTMLTextAreaElement;
    if (document.querySelector("dialog[open]")) return;
    if (ev.key === "Enter" && (at === byId("v-find") || at === v.canvas || at === document.body)) {
      v.canvas.focus(); // so that keys go on working after a search
      return void v.next(ev.shiftKey);
    }
    if (ev.key === "Escape") { if (typing) at.blur(); return v.clear(); }
    if (typing || ev.ctrlKey || ev.metaKey || ev.altKey) return;
    if (MOVES.includes(ev.code)) {
      if (ev.repeat) return;
      this.held.add(ev.code);
      if (ev.shiftKey) this.held.add("Shift");
      return v.redraw();
    }
    if (this.act(ev)) ev.preventDefault();
  }

  /* Whether the key does something. */
  private act(ev: KeyboardEvent): boolean {
    const v = this.v, tool = TOOLS.find(([, key, shifted]) => ev.key === key || ev.key === shifted), extent = v.extent(), page = v.scene.height / 2;
    if (tool) return v.choose(tool[0]), true;
    switch (ev.key) {
      case "f": if (extent) v.frameOn(...extent); return true;
      case "m": if (extent) v.mark(...extent); return true;
      case "M": v.scene.marks = []; v.redraw(); return true;
      case "h": if (v.scene.selected[0]) v.showAll(v.scene.selected[0]); return true;
      case "x": v.sumScreen(); return true;
      case "g": v.flame(); return true;
      case "l": v.late(); return true;
      case "v": v.toggleFlows(); return true;
      case "p": v.pin(); return true;
      case "P": v.raise(); return true;
      case "t": byId("v-only").focus(); return true;
      case "0": v.store(true); v.move(v.model.beginPs, v.model.endPs); return true;
      case "/": byId("v-find").focus(); byId<HTMLInputElement>("v-find").select(); return true;
      case "j": v.walkRows(1); return true;
      case "k": v.walkRows(-1); return true;
      case "o": v.toggleRow(); return true;
      case "PageUp": case "PageDown": v.scroll(ev.key === "PageUp" ? -page : page); return true;
      case "ArrowLeft": case "ArrowRight": v.walk(ev.key === "ArrowLeft" ? -1 : 1); return true;
      case "ArrowUp": v.goOut(); return true;
      case "ArrowDown": v.goIn(); return true;
    }
    return false;
  }
}
