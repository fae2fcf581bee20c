// SPDX-License-Identifier: Apache-2.0
// Arrows from one end of a flow to the other; an end in a section that is closed is at the section's own line.
import type { End } from "./flows";
import { HOST_HEIGHT, LANE, type Model, PLANE_HEIGHT } from "./model";
import { type Scene, type Selected, xOf, yOf } from "./scene";

interface Point { x: number; y: number }

/* Where an event begins on the screen, whether its track is shown or hidden in something. */
function place(model: Model, s: Scene, e: Omit<End, "event">): Point | null {
  const row = model.trackRow(e.file, e.track), x = xOf(s, e.startPs), lane = row ? Math.min(e.row, row.shown - 1) : 0;
  if (row) return { x, y: yOf(s, row) + 1 + (lane + 0.5) * LANE };
  const at = model.find(e.file, e.track), plane = model.row(`p${e.file}.${at?.plane.first_track}`), host = model.row(`h${at?.host.host}`);
  if (plane) return { x, y: yOf(s, plane) + PLANE_HEIGHT / 2 };
  return host ? { x, y: yOf(s, host) + HOST_HEIGHT / 2 } : null;
}

function drawArrow(c: CanvasRenderingContext2D, from: Point, to: Point): void {
  const dir = to.x >= from.x ? 1 : -1, middle = (from.x + to.x) / 2;
  c.beginPath();
  c.moveTo(from.x, from.y);
  c.bezierCurveTo(middle, from.y, middle, to.y, to.x, to.y);
  c.stroke();
  c.beginPath();
  c.moveTo(to.x, to.y);
  c.lineTo(to.x - 7 * dir, to.y - 4);
  c.lineTo(to.x - 7 * dir, to.y + 4);
  c.fill();
}

/** Draws those of the selected event, and all that are wanted; returns how many. */
export function drawArrows(c: CanvasRenderingContext2D, model: Model, s: Scene, color: string): number {
  let n = 0;
  const draw = (from: Point | null, to: Point | null): void => {
    if (!from || !to) return;
    drawArrow(c, from, to);
    n++;
  };
  c.strokeStyle = c.fillStyle = color;
  c.lineWidth = 1;
  for (const link of s.links()) draw(place(model, s, link.from), place(model, s, link.to));
  c.lineWidth = 1.5;
  const e: Selected | undefined = s.selected.length === 1 ? s.selected[0] : undefined;
  for (const f of e ? s.flows : []) {
    const here = place(model, s, e!), there = place(model, s, f);
    if (f.direction === 1) draw(here, there);
    else draw(there, here);
  }
  return n;
}
