// SPDX-License-Identifier: Apache-2.0
// What is drawn where: for the pointer, and for keys that walk from event to event.
import type { Drafts } from "./draft";
import { LANE, type Row } from "./model";
import { psOf, type Scene, type Selected, shiftOf, TOP, yOf } from "./scene";
import type { Tile } from "./tile";

/** An event on the screen, or a fold of several. */
export interface Hit { row: Row; file: number; track: number; lane: number; tile: Tile; entry: number; startPs: number; lengthPs: number; count: number; name: string }

/** What a counter was at a place of the screen: one sample, or a bucket of several. */
export interface Sample { name: string; atPs: number; count: number; least: number; largest: number; last: number }

const NEAR = 2; // pixels

function rowAt(d: Drafts, s: Scene, x: number, y: number): Row | null {
  const row = d.model.rows[d.model.rowAt(y - TOP + s.y)];
  return !row || y < TOP || x < s.gutter ? null : row;
}

/** An event of a track; on the line of a host a span without records. */
export function hitAt(d: Drafts, s: Scene, x: number, y: number): Hit | null {
  const row = rowAt(d, s, x, y), at = psOf(s, x), near = (s.t1 - s.t0) / (s.width - s.gutter) * NEAR;
  if (!row || row.info?.counter) return null;
  const lane = row.kind === "track" ? Math.floor((y - yOf(s, row) - 1) / LANE) : null;
  let best: Hit | null = null, distance = near;
  for (const { file, track } of row.kind === "track" ? [{ file: row.file!, track: row.track! }] : row.losses) for (const { tile, from, to } of d.pieces(file, track, { t0: at - near, t1: at + near }, shiftOf(s))) {
    for (let i = from; i < to; i++) {
      if (lane !== null && (tile.row[i] & 0xffff) !== lane) continue;
      const startPs = tile.fromPs + tile.start[i] * tile.unit, lengthPs = tile.length[i] * tile.unit;
      const away = at < startPs ? startPs - at : at > startPs + lengthPs ? at - startPs - lengthPs : 0;
      if (away < distance || (!best && away === 0)) {
        distance = away;
        best = { row, file, track, lane: tile.row[i] & 0xffff, tile, entry: i, startPs, lengthPs, count: tile.count[i], name: tile.names[tile.name[i]] ?? "" };
      }
    }
  }
  return best;
}

/** The value that holds at this time: the latest sample up to it. */
export function sampleAt(d: Drafts, s: Scene, x: number, y: number): Sample | null {
  const row = rowAt(d, s, x, y), at = psOf(s, x), bucket = 2 ** shiftOf(s);
  let best: Sample | null = null;
  if (!row?.info?.counter) return null;
  for (const { tile, from, to } of d.pieces(row.file!, row.track!, { t0: at - bucket, t1: at + 1 }, shiftOf(s))) {
    for (let i = from; i < to; i++) {
      const atPs = tile.fromPs + tile.start[i] * tile.unit;
      if (atPs > at || (best && atPs < best.atPs)) continue;
      best = { name: row.info!.name, atPs, count: tile.count[i], least: tile.least[i], largest: tile.largest[i], last: tile.last[i] };
    }
  }
  return best;
}

/** The edge of an event that is nearest to this point, within a few pixels; else the point's own time. */
export function snap(d: Drafts, s: Scene, x: number, y: number): number {
  const at = psOf(s, x), hit = hitAt(d, s, x, y), near = (s.t1 - s.t0) / (s.width - s.gutter) * 6;
  const edges = hit ? [hit.startPs, hit.startPs + hit.lengthPs] : [];
  return edges.filter((e) => Math.abs(e - at) < near).sort((a, b) => Math.abs(a - at) - Math.abs(b - at))[0] ?? at;
}

/** The number of the first event of the row that begins in the window; of a fold its longest. */
export function firstOnScreen(d: Drafts, s: Scene, row: Row): number | null {
  let best: number | null = null, least = Infinity;
  for (const { tile, from, to } of d.pieces(row.file!, row.track!, s, shiftOf(s))) {
    for (let i = from; i < to; i++) {
      const startPs = tile.fromPs + tile.start[i] * tile.unit;
      if (startPs >= s.t0 && startPs < Math.min(s.t1, least)) [best, least] = [tile.event[i], startPs];
    }
  }
  return best;
}

/** The first event one row below this one and within its time, if it is drawn as an event of its own. */
export function firstInside(d: Drafts, s: Scene, e: Selected): number | null {
  const endPs = e.startPs + e.durationPs;
  let best: number | null = null, least = Infinity;
  for (const { tile, from, to } of d.pieces(e.file, e.track, { t0: e.startPs, t1: endPs }, shiftOf(s))) {
    for (let i = from; i < to; i++) {
      const startPs = tile.fromPs + tile.start[i] * tile.unit;
      if ((tile.row[i] & 0xffff) !== e.row + 1 || tile.count[i] !== 1 || startPs < e.startPs - tile.unit || startPs + tile.length[i] * tile.unit > endPs + tile.unit) continue;
      if (startPs < least) [best, least] = [tile.event[i], startPs];
    }
  }
  return best;
}
