// SPDX-License-Identifier: Apache-2.0
// The picture: events are filled into memory, one line of pixels a lane, then copied; text and marks lie on top.
import { el } from "../dom";
import { span } from "../format";
import { isDark, onTheme } from "../theme";
import { colorOf, mix, pack, type Rgb } from "./color";
import { drawArrows } from "./arrows";
import type { Link } from "./flows";
import { firstInside, firstOnScreen, type Hit, hitAt, type Sample, sampleAt, snap } from "./look";
import { paintEntries, shadeEntries } from "./paint";
import { HOST_HEIGHT, LANE, type Model, PLANE_HEIGHT, type Row, STRIP } from "./model";
import { BUCKETS, GROUP, type Tile, type Tiles } from "./tiles";

export type { Hit, Sample };

export const RULER = 26, OVERVIEW = 34;

export interface Selected { file: number; track: number; event: number; row: number; startPs: number; durationPs: number; name: string }
export interface Mark { fromPs: number; toPs: number }

export interface Scene {
  t0: number; t1: number; y: number; gutter: number;
  width: number; height: number; // CSS pixels
  row: string; // the key of the row that the keyboard is at; "" = none
  selected: Selected[];
  links: () => Link[]; // arrows of the window
  flows: { file: number; track: number; row: number; startPs: number; direction: number }[];
  marks: Mark[];
  drag: { kind: "box" | "zoom" | "time"; x0: number; y0: number; x1: number; y1: number } | null;
  find: (name: string) => boolean; // whether the search has the name
  finding: boolean;
  ticks: number[] | null; // matches of the search, from the session's begin to its end
  hover: number | null; // ps
}

interface Theme {
  dark: boolean; ink: string; soft: string; line: string; back: string; card: string; accent: string; select: string; hit: string; lost: string; clock: string; flow: string; warn: string; bad: string; backRgb: Rgb; rowRgb: Rgb }

const rgb = (css: string): Rgb => (css.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number) as Rgb;

/* As the page's style has them now, and as numbers: a system's own colours (forced-colors) are names there. */
function readTheme(): Theme {
  const probe = document.body.appendChild(el("span", { className: "probe" }));
  const v = (name: string): string => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
  const dark = isDark(), theme = {
    dark, ink: v("--ink"), soft: v("--soft"), line: v("--line"), back: v("--back"), card: v("--card"), accent: v("--accent"), select: v("--select"),
    hit: v("--hit"), lost: v("--lost"), clock: v("--clock"), flow: v("--flow"), warn: v("--warn"), bad: v("--bad"),
    backRgb: rgb(v("--back")), rowRgb: rgb(v("--row")),
  };
  probe.remove();
  return theme;
}

interface Label { x: number; y: number; width: number; text: string }

/* The colours of a tile's entries, as long as what they follow from is the same. */
interface Shades { theme: Theme; find: Scene["find"]; tracks: number; colors: Uint32Array }

/* The strip of the whole session, as long as it is made of the same tiles. */
interface Strip { tiles: (Tile | null)[]; of: string; theme: Theme; words: Uint32Array }

export class Picture {
  private readonly ctx: CanvasRenderingContext2D;
  private pixels: ImageData | null = null;
  private theme = readTheme();
  private labels: Label[] = [];
  private readonly shades = new WeakMap<Tile, Shades>();
  private strip: Strip | null = null;
  private readonly filled = new Uint8Array(256); // lanes of a row that have an entry
  onScreen = 0; // entries
  coarse = false; // something was drawn from a coarser tile, or is missing
  missing = 0; // tiles without which a part of a row stayed empty
  arrows = 0;
  drawMs = 0; // what the last picture took

  constructor(private readonly canvas: HTMLCanvasElement, readonly model: Model, private readonly tiles: Tiles, signal: AbortSignal) {
    this.ctx = canvas.getContext("2d", { willReadFrequently: true })!;
    onTheme(() => { this.theme = readTheme(); }, signal);
  }

  /** A bucket is one to two pixels wide: a row has two entries a pixel at most. */
  shiftOf(s: Scene): number {
    return Math.max(0, Math.min(50, Math.ceil(Math.log2(Math.max(1, (s.t1 - s.t0) / Math.max(1, s.width - s.gutter))))));
  }

  draw(s: Scene): void {
    const begun = performance.now(), ratio = window.devicePixelRatio || 1, w = Math.max(1, Math.round(s.width * ratio)), h = Math.max(1, Math.round(s.height * ratio));
    if (this.canvas.width !== w || this.canvas.height !== h) Object.assign(this.canvas, { width: w, height: h });
    if (!this.pixels || this.pixels.width !== w || this.pixels.height !== h) this.pixels = new ImageData(w, h);
    this.labels = [];
    this.onScreen = 0;
    this.coarse = false;
    this.missing = 0;
    const words = new Uint32Array(this.pixels.data.buffer);
    words.fill(pack(this.theme.backRgb));
    this.tiles.begin();
    this.fillOverview(words, w, ratio, s);
    for (const row of this.visible(s)) this.fillRow(words, w, h, ratio, s, row);
    this.ctx.putImageData(this.pixels, 0, 0);
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawTexts(s);
    this.drawMarks(s);
    this.drawGutter(s);
    this.drawRuler(s);
    this.drawTicks(s);
    this.tiles.end();
    this.drawMs = performance.now() - begun;
  }

  private *visible(s: Scene): Generator<Row> {
    for (let i = this.model.rowAt(s.y); i < this.model.rows.length && this.model.rows[i].y < s.y + s.height; i++) yield this.model.rows[i];
  }

  top(): number { return OVERVIEW + RULER; }
  x(s: Scene, ps: number): number { return s.gutter + (ps - s.t0) / (s.t1 - s.t0) * (s.width - s.gutter); }
  ps(s: Scene, x: number): number { return s.t0 + (x - s.gutter) / (s.width - s.gutter) * (s.t1 - s.t0); }
  rowY(s: Scene, row: Row): number { return this.top() + row.y - s.y; }

  /* ---- events ---- */

  *pieces(file: number, track: number, s: { t0: number; t1: number }, shift: number, wanted = true): Generator<{ tile: Tile; from: number; to: number; lowPs: number; highPs: number }> {
    const size = BUCKETS * 2 ** shift, group = Math.floor(track / GROUP), k = track % GROUP;
    for (let i = Math.floor(s.t0 / size); i * size < s.t1; i++) {
      const tile = this.tiles.get(file, group, shift, i, wanted);
      const has = tile && k < tile.ends.length; // one that was made while the session was indexed may have fewer tracks
      if (wanted && (!has || tile.shift !== shift)) this.coarse = true;
      if (wanted && !has) this.missing++;
      if (has) yield { tile, from: k ? tile.ends[k - 1] : 0, to: tile.ends[k], lowPs: i * size, highPs: (i + 1) * size };
    }
  }

  /* Reckoned once for a tile: a picture has some ten thousand entries. */
  private shadesOf(tile: Tile, file: number, group: number, s: Scene): Uint32Array {
    const known = this.shades.get(tile), theme = this.theme, ground = pack(theme.rowRgb);
    if (known?.theme === theme && known.find === s.find && known.tracks === tile.ends.length) return known.colors;
    const { names, ends } = tile, colors = new Uint32Array(tile.start.length), found = s.finding ? Uint8Array.from(names, (n) => Number(s.find(n))) : null;
    const ofName: { [device: string]: Uint32Array } = {};
    for (let k = 0; k < ends.length; k++) {
      const device = this.model.find(file, group * GROUP + k)?.plane.name.startsWith("/device") ?? false, from = k ? ends[k - 1] : 0;
      if (from < ends[k]) shadeEntries(colors, tile, from, ends[k], ofName[String(device)] ??= Uint32Array.from(names, (n) => colorOf(n, device, theme.dark)), found, ground);
    }
    this.shades.set(tile, { theme, find: s.find, tracks: tile.ends.length, colors });
    return colors;
  }

  private fillRow(words: Uint32Array, w: number, h: number, ratio: number, s: Scene, row: Row): void {
    const top = Math.round(this.rowY(s, row) * ratio), least = Math.round(this.top() * ratio), left = Math.round(s.gutter * ratio);
    const fillBand = (y: number, height: number, value: number): void => {
      for (let at = Math.max(y, least); at < Math.min(y + height, h); at++) words.fill(value, at * w + left, at * w + w);
    };
    const height = Math.round(row.height * ratio);
    if (row.kind === "track") {
      fillBand(top, height - 1, pack(this.theme.rowRgb));
      if (row.info!.counter) return;
      if (row.info!.events) this.fillTrack(words, w, h, ratio, s, row, row.track!, top + Math.round(ratio), LANE, row.shown, true);
    } else if (row.kind === "plane" && !this.model.isOpen(row.key)) {
      row.plane!.tracks.slice(0, GROUP).forEach((t, i) => {
        if (!t.counter && t.events) this.fillTrack(words, w, h, ratio, s, row, row.plane!.first_track + i, top + Math.round((PLANE_HEIGHT - STRIP) / 2 * ratio), STRIP, 1, false);
      });
    }
  }

  /* Of each lane one line of pixels is filled, then copied to the others: what an entry costs does not depend on its height. */
  private fillTrack(words: Uint32Array, w: number, h: number, ratio: number, s: Scene, row: Row, track: number, top: number, lane: number, lanes: number, labels: boolean): void {
    const left = Math.round(s.gutter * ratio), scale = (w - left) / (s.t1 - s.t0), least = Math.round(this.top() * ratio), ground = pack(this.theme.rowRgb);
    const laneHeight = Math.round(lane * ratio), body = Math.max(1, laneHeight - Math.max(1, Math.round(ratio)));
    const firstLane = Math.max(0, Math.ceil((least - body + 1 - top) / laneHeight)), endLane = Math.min(lanes, Math.ceil((h - top) / laneHeight)), { filled } = this;
    filled.fill(0);
    for (const { tile, from, to, lowPs, highPs } of this.pieces(row.file!, track, s, this.shiftOf(s))) {
      const colors = this.shadesOf(tile, row.file!, Math.floor(track / GROUP), s), zero = left + (tile.fromPs - s.t0) * scale, unit = tile.unit * scale, wide: number[] = [];
      const low = left + (lowPs - s.t0) * scale, high = left + (highPs - s.t0) * scale, labelsFrom = lowPs > s.t0 ? low : -Infinity;
      const place = { zero, unit, low, high, left, width: w, top, least, lane: laneHeight, firstLane, endLane, edged: 4 * ratio, labelled: labels ? 36 * ratio : Infinity };
      this.onScreen += paintEntries(words, colors, tile, from, to, place, ground, filled, wide);
      for (const i of wide) {
        const exact = zero + tile.start[i] * unit, x0 = Math.floor(Math.max(exact, left)), x1 = Math.min(Math.ceil(exact + tile.length[i] * unit), w);
        if (exact >= labelsFrom) this.labels.push({ x: x0 / ratio, y: (top + (tile.row[i] & 0xffff) * laneHeight) / ratio, width: (x1 - x0) / ratio, text: tile.names[tile.name[i]] ?? "" });
      }
    }
    for (let at = firstLane; at < endLane; at++) {
      const y = top + at * laneHeight, first = Math.max(y, least), end = Math.min(y + body, h);
      for (let line = first + 1; filled[at] && line < end; line++) words.copyWithin(line * w + left, first * w + left, (first + 1) * w);
    }
  }

  /* All of the session: how busy, host by host; the window is a frame in it. */
  private fillOverview(words: Uint32Array, w: number, ratio: number, s: Scene): void {
    const { beginPs, endPs } = this.model, shift = this.shiftOf({ ...s, t0: beginPs, t1: endPs }), size = BUCKETS * 2 ** shift;
    const places: { file: number; group: number }[] = [], tiles: (Tile | null)[] = [], of = `${w} ${ratio} ${s.gutter} ${beginPs} ${endPs} ${shift}`;
    for (const at of this.overviewPlanes()) for (let i = Math.floor(beginPs / size); i * size < endPs; i++) {
      places.push(at);
      tiles.push(this.tiles.get(at.file, at.group, shift, i));
    }
    const known = this.strip, isSame = known?.of === of && known.theme === this.theme && known.tiles.length === tiles.length && known.tiles.every((t, i) => t === tiles[i]);
    if (!isSame) this.strip = { tiles, of, theme: this.theme, words: this.makeStrip(places, tiles, w, ratio, s) };
    words.set(this.strip!.words);
  }

  private makeStrip(places: { file: number; group: number }[], tiles: (Tile | null)[], w: number, ratio: number, s: Scene): Uint32Array {
    const { beginPs, endPs } = this.model, left = Math.round(s.gutter * ratio), scale = (w - left) / (endPs - beginPs), height = Math.round((OVERVIEW - 2) * ratio);
    const sums = new Float32Array(w), words = new Uint32Array(w * height).fill(pack(this.theme.backRgb));
    tiles.forEach((tile, n) => {
      const { file, group } = places[n], isCounter = Array.from({ length: GROUP }, (_, k) => this.model.find(file, group * GROUP + k)?.info.counter);
      for (let e = 0, k = 0; tile && e < tile.start.length; e++) {
        while (e >= tile.ends[k]) k++;
        if (isCounter[k] || tile.row[e] & 0xffff) continue;
        const from = left + (tile.fromPs + tile.start[e] * tile.unit - beginPs) * scale;
        const x0 = Math.max(left, Math.floor(from)), x1 = Math.min(w, Math.ceil(from + tile.length[e] * tile.unit * scale));
        for (let x = x0; x < Math.max(x1, x0 + 1) && x < w; x++) sums[x] += (tile.row[e] >>> 16) / 65535;
      }
    });
    const most = sums.reduce((a, b) => Math.max(a, b), 1), color = pack(mix(this.theme.dark ? [122, 162, 247] : [36, 87, 197], this.theme.backRgb, 0.55));
    for (let x = left; x < w; x++) {
      const from = height - Math.round(height * Math.sqrt(sums[x] / most));
      for (let y = from; y < height; y++) words[y * w + x] = color;
    }
    return words;
  }

  /* The first tracks of at most a few files stand for all: more would load tiles for one strip. */
  private overviewPlanes(): { file: number; group: number }[] {
    const out: { file: number; group: number }[] = [];
    for (const host of this.model.doc.hosts.slice(0, 8)) {
      const f = host.files[0], plane = f?.planes.find((p) => p.name.startsWith("/device")) ?? f?.planes[0];
      if (plane) out.push({ file: f.file, group: Math.floor(plane.first_track / GROUP) });
    }
    return out;
  }

  /* ---- text and marks ---- */

  private clip(s: Scene): void {
    this.ctx.save();
    this.ctx.beginPath();
    this.ctx.rect(s.gutter, this.top(), s.width - s.gutter, s.height - this.top());
    this.ctx.clip();
  }

  private drawTexts(s: Scene): void {
    const c = this.ctx;
    this.clip(s);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillStyle = "#10151d";
    for (const l of this.labels.slice(0, 1500)) c.fillText(fit(l.text, l.width - 6), l.x + 3, l.y + (LANE - 1) / 2);
    for (const row of this.visible(s)) if (row.kind === "track" && row.info!.counter) this.drawCounter(s, row);
    c.restore();
  }

  /* A band from the least to the largest value of each bucket, and the last value as a line: no spike vanishes. */
  private drawCounter(s: Scene, row: Row): void {
    const c = this.ctx, top = this.rowY(s, row) + 4, height = row.height - 8, info = row.info!;
    const low = Math.min(0, info.min!), high = Math.max(info.max!, low + 1e-9), y = (v: number): number => top + height * (1 - (v - low) / (high - low));
    c.fillStyle = this.theme.clock;
    c.strokeStyle = this.theme.accent;
    c.lineWidth = 1;
    c.beginPath();
    let first = true, lastX = 0, lastY = 0;
    for (const { tile, from, to } of this.pieces(row.file!, row.track!, s, this.shiftOf(s))) {
      for (let i = from; i < to; i++) {
        const x = this.x(s, tile.fromPs + tile.start[i] * tile.unit);
        if (tile.count[i] > 1) c.fillRect(x, y(tile.largest[i]), 1.5, Math.max(1, y(tile.least[i]) - y(tile.largest[i])));
        if (first) c.moveTo(x, y(tile.last[i]));
        else if (x >= lastX) { c.lineTo(x, lastY); c.lineTo(x, y(tile.last[i])); }
        first = false;
        lastX = x;
        lastY = y(tile.last[i]);
      }
    }
    if (!first) c.lineTo(Math.max(lastX, Math.min(this.x(s, Number(info.last_ps)), s.width)), lastY);
    c.stroke();
  }

  private boxOf(s: Scene, e: { file: number; track: number; row: number; startPs: number }, durationPs: number): { x: number; y: number; width: number; height: number } | null {
    const row = this.model.trackRow(e.file, e.track);
    if (!row || e.row >= row.shown) return null;
    const x = this.x(s, e.startPs);
    return { x, y: this.rowY(s, row) + 1 + e.row * LANE, width: Math.max(2, this.x(s, e.startPs + durationPs) - x), height: LANE - 1 };
  }

  private drawMarks(s: Scene): void {
    const c = this.ctx;
    this.clip(s);
    for (const m of s.marks) {
      c.fillStyle = this.theme.clock;
      c.fillRect(this.x(s, m.fromPs), this.top(), Math.max(1, this.x(s, m.toPs) - this.x(s, m.fromPs)), s.height);
      c.fillStyle = this.theme.ink;
      c.fillText(span(m.toPs - m.fromPs), this.x(s, m.fromPs) + 3, this.top() + 8);
    }
    this.arrows = drawArrows(c, this, s, this.theme.flow);
    for (const e of s.selected) this.drawSelected(s, e);
    if (s.hover !== null) {
      c.fillStyle = this.theme.line;
      c.fillRect(this.x(s, s.hover), this.top(), 1, s.height);
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
    const [y, height] = d.kind === "box" ? [Math.min(d.y0, d.y1), Math.abs(d.y1 - d.y0)] : [this.top(), s.height];
    c.fillStyle = this.theme.clock;
    c.fillRect(x, y, width, height);
    c.strokeStyle = this.theme.accent;
    c.strokeRect(x, y, width, height);
    if (d.kind === "box") return;
    c.fillStyle = this.theme.ink;
    c.fillText(span(this.ps(s, x + width) - this.ps(s, x)), x + 4, this.top() + 10);
  }

  /* ---- labels at the left, ruler at the top ---- */

  private drawGutter(s: Scene): void {
    const c = this.ctx, t = this.theme;
    c.save();
    c.beginPath();
    c.rect(0, this.top(), s.width, s.height - this.top());
    c.clip();
    c.fillStyle = t.card;
    c.fillRect(0, this.top(), s.gutter, s.height);
    c.textBaseline = "middle";
    for (const row of this.visible(s)) this.drawLabel(s, row, this.rowY(s, row));
    c.fillStyle = t.line;
    c.fillRect(s.gutter - 1, this.top(), 1, s.height);
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
      c.font = "11px system-ui, sans-serif";
      c.fillStyle = bound === null || bound > 1e6 ? t.warn : t.soft;
      c.textAlign = "right";
      c.fillText(bound === null ? "no clock" : `±${span(Number((bound * 1000).toPrecision(3)))}`, s.gutter - 10, y + HOST_HEIGHT / 2);
      c.textAlign = "left";
      if (row.host.state !== "complete") {
        c.fillStyle = row.host.files.length ? t.warn : t.bad;
        c.fillText(fitExactly(c, `${row.host.files.length ? "◐ partial" : "✕ failed"}: ${row.host.reason} ${row.host.detail}`, s.width - s.gutter - 20), s.gutter + 8, y + HOST_HEIGHT / 2);
      }
    } else if (row.kind === "plane") {
      c.font = "11px system-ui, sans-serif";
      c.fillStyle = t.ink;
      c.fillText(fitExactly(c, `${this.model.isOpen(row.key) ? "▾" : "▸"} ${row.label}`, s.gutter - 22), 16, y + PLANE_HEIGHT / 2);
    } else {
      const info = row.info!, more = info.rows > row.shown && !info.counter;
      c.font = "11px system-ui, sans-serif";
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
    c.fillRect(0, this.top() - 1, s.width, 1);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    for (let at = Math.ceil(s.t0 / step) * step; at < s.t1; at += step) {
      const x = this.x(s, at);
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

  hit(s: Scene, x: number, y: number): Hit | null { return hitAt(this, s, x, y); }
  sampleAt(s: Scene, x: number, y: number): Sample | null { return sampleAt(this, s, x, y); }
  snap(s: Scene, x: number, y: number): number { return snap(this, s, x, y); }
  firstOnScreen(s: Scene, row: Row): number | null { return firstOnScreen(this, s, row); }
  firstInside(s: Scene, e: Selected): number | null { return firstInside(this, s, e); }
}

function niceStep(ps: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(ps, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= ps)!;
}

const short = (n: number): string => n < 1e4 ? `${n}` : n < 1e6 ? `${(n / 1e3).toFixed(0)} k` : `${(n / 1e6).toFixed(1)} M`;

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
