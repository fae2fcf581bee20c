// SPDX-License-Identifier: Apache-2.0
// The picture's pixels, in the worker: events are filled into memory, one line of pixels a lane, then copied.
import { colorOf } from "./color";
import type { Group, Job, Label, Painted, Stripe } from "./job";
import { matcher } from "./match";
import { paintBehind, paintEntries, type Place, shadeEntries } from "./paint";
import { GROUP, type Tile } from "./tile";

const EDGED = 4, LABELLED = 36, LABELS_MAX = 1500; // CSS pixels from which on an entry has an edge, a label

/* The colours of a tile's entries, as long as what they follow from is the same. */
interface Shades { of: string; colors: Uint32Array }

/* A part of a track: the entries that a tile has of it, and the time that the tile covers. */
interface Piece { tile: Tile; from: number; to: number; lowPs: number; highPs: number; devices: number }

export class Pixels {
  private readonly tiles = new Map<number, Tile>();
  private readonly shades = new WeakMap<Tile, Shades>();
  private strip: { of: string; words: Uint32Array } | null = null;
  private readonly filled = new Uint8Array(256); // lanes of a stripe that have an entry
  private covered = new Uint8Array(0); // pixels of a line that have an entry
  private words = new Uint32Array(0);
  private labels: Label[] = [];
  private onScreen = 0;

  add(tile: Tile): void { this.tiles.set(tile.id, tile); }
  drop(id: number): void { this.tiles.delete(id); }

  /** Paints into `spare` if it has the size. */
  paint(job: Job, spare: ArrayBuffer | null): Painted {
    const begun = performance.now(), bytes = 4 * job.width * job.height, pixels = spare?.byteLength === bytes ? spare : new ArrayBuffer(bytes);
    this.words = new Uint32Array(pixels).fill(job.back);
    if (this.covered.length !== job.width) this.covered = new Uint8Array(job.width);
    this.labels = [];
    this.onScreen = 0;
    this.paintOverview(job);
    for (let i = 0; i < job.bands.length; i += 2) this.fillBand(job, job.bands[i], job.bands[i + 1]);
    for (const stripe of job.stripes) {
      this.filled.fill(0);
      if (stripe.tracks.length > 1) this.paintTracks(job, stripe);
      else if (stripe.tracks.length) this.paintTrack(job, stripe);
      this.copyLanes(job, stripe);
    }
    return { pixels, labels: this.labels.slice(0, LABELS_MAX), onScreen: this.onScreen, ms: performance.now() - begun };
  }

  private fillBand({ width, height, left, top, ground }: Job, y: number, size: number): void {
    for (let at = Math.max(y, top); at < Math.min(y + size, height); at++) this.words.fill(ground, at * width + left, at * width + width);
  }

  /* Reckoned once for a tile: a picture has some hundred thousand entries. */
  private shadesOf(tile: Tile, devices: number, job: Job): Uint32Array {
    const of = `${devices} ${job.dark} ${job.ground} ${job.find && JSON.stringify(job.find)}`, known = this.shades.get(tile);
    if (known?.of === of) return known.colors;
    const { names, ends } = tile, colors = new Uint32Array(tile.start.length), find = job.find && matcher(job.find), found = find && Uint8Array.from(names, (n) => Number(find(n)));
    const ofName: (Uint32Array | undefined)[] = [];
    for (let k = 0; k < ends.length; k++) {
      const device = devices >>> k & 1, from = tile.from(k);
      if (from < ends[k]) shadeEntries(colors, tile, from, ends[k], ofName[device] ??= Uint32Array.from(names, (n) => colorOf(n, device === 1, job.dark)), found, job.ground);
    }
    this.shades.set(tile, { of, colors });
    return colors;
  }

  private pieces(job: Job, track: number): Piece[] {
    const group: Group = job.groups[Math.floor(track / GROUP)], k = track % GROUP, out: Piece[] = [];
    group.tiles.forEach((id, i) => {
      const tile = this.tiles.get(id), lowPs = (group.first + i) * job.sizePs;
      if (tile && k < tile.ends.length && tile.from(k) < tile.ends[k]) out.push({ tile, from: tile.from(k), to: tile.ends[k], lowPs, highPs: lowPs + job.sizePs, devices: group.devices });
    });
    return out;
  }

  private placeOf(job: Job, stripe: Stripe, piece: Piece): Place {
    const { left, width, top, ratio } = job, scale = (width - left) / (job.t1 - job.t0), lane = Math.round(stripe.lane * ratio), x = (ps: number): number => left + (ps - job.t0) * scale;
    return {
      zero: x(piece.tile.fromPs), unit: piece.tile.unit * scale, low: x(piece.lowPs), high: x(piece.highPs), left, width, top: stripe.top, least: top, lane,
      ...this.lanesOf(job, stripe), edged: EDGED * ratio, labelled: stripe.labelled ? LABELLED * ratio : Infinity,
    };
  }

  /* Those that are on the screen. */
  private lanesOf({ ratio, top, height }: Job, { lane, lanes, top: y }: Stripe): { firstLane: number; endLane: number } {
    const size = Math.round(lane * ratio);
    return { firstLane: Math.max(0, Math.ceil((top - this.bodyOf(size, ratio) + 1 - y) / size)), endLane: Math.min(lanes, Math.ceil((height - y) / size)) };
  }

  /* Lanes have a gap between them. */
  private bodyOf(lane: number, ratio: number): number { return Math.max(1, lane - Math.max(1, Math.round(ratio))); }

  private paintTrack(job: Job, stripe: Stripe): void {
    for (const piece of this.pieces(job, stripe.tracks[0])) {
      const { tile, lowPs } = piece, place = this.placeOf(job, stripe, piece), wide: number[] = [], { ratio, left, width } = job, labelsFrom = lowPs > job.t0 ? place.low : -Infinity;
      this.onScreen += paintEntries(this.words, this.shadesOf(tile, piece.devices, job), tile, piece.from, piece.to, place, job.ground, this.filled, wide);
      for (const i of wide) {
        const exact = place.zero + tile.start[i] * place.unit, x0 = Math.floor(Math.max(exact, left)), x1 = Math.min(Math.ceil(exact + tile.length[i] * place.unit), width);
        if (exact >= labelsFrom) this.labels.push({ x: x0 / ratio, y: (stripe.top + (tile.row[i] & 0xffff) * place.lane) / ratio, width: (x1 - x0) / ratio, text: tile.names[tile.name[i]] ?? "" });
      }
    }
  }

  /* Several tracks lie over each other: from the topmost one down, each is seen where no other one is before it. */
  private paintTracks(job: Job, stripe: Stripe): void {
    this.covered.fill(0);
    for (const track of [...stripe.tracks].reverse()) for (const piece of this.pieces(job, track).reverse())
      this.onScreen += paintBehind(this.words, this.shadesOf(piece.tile, piece.devices, job), piece.tile, piece.from, piece.to, this.placeOf(job, stripe, piece), job.ground, this.filled, this.covered);
  }

  /* What an entry costs does not depend on its height. */
  private copyLanes(job: Job, stripe: Stripe): void {
    const { width, height, left, top, ratio } = job, lane = Math.round(stripe.lane * ratio), { firstLane, endLane } = this.lanesOf(job, stripe);
    for (let at = firstLane; at < endLane; at++) {
      const y = stripe.top + at * lane, first = Math.max(y, top), end = Math.min(y + this.bodyOf(lane, ratio), height);
      for (let line = first + 1; this.filled[at] && line < end; line++) this.words.copyWithin(line * width + left, first * width + left, (first + 1) * width);
    }
  }

  /* All of the session: how busy, host by host. It stays as long as it is made of the same tiles. */
  private paintOverview(job: Job): void {
    const { beginPs, endPs, tiles, height, color } = job.overview, of = [job.width, job.left, beginPs, endPs, height, color, job.back, tiles].join();
    if (this.strip?.of !== of) this.strip = { of, words: this.makeStrip(job) };
    this.words.set(this.strip.words);
  }

  private makeStrip({ width, left, back, overview: o }: Job): Uint32Array {
    const scale = (width - left) / (o.endPs - o.beginPs), sums = new Float32Array(width), words = new Uint32Array(width * o.height).fill(back);
    o.tiles.forEach((id, n) => {
      const tile = this.tiles.get(id);
      for (let e = 0, k = 0; tile && e < tile.start.length; e++) {
        while (e >= tile.ends[k]) k++;
        if (o.others[n] >>> k & 1 || tile.row[e] & 0xffff) continue;
        const from = left + (tile.fromPs + tile.start[e] * tile.unit - o.beginPs) * scale;
        const x0 = Math.max(left, Math.floor(from)), x1 = Math.min(width, Math.ceil(from + tile.length[e] * tile.unit * scale));
        for (let x = x0; x < Math.max(x1, x0 + 1) && x < width; x++) sums[x] += (tile.row[e] >>> 16) / 65535;
      }
    });
    const most = sums.reduce((a, b) => Math.max(a, b), 1);
    for (let x = left; x < width; x++) {
      const from = o.height - Math.round(o.height * Math.sqrt(sums[x] / most));
      for (let y = from; y < o.height; y++) words[y * width + x] = o.color;
    }
    return words;
  }
}
