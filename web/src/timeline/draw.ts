// SPDX-License-Identifier: Apache-2.0
// The picture: a worker paints the events, while the one before is shown; text and marks lie on top.
import { el } from "../dom";
import { span } from "../format";
import { isDark, onTheme } from "../theme";
import type { Rgb } from "./color";
import { drawArrows } from "./arrows";
import { type Draft, Drafts } from "./draft";
import type { Label, Painted } from "./job";
import { firstInside, firstOnScreen, type Hit, hitAt, type Sample, sampleAt, snap } from "./look";
import { HOST_HEIGHT, LANE, type Model, PLANE_HEIGHT, type Row } from "./model";
import type { Painter } from "./painter";
import { OVERVIEW, psOf, RULER, type Scene, type Selected, shiftOf, TOP, xOf, yOf } from "./scene";
import type { Tiles } from "./tiles";

const FONT = "11px system-ui, sans-serif";
const BAD_ON_EVENTS = "#b3261e"; // which are light in both themes

interface Theme {
  dark: boolean; ink: string; soft: string; line: string; back: string; card: string; accent: string; select: string; hit: string; hatch: CanvasPattern; hatchOfEvents: CanvasPattern; clock: string; flow: string; warn: string; bad: string; backRgb: Rgb; rowRgb: Rgb }

const rgb = (css: string): Rgb => (css.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number) as Rgb;

function makeHatch(ground: string, line: string): CanvasPattern {
  const size = 8, c = el("canvas", { width: size, height: size }).getContext("2d")!;
  c.fillStyle = ground;
  c.fillRect(0, 0, size, size);
  c.strokeStyle = line;
  for (const x of [-size, 0, size]) { // a slanted line goes on in the next tile
    c.moveTo(x, size);
    c.lineTo(x + size, 0);
  }
  c.stroke();
  return c.createPattern(c.canvas, "repeat")!;
}

/* As the page's style has them now, and as numbers: a system's own colours (forced-colors) are names there. */
function readTheme(): Theme {
  const probe = document.body.appendChild(el("span", { className: "probe" }));
  const v = (name: string): string => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
  const dark = isDark(), theme = {
    dark, ink: v("--ink"), soft: v("--soft"), line: v("--line"), back: v("--back"), card: v("--card"), accent: v("--accent"), select: v("--select"),
    hit: v("--hit"), hatch: makeHatch(v("--lost"), v("--bad")), hatchOfEvents: makeHatch(v("--lost"), BAD_ON_EVENTS), clock: v("--clock"), flow: v("--flow"), warn: v("--warn"), bad: v("--bad"),
    backRgb: rgb(v("--back")), rowRgb: rgb(v("--row")),
  };
  probe.remove();
  return theme;
}

export class Picture {
  private readonly ctx: CanvasRenderingContext2D;
  private theme = readTheme();
  private isStale = true; // something has changed since the last job
  private underWay: Draft | null = null; // at the worker
  private painted: (Draft & Painted) | null = null; // to be shown in the next frame
  private readonly drafts: Drafts;
  onScreen = 0; // entries
  coarse = false; // something was drawn from a coarser tile, or is missing
  missing = 0; // tiles without which a part of a row stayed empty
  arrows = 0;
  drawMs = 0; // what the last picture took, in both threads

  /** onPainted: the next frame has something to show. */
  constructor(private readonly canvas: HTMLCanvasElement, readonly model: Model, tiles: Tiles, private readonly painter: Painter, private readonly onPainted: () => void, signal: AbortSignal) {
    this.ctx = canvas.getContext("2d", { willReadFrequently: true })!;
    this.drafts = new Drafts(model, tiles);
    onTheme(() => { this.theme = readTheme(); }, signal);
  }

  /** The scene is not as it was. */
  change(): void { this.isStale = true; }

  get isShown(): boolean { return !this.isStale && !this.underWay && !this.painted; }

  /** Once a frame: shows what is painted, and has the scene painted as it is now. */
  draw(s: Scene): void {
    if (this.painted) this.show(this.painted);
    this.painted = null;
    if (!this.isStale || this.underWay) return;
    this.isStale = false;
    const draft = this.underWay = this.drafts.make({ ...s }, this.theme);
    this.painter.paint(draft.job, (painted) => {
      this.underWay = null;
      this.painted = painted && { ...draft, ...painted };
      this.onPainted();
    });
  }

  private show({ scene: s, rows, job: { width, height, ratio }, pixels, labels, onScreen, coarse, missing, ms }: Draft & Painted): void {
    const begun = performance.now();
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    this.ctx.setTransform(1, 0, 0, 1, 0, 0);
    this.ctx.putImageData(new ImageData(new Uint8ClampedArray(pixels), width, height), 0, 0);
    this.painter.recycle(pixels);
    Object.assign(this, { onScreen, coarse, missing });
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawTexts(s, rows, labels);
    this.drawMarks(s);
    this.drawGutter(s, rows);
    this.drawRuler(s);
    this.drawTicks(s);
    this.drawMs = ms + performance.now() - begun;
  }

  /* ---- text and marks ---- */

  private clip(s: Scene): void {
    this.ctx.save();
    this.ctx.beginPath();
    this.ctx.rect(s.gutter, TOP, s.width - s.gutter, s.height - TOP);
    this.ctx.clip();
  }

  private drawTexts(s: Scene, rows: Row[], labels: Label[]): void {
    const c = this.ctx;
    this.clip(s);
    this.drawLosses(s, rows);
    c.font = FONT;
    c.textBaseline = "middle";
    c.fillStyle = "#10151d";
    for (const l of labels) c.fillText(fit(l.text, l.width - 6), l.x + 3, l.y + (LANE - 1) / 2);
    for (const row of rows) if (row.kind === "track" && row.info!.counter) this.drawCounter(s, row);
    c.restore();
  }

  /* A hatch where records are known to be missing; once, however many spans lie there: over each other they would be a plain red. */
  private drawLosses(s: Scene, rows: Row[]): void {
    const c = this.ctx;
    for (const row of rows) {
      c.fillStyle = row.kind === "track" ? this.theme.hatchOfEvents : this.theme.hatch;
      for (const [x, end] of joined(this.lossesOf(s, row))) c.fillRect(x, yOf(s, row) + 1, end - x, row.height - 2);
    }
  }

  /* From where to where, in pixels. */
  private lossesOf(s: Scene, row: Row): [number, number][] {
    const out: [number, number][] = [], scale = (s.width - s.gutter) / (s.t1 - s.t0);
    for (const { file, track } of row.losses) for (const { tile, from, to } of this.drafts.pieces(file, track, s, shiftOf(s))) {
      for (let i = from; i < to; i++) {
        const x = xOf(s, tile.fromPs + tile.start[i] * tile.unit);
        out.push([x, x + Math.max(2, tile.length[i] * tile.unit * scale)]);
      }
    }
    return out;
  }

  /* A band from the least to the largest value of each bucket, and the last value as a line: no spike vanishes. */
  private drawCounter(s: Scene, row: Row): void {
    const c = this.ctx, top = yOf(s, row) + 4, height = row.height - 8, info = row.info!;
    const low = Math.min(0, info.min!), high = Math.max(info.max!, low + 1e-9), y = (v: number): number => top + height * (1 - (v - low) / (high - low));
    c.fillStyle = this.theme.clock;
    c.strokeStyle = this.theme.accent;
    c.lineWidth = 1;
    c.beginPath();
    let first = true, lastX = 0, lastY = 0;
    for (const { tile, from, to } of this.drafts.pieces(row.file!, row.track!, s, shiftOf(s))) {
      for (let i = from; i < to; i++) {
        const x = xOf(s, tile.fromPs + tile.start[i] * tile.unit);
        if (tile.count[i] > 1) c.fillRect(x, y(tile.largest[i]), 1.5, Math.max(1, y(tile.least[i]) - y(tile.largest[i])));
        if (first) c.moveTo(x, y(tile.last[i]));
        else if (x >= lastX) { c.lineTo(x, lastY); c.lineTo(x, y(tile.last[i])); }
        first = false;
        lastX = x;
        lastY = y(tile.last[i]);
      }
    }
    if (!first) c.lineTo(Math.max(lastX, Math.min(xOf(s, Number(info.last_ps)), s.width)), lastY);
    c.stroke();
  }

  private boxOf(s: Scene, e: { file: number; track: number; row: number; startPs: number }, durationPs: number): { x: number; y: number; width: number; height: number } | null {
    const row = this.model.trackRow(e.file, e.track);
    if (!row || e.row >= row.shown) return null;
    const x = xOf(s, e.startPs);
    return { x, y: yOf(s, row) + 1 + e.row * LANE, width: Math.max(2, xOf(s, e.startPs + durationPs) - x), height: LANE - 1 };
  }

  private drawMarks(s: Scene): void {
    const c = this.ctx;
    this.clip(s);
    c.font = FONT;
    c.textBaseline = "middle";
    for (const m of s.marks) {
      c.fillStyle = this.theme.clock;
      c.fillRect(xOf(s, m.fromPs), TOP, Math.max(1, xOf(s, m.toPs) - xOf(s, m.fromPs)), s.height);
      c.fillStyle = this.theme.ink;
      c.fillText(span(m.toPs - m.fromPs), xOf(s, m.fromPs) + 3, TOP + 8);
    }
    this.arrows = drawArrows(c, this.model, s, this.theme.flow);
    for (const e of s.selected) this.drawSelected(s, e);
    if (s.hover !== null) {
      c.fillStyle = this.theme.line;
      c.fillRect(xOf(s, s.hover), TOP, 1, s.height);
    }
    if (s.drag) this.drawDrag(s, s.drag);
    c.restore();
  }

  /* The bound of the host's clock is a band around both edges: the event began and ended somewhere in it. */
  private drawSelected(s: Scene, e: Selected): void {
    const box = this.boxOf(s, e, e.durationPs), c = this.ctx, bound = (this.model.find(e.file, e.track)?.host.clock_bound_ns ?? 0) * 1000;
    if (!box) return;
    c.strokeStyle = this.theme.select;
    c.lineWidth = 2;
    c.strokeRect(box.x, box.y, box.width, box.height);
    const wide = 2 * bound / (s.t1 - s.t0) * (s.width - s.gutter), left = Math.floor(Math.max(box.x, s.gutter)), room = Math.min(box.x + box.width, s.width) - left;
    if (wide >= 2) this.drawBound(box, wide, bound);
    if (room < 36) return;
    c.fillStyle = "#10151d"; // once more: what was drawn since lies over it
    c.fillText(fit(e.name, room - 6), left + 3, box.y + (LANE - 1) / 2);
  }

  private drawBound(box: { x: number; y: number; width: number; height: number }, wide: number, bound: number): void {
    const c = this.ctx;
    for (const [x, side] of [[box.x, -1], [box.x + box.width, 1]]) {
      c.fillStyle = this.theme.clock;
      c.fillRect(x - wide / 2, box.y - 2, wide, box.height + 4);
      if (wide > 20) { // outside: the event's own text is within
        c.fillStyle = this.theme.ink;
        c.textAlign = side < 0 ? "right" : "left";
        c.fillText(`±${span(bound)}`, x + side * (wide / 2 + 3), box.y + box.height / 2);
        c.textAlign = "left";
      }
    }
  }

  private drawDrag(s: Scene, d: NonNullable<Scene["drag"]>): void {
    const c = this.ctx, x = Math.min(d.x0, d.x1), width = Math.abs(d.x1 - d.x0);
    const [y, height] = d.kind === "box" ? [Math.min(d.y0, d.y1), Math.abs(d.y1 - d.y0)] : [TOP, s.height];
    c.fillStyle = this.theme.clock;
    c.fillRect(x, y, width, height);
    c.strokeStyle = this.theme.accent;
    c.strokeRect(x, y, width, height);
    if (d.kind === "box") return;
    c.fillStyle = this.theme.ink;
    c.fillText(span(psOf(s, x + width) - psOf(s, x)), x + 4, TOP + 10);
  }

  /* ---- labels at the left, ruler at the top ---- */

  private drawGutter(s: Scene, rows: Row[]): void {
    const c = this.ctx, t = this.theme;
    c.save();
    c.beginPath();
    c.rect(0, TOP, s.width, s.height - TOP);
    c.clip();
    c.fillStyle = t.card;
    c.fillRect(0, TOP, s.gutter, s.height);
    c.textBaseline = "middle";
    for (const row of rows) this.drawLabel(s, row, yOf(s, row));
    c.fillStyle = t.line;
    c.fillRect(s.gutter - 1, TOP, 1, s.height);
    c.restore();
  }

  private drawLabel(s: Scene, row: Row, y: number): void {
    const c = this.ctx, t = this.theme;
    if (row.key === s.row) {
      c.fillStyle = t.accent;
      c.fillRect(0, y, 3, row.height - 1);
    }
    if (row.kind === "host") {
      const bound = row.host.clock_bound_ns;
      c.fillStyle = t.line;
      c.fillRect(0, y, s.width, 1);
      c.font = "600 12px system-ui, sans-serif";
      c.fillStyle = t.ink;
      c.fillText(fitExactly(c, `${this.model.isOpen(row.key) ? "▾" : "▸"} ${row.label}`, s.gutter - 80), 6, y + HOST_HEIGHT / 2);
      c.font = FONT;
      c.fillStyle = bound === null || bound > 1e6 ? t.warn : t.soft;
      c.textAlign = "right";
      c.fillText(bound === null ? "no clock" : `±${span(Number((bound * 1000).toPrecision(3)))}`, s.gutter - 10, y + HOST_HEIGHT / 2);
      c.textAlign = "left";
      if (row.host.state !== "complete") {
        c.fillStyle = row.host.files.length ? t.warn : t.bad;
        c.fillText(fitExactly(c, `${row.host.files.length ? "◐ partial" : "✕ failed"}: ${row.host.reason} ${row.host.detail}`, s.width - s.gutter - 20), s.gutter + 8, y + HOST_HEIGHT / 2);
      }
    } else if (row.kind === "plane") {
      c.font = FONT;
      c.fillStyle = t.ink;
      c.fillText(fitExactly(c, `${this.model.isOpen(row.key) ? "▾" : "▸"} ${row.label}`, s.gutter - 22), 16, y + PLANE_HEIGHT / 2);
    } else {
      const info = row.info!, more = info.rows > row.shown && !info.counter;
      c.font = FONT;
      c.fillStyle = info.events ? t.ink : t.soft;
      c.fillText(fitExactly(c, row.label, s.gutter - 80), 28, y + 9);
      c.fillStyle = t.soft;
      c.textAlign = "right";
      c.fillText(short(info.events), s.gutter - 10, y + 9);
      c.textAlign = "left";
      if (info.counter) c.fillText(fitExactly(c, `max ${Number(info.max!.toPrecision(5))}`, s.gutter - 40), 28, y + 24);
      else if (more) c.fillText(`▸ ${row.shown} of ${info.rows} rows`, 28, y + 9 + LANE);
    }
  }

  private drawRuler(s: Scene): void {
    const c = this.ctx, t = this.theme, span0 = s.t1 - s.t0, px = s.width - s.gutter, step = niceStep(span0 / Math.max(1, px / 110));
    c.fillStyle = t.card;
    c.fillRect(0, OVERVIEW, s.width, RULER);
    c.fillRect(0, 0, s.gutter, OVERVIEW);
    c.fillStyle = t.line;
    c.fillRect(0, TOP - 1, s.width, 1);
    c.font = FONT;
    c.textBaseline = "middle";
    for (let at = Math.ceil(s.t0 / step) * step; at < s.t1; at += step) {
      const x = xOf(s, at);
      c.fillStyle = t.line;
      c.fillRect(x, OVERVIEW, 1, RULER);
      c.fillStyle = t.soft;
      c.fillText(span(Math.round(at)), x + 3, OVERVIEW + RULER / 2);
    }
    const whole = this.model.endPs - this.model.beginPs, x0 = s.gutter + (s.t0 - this.model.beginPs) / whole * px, x1 = s.gutter + (s.t1 - this.model.beginPs) / whole * px;
    c.strokeStyle = t.accent;
    c.lineWidth = 1.5;
    c.strokeRect(Math.max(s.gutter, x0), 1, Math.max(3, Math.min(s.width, x1) - Math.max(s.gutter, x0)), OVERVIEW - 3);
  }

  /* Matches of the search, wherever they are; a match alone is as tall as many. */
  private drawTicks(s: Scene): void {
    const px = (s.width - s.gutter) / (s.ticks?.length || 1);
    this.ctx.fillStyle = this.theme.hit;
    s.ticks?.forEach((n, i) => { if (n) this.ctx.fillRect(s.gutter + i * px, OVERVIEW - 9, Math.max(px, 1.5), 7); });
  }

  /* ---- the pointer, and keys ---- */

  hit(s: Scene, x: number, y: number): Hit | null { return hitAt(this.drafts, s, x, y); }
  sampleAt(s: Scene, x: number, y: number): Sample | null { return sampleAt(this.drafts, s, x, y); }
  snap(s: Scene, x: number, y: number): number { return snap(this.drafts, s, x, y); }
  firstOnScreen(s: Scene, row: Row): number | null { return firstOnScreen(this.drafts, s, row); }
  firstInside(s: Scene, e: Selected): number | null { return firstInside(this.drafts, s, e); }
}

function niceStep(ps: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(ps, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= ps)!;
}

const short = (n: number): string => n < 1e4 ? `${n}` : n < 1e6 ? `${(n / 1e3).toFixed(0)} k` : `${(n / 1e6).toFixed(1)} M`;

/* The same spans, those that touch as one. */
function joined(spans: [number, number][]): [number, number][] {
  const out: [number, number][] = [];
  for (const [from, to] of spans.sort((a, b) => a[0] - b[0])) {
    const last = out.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else out.push([from, to]);
  }
  return out;
}

/* As much of the text as fits in the present font, exactly. */
function fitExactly(c: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${c.font} ${Math.round(width)} ${text}`, known = fitted.get(key);
  if (known !== undefined) return known;
  let low = 0, high = Math.min(text.length, 200);
  if (high === text.length && c.measureText(text).width <= width) low = high;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (c.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  const out = low === text.length ? text : low < 2 ? "" : `${text.slice(0, low)}…`;
  if (fitted.size >= FITTED_MAX) fitted.clear();
  fitted.set(key, out);
  return out;
}

const FITTED_MAX = 5000;
const fitted = new Map<string, string>();

/** As much of the text as fits; 11 px text is about 6 px a letter. */
function fit(text: string, width: number): string {
  const letters = Math.max(0, Math.floor(width / 5.9));
  return text.length <= letters ? text : letters < 3 ? "" : `${text.slice(0, letters - 1)}…`;
}
