// SPDX-License-Identifier: Apache-2.0
// What is to be seen: the window, and what is selected, marked and searched for in it.
import type { Link } from "./flows";
import type { Wanted } from "./match";
import type { Row } from "./model";

export const RULER = 26, OVERVIEW = 34, TOP = OVERVIEW + RULER; // heights; TOP: where rows begin

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
  find: Wanted | null; // what is searched for
  ticks: number[] | null; // matches of the search, from the session's begin to its end
  hover: number | null; // ps
}

/** A bucket is one to two pixels wide: a row has two entries a pixel at most. */
export function shiftOf(s: Pick<Scene, "t0" | "t1" | "width" | "gutter">): number {
  return Math.max(0, Math.min(50, Math.ceil(Math.log2(Math.max(1, (s.t1 - s.t0) / Math.max(1, s.width - s.gutter))))));
}

export const xOf = (s: Scene, ps: number): number => s.gutter + (ps - s.t0) / (s.t1 - s.t0) * (s.width - s.gutter);
export const psOf = (s: Scene, x: number): number => s.t0 + (x - s.gutter) / (s.width - s.gutter) * (s.t1 - s.t0);
export const yOf = (s: Scene, row: Row): number => TOP + row.y - s.y;
