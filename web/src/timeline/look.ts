// SPDX-License-Identifier: Apache-2.0
// What is drawn where: for the pointer, and for keys that walk from event to event.
import type { Picture, Scene, Selected } from "./draw";
import { LANE, type Row } from "./model";
import type { Tile } from "./tiles";

/** An event on the screen, or a fold of several. */
export interface Hit { row: Row; lane: number; tile: Tile; entry: number; startPs: number; lengthPs: number; count: number; name: string }

/** What a counter was at a place of the screen: one sample, or a bucket of several. */
export interface Sample { name: string; atPs: number; count: number; least: number; largest: number; last: number }

const NEAR = 2; // pixels

function rowAt(p: Picture, s: Scene, x: number, y: number): Row | null {
  const row = p.model.rows[p.model.rowAt(y - p.top() + s.y)];
  return !row || y < p.top() || x < s.gutter || row.kind !== "track" ? null : row;
}

export function hitAt(p: Picture, s: Scene, x: number, y: number): Hit | null {
  const row = rowAt(p, s, x, y);
  if (!row || row.info!.counter) return null;
  const lane = Math.floor((y - p.rowY(s, row) - 1) / LANE), at = p.ps(s, x), near = (s.t1 - s.t0) / (s.width - s.gutter) * NEAR;
  let best: Hit | null = null, distance = near;
  for (const { tile, from, to } of p.pieces(row.file!, row.track!, { t0: at - near, t1: at + near }, p.shiftOf(s), false)) {
    for (let i = from; i < to; i++) {
      if ((tile.row[i] & 0xffff) !== lane) continue;
      const startPs = tile.fromPs + tile.start[i] * tile.unit, lengthPs = tile.length[i] * tile.unit;
      const away = at < startPs ? startPs - at : at > startPs + lengthPs ? at - startPs - lengthPs : 0;
      if (away < distance || (!best && away === 0)) {
        distance = away;
        best = { row, lane, tile, entry: i, startPs, lengthPs, count: tile.count[i], name: tile.names[tile.name[i]] ?? "" };
      }
    }
  }
  return best;
}

/** The value that holds at this time: the latest sample up to it. */
export function sampleAt(p: Picture, s: Scene, x: number, y: number): Sample | null {
  const row = rowAt(p, s, x, y), at = p.ps(s, x), bucket = 2 ** p.shiftOf(s);
  let best: Sample | null = null;
  if (!row?.info!.counter) return null;
  for (const { tile, from, to } of p.pieces(row.file!, row.track!, { t0: at - bucket, t1: at + 1 }, p.shiftOf(s), false)) {
    for (let i = from; i < to; i++) {
      const atPs = tile.fromPs + tile.start[i] * tile.unit;
      if (atPs > at || (best && atPs < best.atPs)) continue;
      best = { name: row.info!.name, atPs, count: tile.count[i], least: tile.least[i], largest: tile.largest[i], last: tile.last[i] };
    }
  }
  return best;
}

/** The edge of an event that is nearest to this point, within a few pixels; else the point's own time. */
export function snap(p: Picture, s: Scene, x: number, y: number): number {
  const at = p.ps(s, x), hit = hitAt(p, s, x, y), near = (s.t1 - s.t0) / (s.width - s.gutter) * 6;
  const edges = hit ? [hit.startPs, hit.startPs + hit.lengthPs] : [];
  return edges.filter((e) => Math.abs(e - at) < near).sort((a, b) => Math.abs(a - at) - Math.abs(b - at))[0] ?? at;
}

/** The number of the first event of the row that begins in the window; of a fold its longest. */
export function firstOnScreen(p: Picture, s: Scene, row: Row): number | null {
  let best: number | null = null, least = Infinity;
  for (const { tile, from, to } of p.pieces(row.file!, row.track!, s, p.shiftOf(s), false)) {
    for (let i = from; i < to; i++) {
      const startPs = tile.fromPs + tile.start[i] * tile.unit;
      if (startPs >= s.t0 && startPs < Math.min(s.t1, least)) [best, least] = [tile.event[i], startPs];
    }
  }
  return best;
}

/** The first event one row below this one and within its time, if it is drawn as an event of its own. */
export function firstInside(p: Picture, s: Scene, e: Selected): number | null {
  const endPs = e.startPs + e.durationPs;
  let best: number | null = null, least = Infinity;
  for (const { tile, from, to } of p.pieces(e.file, e.track, { t0: e.startPs, t1: endPs }, p.shiftOf(s), false)) {
    for (let i = from; i < to; i++) {
      const startPs = tile.fromPs + tile.start[i] * tile.unit;
      if ((tile.row[i] & 0xffff) !== e.row + 1 || tile.count[i] !== 1 || startPs < e.startPs - tile.unit || startPs + tile.length[i] * tile.unit > endPs + tile.unit) continue;
      if (startPs < least) [best, least] = [tile.event[i], startPs];
    }
  }
  return best;
}
