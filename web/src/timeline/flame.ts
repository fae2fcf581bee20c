// SPDX-License-Identifier: Apache-2.0
// A flame graph: boxes that lie in each other, as wide as their share of the whole.
import { el } from "../dom";

export interface Box { name: string; parent: number; total: number; own: number; depth: number; at: number; children: number[] }

export interface Look { label: (b: Box, i: number) => string; title: (b: Box, i: number) => string; color: (b: Box, i: number) => string; find: ((name: string) => boolean) | null }

const LANE = 19, LEAST = 0.001; // of the whole

/** Callers come before what they call; the widest box is the first of its caller. The first box is all. */
export function arrange(boxes: { name: string; parent: number; total: number; own: number }[]): Box[] {
  const out = boxes.map((b): Box => ({ ...b, depth: 0, at: 0, children: [] }));
  out.forEach((b, i) => {
    if (!i) return;
    b.depth = out[b.parent].depth + 1;
    out[b.parent].children.push(i);
  });
  for (const b of out) {
    let at = b.at;
    for (const i of b.children.sort((x, y) => out[y].total - out[x].total)) {
      out[i].at = at;
      at += out[i].total;
    }
  }
  return out;
}

const isInside = (all: Box[], i: number, root: number): boolean => {
  for (; i > root; i = all[i].parent) if (all[i].parent === root) return true;
  return i === root;
};

/** Which boxes are shown while `root` is as wide as the stage, with those it is called by, and where, in percent. */
export function placed(all: Box[], root: number): { i: number; left: number; width: number }[] {
  const whole = all[root].total || 1;
  return all.flatMap((b, i) => {
    if (i !== root && isInside(all, root, i)) return [{ i, left: 0, width: 100 }];
    return isInside(all, i, root) && b.total / whole >= LEAST ? [{ i, left: 100 * (b.at - all[root].at) / whole, width: 100 * b.total / whole }] : [];
  });
}

/* Boxes are buttons: the keyboard reaches them, and a screen reader reads their shares. A click zooms. */
export function drawFlame(stage: HTMLElement, all: Box[], root: number, look: Look): void {
  const shown: Node[] = [];
  let deepest = 0;
  placed(all, root).forEach(({ i, left, width }) => {
    const b = all[i], button = el("button", {
      className: `box${look.find && !look.find(b.name) ? " pale" : ""}`, textContent: width > 2 ? look.label(b, i) : "", title: look.title(b, i),
      onclick: () => { drawFlame(stage, all, i, look); (stage.querySelector("[aria-current]") as HTMLElement).focus(); },
    });
    button.setAttribute("aria-label", button.title);
    if (i === root) button.setAttribute("aria-current", "true");
    Object.assign(button.style, { left: `${left}%`, width: `${width}%`, top: `${b.depth * LANE}px`, background: i ? look.color(b, i) : "" });
    deepest = Math.max(deepest, b.depth);
    shown.push(button);
  });
  stage.style.height = `${(deepest + 1) * LANE}px`;
  stage.replaceChildren(...shown);
}
