// SPDX-License-Identifier: Apache-2.0
// How many of the known hosts a selector names, while it is typed: the part of docs/selectors.md that is about hosts and labels.
// What a selector of pods names, the aggregator alone knows.
import type { Host } from "../live";

const RANK = "rank", OF_PODS = new Set(["pod", "namespace", "job", RANK]);

interface Term { key: string; values: string[]; not: boolean }

/* Commas within parentheses do not end a term. */
function split(text: string): string[] {
  const out: string[] = [];
  let depth = 0, word = "";
  for (const c of text) {
    depth += c === "(" ? 1 : c === ")" ? -1 : 0;
    if (c === "," && depth === 0) { out.push(word.trim()); word = ""; } else word += c;
  }
  return [...out, word.trim()];
}

function term(text: string): Term | null {
  const not = text.startsWith("!") && !text.startsWith("!="), rest = not ? text.slice(1).trim() : text;
  const set = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(rest), equal = /^([^=!]+?)\s*(!?=)\s*(.*)$/.exec(rest);
  if (set) return { key: set[1], values: set[3].split(",").map((v) => v.trim()), not: not !== (set[2] === "notin") };
  if (equal) return { key: equal[1].trim(), values: [equal[3]], not: not !== (equal[2] === "!=") };
  return rest && !/[\s()]/.test(rest) ? { key: "", values: [rest], not } : null;
}

function matches(pattern: string, text: string): boolean {
  return new RegExp(`^${pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".")}$`).test(text);
}

/* "3" or "0-7" */
function rangeOf(text: string): [number, number] | null {
  const range = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(text), from = Number(range?.[1]), to = Number(range?.[2] ?? range?.[1]);
  return range && from <= to ? [from, to] : null;
}

function hasRank(ranges: string[], text: string): boolean {
  return /^\d+$/.test(text) && ranges.map(rangeOf).some((r) => r && r[0] <= Number(text) && Number(text) <= r[1]);
}

const isTrue = (t: Term, h: Host): boolean => {
  const value = t.key === "" ? h.host : h.labels?.[t.key] ?? (t.key === "node" ? h.host : undefined);
  return (value !== undefined && (t.key === RANK ? hasRank(t.values, value) : t.values.some((v) => matches(v, value)))) !== t.not;
};

/** The hosts that match; null if that is not known here: a selector of pods, or one that is not finished. */
export function selected(text: string, hosts: Host[]): Host[] | null {
  if (text.trim() === "all") return hosts;
  const terms = split(text).map(term);
  if (terms.some((t) => !t || (t.key === RANK && !t.values.every((v) => rangeOf(v))) || (OF_PODS.has(t.key) && !hosts.some((h) => h.labels?.[t.key] !== undefined)))) return null;
  const known = terms as Term[], names = known.filter((t) => !t.key && !t.not), others = known.filter((t) => t.key || t.not);
  return hosts.filter((h) => (!names.length || names.some((t) => isTrue(t, h))) && others.every((t) => isTrue(t, h)));
}

/** The term that the cursor is in: where it begins, and its text so far. */
export function current(text: string, cursor: number): { from: number; word: string } {
  const from = text.slice(0, cursor).lastIndexOf(",") + 1, blanks = /^\s*/.exec(text.slice(from))![0].length;
  return { from: Math.min(from + blanks, cursor), word: text.slice(from, cursor).trim() };
}
