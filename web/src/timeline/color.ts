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
const known = new Map<string, Rgb>();

/** Of an event on a device or on a host. */
export function colorOf(name: string, device: boolean, dark: boolean): Rgb {
  const key = `${device}${dark}${name}`;
  let c = known.get(key);
  if (!c) {
    const h = hash(name.replace(/[.#_ ]?\d+$/, "")), family = families.find(([r]) => r.test(name));
    const [from, to] = family ? [family[1], family[2]] : device ? [195, 275] : [95, 180];
    const light = (dark ? 0.62 : 0.72) + ((h >>> 12) % 9) / 100;
    c = IDLE.test(name) ? rgb(220, 0.06, light) : rgb(from + (h % 24) * (to - from) / 24, 0.5, light);
    if (known.size > 50000) known.clear();
    known.set(key, c);
  }
  return c;
}

export const mix = (a: Rgb, b: Rgb, share: number): Rgb =>
  [0, 1, 2].map((i) => Math.round(a[i] * share + b[i] * (1 - share))) as Rgb;

export const pack = (c: Rgb): number => (255 << 24 | c[2] << 16 | c[1] << 8 | c[0]) >>> 0;

/** The same of packed ones. */
export const blend = (a: number, b: number, share: number): number => {
  const part = (at: number): number => Math.round((a >>> at & 255) * share + (b >>> at & 255) * (1 - share)) << at;
  return (255 << 24 | part(16) | part(8) | part(0)) >>> 0;
};
