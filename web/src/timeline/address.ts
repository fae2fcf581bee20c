// SPDX-License-Identifier: Apache-2.0
// The address of the page says what is seen: a copy of it shows the same.
import type { Mark } from "./scene";
import type { Place } from "./model";
import type { View } from "./view";

const SELECTED_MAX = 50;
const searchFlags = ["pattern", "case"] as const;

/** What address the present state has. */
export function addressOf(v: View): string {
  const s = v.scene, q = new URLSearchParams({ t: `${Math.round(s.t0)}_${Math.round(s.t1)}` }), flags = v.searchFlags();
  if (s.y) q.set("y", String(Math.round(s.y)));
  if (s.selected.length) q.set("sel", s.selected.slice(0, SELECTED_MAX).map((e) => `${e.file}.${e.track}.${e.event}`).join("_"));
  if (v.wanted) q.set("q", v.wanted);
  for (const key of searchFlags) if (flags[key]) q.set(key, "1");
  if (v.model.pinned.size) q.set("pin", [...v.model.pinned].join("_"));
  if (v.model.filter) q.set("only", v.model.filter);
  if (v.model.flipped.size) q.set("open", [...v.model.flipped].join("~"));
  if (s.marks.length) q.set("m", s.marks.map((m) => `${Math.round(m.fromPs)}_${Math.round(m.toPs)}`).join("~"));
  if (v.flows.on) q.set("flow", "1");
  return `#/s/${v.model.doc.session}?${q}`;
}

/** Two numbers, the second one larger: "0_1000". */
export function twoNumbers(text: string): [number, number] | null {
  const [a, b] = text.split("_").map(Number);
  return Number.isFinite(a) && b > a ? [a, b] : null;
}

/** The events that the address selects: they must be asked for. */
export function placesOf(q: URLSearchParams): Place[] {
  return (q.get("sel") ?? "").split("_").map((p) => p.split(".").map(Number)).filter((p) => p.length === 3 && p.every(Number.isFinite))
    .map(([file, track, event]) => ({ file, track, event }));
}

/** Sets the rest of the state as the address has it. */
export function restore(v: View, q: URLSearchParams): void {
  const s = v.scene, t = twoNumbers(q.get("t") ?? ""), list = (key: string, by: string): string[] => (q.get(key) ?? "").split(by).filter(Boolean);
  v.model.flipped.clear();
  for (const key of list("open", "~")) v.model.flipped.add(key);
  v.model.pinned.clear();
  for (const key of list("pin", "_")) if (/^\d+\.\d+$/.test(key)) v.model.pinned.add(key);
  v.setFilter(q.get("only") ?? "");
  v.setSearchFlags({ pattern: q.get("pattern") === "1", case: q.get("case") === "1" });
  if (t) [s.t0, s.t1] = t;
  s.y = Number(q.get("y")) || 0;
  s.marks = list("m", "~").map(twoNumbers).filter((m) => m !== null).map(([fromPs, toPs]): Mark => ({ fromPs, toPs }));
  v.flows.on = q.get("flow") === "1";
  v.setSearch(q.get("q") ?? "");
}
