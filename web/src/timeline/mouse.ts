// SPDX-License-Identifier: Apache-2.0
// What the mouse does to the timeline: tools, the overview, the names at the left, the wheel, and what is said at the pointer.
import { byId } from "../dom";
import { count, plural, span } from "../format";
import type { Hit, Sample } from "./look";
import { OVERVIEW, psOf, TOP, xOf } from "./scene";
import type { View } from "./view";

const CLICK = 4; // pixels that a hand trembles

export class Mouse {
  private pan: { x: number; y: number; t0: number; t1: number; top: number } | null = null;

  constructor(private readonly v: View, signal: AbortSignal) {
    const canvas = v.canvas, on = { signal };
    canvas.addEventListener("pointerdown", (ev) => this.onDown(ev), on);
    canvas.addEventListener("pointermove", (ev) => this.onMove(ev), on);
    canvas.addEventListener("pointerup", (ev) => this.onUp(ev), on);
    canvas.addEventListener("pointerleave", () => { v.scene.hover = null; byId("v-tip").hidden = true; v.redraw(); }, on);
    canvas.addEventListener("dblclick", (ev) => { const h = v.picture.hit(v.scene, this.at(ev).x, this.at(ev).y); if (h) v.frameOn(h.startPs, h.startPs + h.lengthPs); }, on);
    canvas.addEventListener("wheel", (ev) => this.onWheel(ev), { signal, passive: false });
  }

  private at(ev: MouseEvent): { x: number; y: number } {
    const box = this.v.canvas.getBoundingClientRect();
    return { x: ev.clientX - box.left, y: ev.clientY - box.top };
  }

  private snapped(x: number, y: number): number {
    const { picture, scene } = this.v;
    return xOf(scene, picture.snap(scene, x, y));
  }

  private onDown(ev: PointerEvent): void {
    const { x, y } = this.at(ev), v = this.v, s = v.scene;
    if (ev.button !== 0) return;
    v.canvas.focus();
    v.canvas.setPointerCapture(ev.pointerId);
    if (y < OVERVIEW && x > s.gutter) return this.moveTo(x);
    if (x < s.gutter || y < TOP) return;
    if (v.tool === "pan") this.pan = { x, y, t0: s.t0, t1: s.t1, top: s.y };
    else {
      const from = v.tool === "time" ? this.snapped(x, y) : x;
      s.drag = { kind: v.tool === "select" ? "box" : v.tool, x0: from, y0: y, x1: from, y1: y };
    }
  }

  /* The window goes where the overview was clicked. */
  private moveTo(x: number): void {
    const v = this.v, s = v.scene, half = (s.t1 - s.t0) / 2;
    const middle = v.model.beginPs + (x - s.gutter) / (s.width - s.gutter) * (v.model.endPs - v.model.beginPs);
    v.move(middle - half, middle + half);
  }

  private onMove(ev: PointerEvent): void {
    const { x, y } = this.at(ev), v = this.v, s = v.scene;
    v.pointer = { x, y };
    s.hover = x > s.gutter ? psOf(s, x) : null;
    if (this.pan) {
      const shift = (this.pan.x - x) / (s.width - s.gutter) * (this.pan.t1 - this.pan.t0);
      s.y = this.pan.top + this.pan.y - y;
      v.move(this.pan.t0 + shift, this.pan.t1 + shift);
    } else if (s.drag) {
      s.drag.x1 = v.tool === "time" ? this.snapped(x, y) : x;
      s.drag.y1 = y;
    } else if (ev.buttons === 1 && y < OVERVIEW) this.moveTo(x);
    this.showTip(x, y);
    v.redraw();
  }

  private onUp(ev: PointerEvent): void {
    const v = this.v, s = v.scene, d = s.drag, { x, y } = this.at(ev), time = (at: number): number => psOf(s, at);
    const dragged = d && Math.abs(d.x1 - d.x0) + (d.kind === "box" ? Math.abs(d.y1 - d.y0) : 0) > CLICK;
    s.drag = null;
    if (!d && !this.pan && x < s.gutter) this.toggleAt(y);
    else if (d && !dragged) this.click(v.picture.hit(s, x, y), ev.ctrlKey || ev.metaKey);
    else if (d) {
      const [from, to] = [time(Math.min(d.x0, d.x1)), time(Math.max(d.x0, d.x1))];
      if (d.kind === "box") v.selectBox(time(Math.max(Math.min(d.x0, d.x1), s.gutter)), to, Math.min(d.y0, d.y1), Math.max(d.y0, d.y1));
      else if (d.kind === "time") v.mark(from, to);
      else { v.store(true); v.move(from, to); }
    }
    this.pan = null;
    v.redraw();
  }

  private toggleAt(y: number): void {
    const v = this.v, row = v.model.rows[v.model.rowAt(y - TOP + v.scene.y)];
    if (!row || y < TOP) return;
    v.scene.row = row.key;
    v.toggleRow();
  }

  /* A fold has no details of its own: a click zooms to what it stands for. */
  private click(hit: Hit | null, more: boolean): void {
    const v = this.v;
    if (!hit) { if (!more) v.clear(); return; }
    if (hit.count > 1) return v.frameOn(hit.startPs, hit.startPs + Math.max(hit.lengthPs, 1));
    const place = { file: hit.file, track: hit.track, event: hit.tile.event[hit.entry] };
    if (hit.row.kind === "track") v.select(place, more);
    else v.jump(place); // to the track that says more
  }

  private showTip(x: number, y: number): void {
    const v = this.v, s = v.scene, tip = byId("v-tip"), busy = Boolean(s.drag || this.pan), hit = busy ? null : v.picture.hit(s, x, y), sample = busy ? null : v.picture.sampleAt(s, x, y);
    tip.hidden = !hit && !sample;
    if (hit) tip.textContent = eventTip(hit);
    else if (sample) tip.textContent = sampleTip(sample);
    else return;
    tip.style.left = `${Math.max(0, Math.min(x + 12, s.width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 16}px`;
  }

  private onWheel(ev: WheelEvent): void {
    const v = this.v, s = v.scene, { x } = this.at(ev), size = s.t1 - s.t0;
    ev.preventDefault();
    if (ev.ctrlKey) return v.zoom(Math.exp(ev.deltaY * 0.002), x);
    const sideways = ev.deltaX + (ev.shiftKey ? ev.deltaY : 0);
    if (!ev.shiftKey) s.y += ev.deltaY;
    v.move(s.t0 + sideways / 1000 * size, s.t1 + sideways / 1000 * size);
  }
}

function eventTip(hit: Hit): string {
  const busy = Math.round((hit.tile.row[hit.entry] >>> 16) / 655.35);
  return hit.count > 1 ? `× ${count(hit.count)}, ${busy} % busy, longest: ${hit.name}` : `${hit.name} · ${span(rounded(hit.lengthPs, hit.tile.unit))}`;
}

/* A tile has lengths in a unit: digits below it would be made up. */
function rounded(ps: number, unit: number): number {
  const step = 10 ** Math.ceil(Math.log10(unit));
  return Math.round(ps / step) * step || ps;
}

/* A tile has values as 32-bit floats: seven digits are right. */
function sampleTip(s: Sample): string {
  const text = (v: number): string => Number(v.toPrecision(7)).toLocaleString("en", { maximumSignificantDigits: 7 });
  return s.count > 1 ? `${s.name}: ${text(s.least)} to ${text(s.largest)}, ${plural(s.count, "sample")}` : `${s.name}: ${text(s.last)} since ${span(s.atPs)}`;
}
