// SPDX-License-Identifier: Apache-2.0
// A colour a name: families tell apart at a glance what computes, what communicates, what copies and what waits.

const families: [RegExp, number, number][] = [
  [/all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|collective|nccl|ppermute|broadcast/i, 295, 350],
  [/memcpy|memset|copy|infeed|outfeed|transfer|h2d|d2h/i, 40, 70],
];
const IDLE = /\b(wait|idle|sleep|poll|futex|select|epoll|blocked)/i;

function rgb(hue: number, saturation: number, light: number): [number, number, number] {
  const a = saturation * Math.min(light, 1 - light);
  const part = (n: number): number => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
}

function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

export type Rgb = [number, number, number];

const KNOWN_MAX = 50000;
const known = [0, 1, 2, 3].map(() => ({ names: new Map<string, number>(), stems: new Map<string, number>() })); // on a host or a device, light or dark

/* A name without the number at its end: "fusion.12" and "fusion.3" look alike. */
function stemOf(name: string): string {
  let end = name.length;
  while (end && name.charCodeAt(end - 1) >= 48 && name.charCodeAt(end - 1) <= 57) end--;
  return name.slice(0, end < name.length && end && ".#_ ".includes(name[end - 1]) ? end - 1 : end);
}

function makeColor(stem: string, device: boolean, dark: boolean): number {
  const h = hash(stem), family = families.find(([r]) => r.test(stem)), [from, to] = family ? [family[1], family[2]] : device ? [195, 275] : [95, 180];
  const light = (dark ? 0.62 : 0.72) + ((h >>> 12) % 9) / 100;
  return pack(IDLE.test(stem) ? rgb(220, 0.06, light) : rgb(from + (h % 24) * (to - from) / 24, 0.5, light));
}

/** Of an event on a device or on a host, packed. */
export function colorOf(name: string, device: boolean, dark: boolean): number {
  const { names, stems } = known[Number(device) + 2 * Number(dark)];
  let c = names.get(name);
  if (c !== undefined) return c;
  const stem = stemOf(name);
  c = stems.get(stem) ?? makeColor(stem, device, dark);
  if (names.size >= KNOWN_MAX) for (const m of [names, stems]) m.clear();
  names.set(name, c);
  stems.set(stem, c);
  return c;
}

export const mix = (a: Rgb, b: Rgb, share: number): Rgb =>
  [0, 1, 2].map((i) => Math.round(a[i] * share + b[i] * (1 - share))) as Rgb;

export const pack = (c: Rgb): number => (255 << 24 | c[2] << 16 | c[1] << 8 | c[0]) >>> 0;

/** The same of packed ones, red and blue at once; the share is of 256. A tile has some thousand entries that want it. */
export function blend(a: number, b: number, share: number): number {
  const rest = 256 - share, ends = Math.imul(a & 0xff00ff, share) + Math.imul(b & 0xff00ff, rest) >>> 8, middle = Math.imul(a >>> 8 & 255, share) + Math.imul(b >>> 8 & 255, rest);
  return (0xff000000 | ends & 0xff00ff | middle & 0xff00) >>> 0;
}
