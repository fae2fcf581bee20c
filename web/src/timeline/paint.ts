// SPDX-License-Identifier: Apache-2.0
// The loops over entries, some hundred thousand a picture: functions of their own, with numbers and arrays only, so that the browser compiles
// them soon.
import { blend } from "./color";
import type { Tile } from "./tile";

/** Where a tile and its lanes are, in pixels of the picture. */
export interface Place {
  zero: number; unit: number; // an entry's start is at zero + start * unit
  low: number; high: number; // of the tile
  left: number; width: number; // of all tracks, of the picture
  top: number; least: number; lane: number; // of the first lane; what is above `least` is covered; a lane's height
  firstLane: number; endLane: number;
  edged: number; labelled: number; // from these widths on an entry has an edge, a label
}

/** One line of pixels for each lane; `filled` says which have any. Returns how many entries there were, and adds those that want a label. */
export function paintEntries(words: Uint32Array, colors: Uint32Array, tile: Tile, from: number, to: number, at: Place, ground: number, filled: Uint8Array, wide: number[]): number {
  const { row, start, length, count } = tile, { zero, unit, high, left, width, top, least, lane, firstLane, endLane, edged, labelled } = at, begin = Math.max(at.low, left);
  let shown = 0;
  for (let i = from; i < to; i++) {
    const exact = zero + start[i] * unit, end = exact + length[i] * unit, of = row[i] & 0xffff;
    if (exact >= high) break; // they are in the order of their starts
    if (end < begin || of < firstLane || of >= endLane) continue;
    const x0 = exact > left ? exact | 0 : left, rest = end < width ? end : width, whole = rest | 0; // in whole numbers, which cost less
    if (x0 >= width) continue;
    const x1 = whole < rest ? whole + 1 : whole > x0 ? whole : x0 + 1, y = top + of * lane, line = (y > least ? y : least) * width, color = colors[i], size = x1 - x0;
    shown++;
    filled[of] = 1;
    words[line + x0] = color;
    if (size < 16) for (let x = line + x0 + 1; x < line + x1; x++) words[x] = color;
    else words.fill(color, line + x0, line + x1);
    if (size >= edged) words[line + x1 - 1] = ground;
    if (size >= labelled && count[i] === 1) wide.push(i);
  }
  return shown;
}

/** The same of a track that lies behind others, in one line: what is `covered` stays. The last entry is drawn first, as it lies above those before it. */
export function paintBehind(words: Uint32Array, colors: Uint32Array, tile: Tile, from: number, to: number, at: Place, ground: number, filled: Uint8Array, covered: Uint8Array): number {
  const { row, start, length } = tile, { zero, unit, high, left, width, top, least, edged } = at, begin = Math.max(at.low, left), line = Math.max(top, least) * width;
  let shown = 0, open = covered.indexOf(0, Math.floor(begin));
  if (at.endLane <= at.firstLane) return 0;
  for (let i = to - 1; i >= from && open >= 0 && open < high; i--) {
    const exact = zero + start[i] * unit, end = exact + length[i] * unit;
    if (exact >= high || end < begin || (row[i] & 0xffff) !== 0) continue;
    const x0 = exact > left ? exact | 0 : left, rest = end < width ? end : width, whole = rest | 0;
    if (x0 >= width) continue;
    const x1 = whole < rest ? whole + 1 : whole > x0 ? whole : x0 + 1;
    if (x1 <= open) continue;
    const edge = x1 - x0 >= edged ? x1 - 1 : x1, color = colors[i];
    let fresh = 0;
    for (let x = x0; x < x1; x++) {
      if (covered[x]) continue;
      covered[x] = fresh = 1;
      words[line + x] = x < edge ? color : ground;
    }
    shown += fresh;
    if (covered[open]) open = covered.indexOf(0, open);
  }
  if (shown) filled[0] = 1;
  return shown;
}

/** The colours of a track's entries: of a name, paler where an entry is a fold, and paler still where a search has not found it. */
export function shadeEntries(colors: Uint32Array, tile: Tile, from: number, to: number, ofName: Uint32Array, found: Uint8Array | null, ground: number): void {
  const { name, count, row } = tile;
  for (let i = from; i < to; i++) {
    const n = name[i];
    let color = ofName[n];
    if (count[i] > 1) color = blend(color, ground, 90 + ((row[i] >>> 24) * 115 >>> 8));
    colors[i] = found !== null && !found[n] ? blend(color, ground, 77) : color;
  }
}
