// SPDX-License-Identifier: Apache-2.0
// What the page and the worker that paints for it say to each other. Buffers are handed over, not copied.
import type { Wanted } from "./match";
import type { Asked, Unpacked } from "./tile";

/** The tiles of a group of tracks from left to right: their ids, -1 where there is none. */
export interface Group { first: number /* index of the leftmost place */; tiles: number[]; devices: number /* bit k: track k is one of a device */ }

/** Lines of pixels that are filled with entries: the lanes of a track, or several tracks in one lane. */
export interface Stripe { top: number; lane: number; lanes: number; labelled: boolean; tracks: number[] /* place in the groups * GROUP + place in its group */ }

/** The strip of the whole session. */
export interface Overview { beginPs: number; endPs: number; height: number; color: number; tiles: number[]; others: number[] /* of each tile; bit k: track k is left out */ }

/** One picture. Lengths are pixels of the screen, colours are packed. */
export interface Job {
  width: number; height: number; ratio: number; left: number; top: number; // tracks are right of `left` and below `top`
  t0: number; t1: number; sizePs: number; // of the window; of a tile
  dark: boolean; back: number; ground: number; // behind all, behind a track
  find: Wanted | null; // what does not match is paler
  overview: Overview;
  bands: number[]; // pairs: top and height of what has a ground
  groups: Group[];
  stripes: Stripe[];
}

/** A text on an event, in CSS pixels. */
export interface Label { x: number; y: number; width: number; text: string }

export interface Painted { pixels: ArrayBuffer; labels: Label[]; onScreen: number /* entries */; ms: number }

export type ToWorker =
  | { kind: "load"; id: number; url: string; headers: Record<string, string>; asked: Asked }
  | { kind: "abort"; id: number }
  | { kind: "drop"; id: number }
  | { kind: "paint"; job: Job; spare: ArrayBuffer | null };

export type FromWorker =
  | { kind: "loaded"; id: number; tile: Unpacked; received: number; serverMs: number }
  | { kind: "failed"; id: number; status: number /* 0: no answer */; error: string }
  | { kind: "painted"; painted: Painted };
