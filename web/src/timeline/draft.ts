// SPDX-License-Identifier: Apache-2.0
// From a scene to a job for the worker: which rows are to be seen, where, and from which tiles.
import { mix, pack, type Rgb } from "./color";
import type { Job, Overview, Stripe } from "./job";
import { LANE, type Model, PLANE_HEIGHT, type Row, showsLosses, STRIP } from "./model";
import { OVERVIEW, type Scene, shiftOf, TOP, yOf } from "./scene";
import { BUCKETS, GROUP, type Tile } from "./tile";
import type { Tiles } from "./tiles";

/** What a picture is made of; the scene may have moved on by the time it is painted. */
export interface Draft {
  scene: Scene; rows: Row[]; job: Job;
  coarse: boolean; // something is drawn from a coarser tile, or is missing
  missing: number; // tiles without which a part of a row stays empty
}

/** Of a theme, what the worker has to know. */
export interface Colors { dark: boolean; backRgb: Rgb; rowRgb: Rgb }

/* Bit k: track k of a group is a device's; is none of events: a counter, or spans without records. */
interface Kinds { devices: number; others: number }

export class Drafts {
  private kinds: { of: Model["doc"] | null; known: Map<string, Kinds> } = { of: null, known: new Map() };

  constructor(readonly model: Model, private readonly tiles: Tiles) {}

  /* The tiles that a window has of a group, from left to right; or coarser ones, or none. */
  private tilesOf(file: number, group: number, s: { t0: number; t1: number }, shift: number, wanted: boolean): { first: number; tiles: (Tile | null)[] } {
    const size = BUCKETS * 2 ** shift, first = Math.floor(s.t0 / size), tiles: (Tile | null)[] = [];
    for (let i = first; i * size < s.t1; i++) tiles.push(this.tiles.get(file, group, shift, i, wanted));
    return { first, tiles };
  }

  /** What there is of a track by now. */
  *pieces(file: number, track: number, s: { t0: number; t1: number }, shift: number): Generator<{ tile: Tile; from: number; to: number }> {
    const k = track % GROUP;
    for (const tile of this.tilesOf(file, Math.floor(track / GROUP), s, shift, false).tiles)
      if (tile && k < tile.ends.length) yield { tile, from: tile.from(k), to: tile.ends[k] };
  }

  private visible(s: Scene): Row[] {
    const { model } = this, end = s.y + s.height;
    return model.rows.slice(model.rowAt(s.y), model.rowAt(end) + 1).filter((r) => r.y < end);
  }

  /** Has the tiles fetched that it wants. */
  make(s: Scene, colors: Colors): Draft {
    const ratio = window.devicePixelRatio || 1, { dark, backRgb, rowRgb } = colors, shift = shiftOf(s), rows = this.visible(s);
    this.tiles.begin();
    const job: Job = {
      width: Math.max(1, Math.round(s.width * ratio)), height: Math.max(1, Math.round(s.height * ratio)), ratio, left: Math.round(s.gutter * ratio), top: Math.round(TOP * ratio),
      t0: s.t0, t1: s.t1, sizePs: BUCKETS * 2 ** shift, dark, back: pack(backRgb), ground: pack(rowRgb), find: s.find, overview: this.overviewOf(s, ratio, colors), bands: [], groups: [], stripes: [],
    };
    const draft: Draft = { scene: s, rows, job, coarse: false, missing: 0 }, known = new Map<string, { at: number; tiles: (Tile | null)[] }>();
    const add = (file: number, track: number): number => { // returns its place, as stripes have it
      const group = Math.floor(track / GROUP), key = `${file}/${group}`, k = track % GROUP;
      let of = known.get(key);
      if (!of) {
        const { first, tiles } = this.tilesOf(file, group, s, shift, true);
        known.set(key, of = { at: job.groups.length, tiles });
        job.groups.push({ first, tiles: tiles.map((t) => t?.id ?? -1), devices: this.kindsOf(file, group).devices });
      }
      for (const tile of of.tiles) {
        const has = tile && k < tile.ends.length; // one that was made while the session was indexed may have fewer tracks
        if (!has || tile.shift !== shift) draft.coarse = true;
        if (!has) draft.missing++;
      }
      return of.at * GROUP + k;
    };
    for (const row of rows) this.addRow(job, s, ratio, row, add);
    this.tiles.end();
    return draft;
  }

  private addRow(job: Job, s: Scene, ratio: number, row: Row, add: (file: number, track: number) => number): void {
    const top = Math.round(yOf(s, row) * ratio), { file, plane, info } = row;
    for (const lost of row.losses) add(lost.file, lost.track); // their spans are drawn on top, too
    if (row.kind === "track") {
      job.bands.push(top, Math.round(row.height * ratio) - 1);
      if (info!.counter) add(file!, row.track!); // which is drawn on top, from the same tiles
      else if (info!.events) job.stripes.push({ top: top + Math.round(ratio), lane: LANE, lanes: row.shown, labelled: true, tracks: [add(file!, row.track!)] });
    } else if (row.kind === "plane" && !this.model.isOpen(row.key)) {
      const stripe: Stripe = { top: top + Math.round((PLANE_HEIGHT - STRIP) / 2 * ratio), lane: STRIP, lanes: 1, labelled: false, tracks: [] };
      plane!.tracks.slice(0, GROUP).forEach((t, i) => { if (!t.counter && t.events) stripe.tracks.push(add(file!, plane!.first_track + i)); });
      job.stripes.push(stripe);
    }
  }

  /* Of a group's tracks, as bits. */
  private kindsOf(file: number, group: number): Kinds {
    if (this.kinds.of !== this.model.doc) this.kinds = { of: this.model.doc, known: new Map() };
    const { known } = this.kinds, key = `${file}/${group}`, out = known.get(key) ?? { devices: 0, others: 0 };
    for (let k = 0; k < GROUP && !known.has(key); k++) {
      const at = this.model.find(file, group * GROUP + k);
      if (at?.plane.name.startsWith("/device")) out.devices |= 1 << k;
      if (at && (at.info.counter || showsLosses(at.plane))) out.others |= 1 << k;
    }
    known.set(key, out);
    return out;
  }

  /* All of the session: how busy, host by host; the window is a frame in it. */
  private overviewOf(s: Scene, ratio: number, { dark, backRgb }: Colors): Overview {
    const { beginPs, endPs } = this.model, shift = shiftOf({ ...s, t0: beginPs, t1: endPs });
    const out: Overview = { beginPs, endPs, height: Math.round((OVERVIEW - 2) * ratio), color: pack(mix(dark ? [122, 162, 247] : [36, 87, 197], backRgb, 0.55)), tiles: [], others: [] };
    for (const { file, group } of this.overviewPlanes()) {
      const { others } = this.kindsOf(file, group);
      for (const tile of this.tilesOf(file, group, { t0: beginPs, t1: endPs }, shift, true).tiles) {
        out.tiles.push(tile?.id ?? -1);
        out.others.push(others);
      }
    }
    return out;
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
}
