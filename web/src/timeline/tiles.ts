// SPDX-License-Identifier: Apache-2.0
// Tiles from the aggregator, kept while there is room: what is not there yet is drawn from a coarser one.
import { send } from "../api";

export const BUCKETS = 1024, GROUP = 16, MAX_SHIFT = 50;
const KEPT_BYTES = 128e6, UNDER_WAY = 6;
const BASE_BUCKETS = 64, BASE_ROWS = 6, BASE_GROUPS = 512, BASE_UNDER_WAY = 3; // of 200 tracks half a megabyte

/** The columns of docs/viewer.md (row: and << 16 how busy, of 65535); track i of the group has the entries from ends[i - 1] (or 0) to ends[i]. */
export interface Tile {
  fromPs: number; unit: number; shift: number;
  rows: number; // of a track: it has no deeper ones
  ends: Uint32Array;
  start: Int32Array; length: Uint32Array; name: Uint32Array; event: Uint32Array; count: Uint32Array; row: Uint32Array;
  least: Float32Array; largest: Float32Array; last: Float32Array; // of counters: the same bytes
  names: string[];
  bytes: number;
}

/* Numbers of 7 bits a byte, the lowest first. */
class Numbers {
  constructor(private readonly bytes: Uint8Array, public at: number) {}

  next(): number {
    let v = 0, shift = 0, b: number;
    do { b = this.bytes[this.at++]; v |= (b & 0x7f) << shift; shift += 7; } while (b & 0x80);
    return v; // 32 bits, signed
  }

  fill<T extends Int32Array | Uint32Array>(out: T): T {
    for (let i = 0; i < out.length; i++) out[i] = this.next();
    return out;
  }

  /** Differences to the entry before on the track. */
  fillSteps<T extends Int32Array | Uint32Array>(out: T, ends: Uint32Array): T {
    let i = 0;
    for (const end of ends) for (let v = 0; i < end; i++) { const z = this.next(); out[i] = v = (v + ((z >>> 1) ^ -(z & 1))) | 0; }
    return out;
  }
}

/* Each begins with some characters of the one before. */
function decodeNames(from: Numbers, bytes: Uint8Array, n: number): string[] {
  const heads = from.fill(new Uint32Array(2 * n)), rest = bytes.subarray(from.at), names: string[] = [], text = new TextDecoder(), plain = text.decode(rest);
  let at = 0, name = "";
  for (let i = 0; i < n; i++) {
    const end = at + heads[2 * i + 1];
    name = name.slice(0, heads[2 * i]) + (plain.length === rest.length ? plain.slice(at, end) : text.decode(rest.subarray(at, end)));
    names.push(name);
    at = end;
  }
  return names;
}

function decode(data: ArrayBuffer, { shift, index, rows }: Want): Tile {
  const [magic, nTracks, n, nNames] = new Uint32Array(data, 0, 4), bytes = new Uint8Array(data), from = new Numbers(bytes, 16 + 4 * nTracks);
  if (magic !== 0x32545654) throw new Error("this is no tile");
  const ends = new Uint32Array(data, 16, nTracks), column = (): Uint32Array => from.fill(new Uint32Array(n)), start = from.fillSteps(new Int32Array(n), ends);
  const length = column(), name = column(), event = from.fillSteps(new Uint32Array(n), ends), count = column(), row = column();
  for (let i = 0; i < n; i++) row[i] |= (count[i] > 1 ? bytes[from.at++] : 255) * 257 << 16;
  const names = decodeNames(from, bytes, nNames), floats = (a: Uint32Array): Float32Array => new Float32Array(a.buffer);
  return {
    fromPs: index * BUCKETS * 2 ** shift, unit: 2 ** Math.max(0, shift - 8), shift, rows, ends, start, length, name, event, count, row,
    least: floats(length), largest: floats(name), last: floats(event), names, bytes: 24 * n + 64 * nNames + 500,
  };
}

interface Want { key: string; file: number; group: number; shift: number; index: number; rows: number; isBase: boolean; isMissing: boolean }

/** What a tile of a group has to have by now. */
export interface Needs { tracks: number; rows: number }

export class Tiles {
  private readonly kept = new Map<string, Tile>(); // the one that was used longest ago first
  private readonly underWay = new Map<string, AbortController>(); // by the keys of what is wanted
  private baseUnderWay = 0;
  private readonly failed = new Map<string, number>();
  private readonly base = new Map<string, Tile>(); // coarse ones of the whole session: they stay, so that no row is ever empty
  private toBase: Want[] = [];
  private wanted: Want[] = [];
  private bytes = 0;
  failure = "";
  received = 0; // bytes
  serverMs = 0; // of the last answer

  /** A tile that has less than its group needs was made while the session was indexed, or before a track was opened. */
  constructor(private readonly session: string, public build: string, private readonly needs: (file: number, group: number) => Needs, private readonly onChange: (stale: boolean) => void) {}

  get isIdle(): boolean { return !this.waiting; }
  get waiting(): number { return this.underWay.size + this.wanted.length; }

  /** Coarse tiles of all these groups, which cover the session from begin to end: fetched beside what is wanted. */
  keepBase(groups: { file: number; group: number }[], beginPs: number, endPs: number): void {
    const shift = Math.min(MAX_SHIFT, Math.ceil(Math.log2(Math.max(1, (endPs - beginPs) / BASE_BUCKETS)))), size = BUCKETS * 2 ** shift;
    this.toBase = groups.slice(0, BASE_GROUPS).flatMap(({ file, group }) => {
      const out: Want[] = [];
      for (let index = Math.floor(beginPs / size); index * size < endPs; index++) out.push({ key: `${file}/${group}/${shift}/${index}`, file, group, shift, index, rows: BASE_ROWS, isBase: true, isMissing: true });
      return out;
    });
    this.pump();
  }

  /** What the next picture needs: requests of the last one that it does not need end. */
  begin(): void { this.wanted = []; }

  end(): void {
    const now = new Set(this.wanted.map((w) => w.key));
    for (const [key, abort] of this.underWay) if (!now.has(key)) abort.abort();
    this.wanted = this.wanted.filter((w) => !this.underWay.has(w.key)).sort((a, b) => Number(b.isMissing) - Number(a.isMissing));
    this.pump();
  }

  /** The tile, or the best coarser one, which covers more; null if there is none yet. One that is `wanted` is asked for by end(). */
  get(file: number, group: number, shift: number, index: number, wanted = true): Tile | null {
    const key = `${file}/${group}/${shift}/${index}`, tile = this.use(key), { tracks, rows } = this.needs(file, group);
    if (tile && tile.ends.length >= tracks && tile.rows >= rows) return tile;
    const other = tile ?? this.coarser(file, group, shift, index);
    if (wanted && !this.wanted.some((w) => w.key === key) && (this.failed.get(key) ?? 0) < Date.now())
      this.wanted.push({ key, file, group, shift, index, rows, isBase: false, isMissing: !other });
    return other;
  }

  private coarser(file: number, group: number, shift: number, index: number): Tile | null {
    for (let s = shift + 1; s <= MAX_SHIFT; s++) {
      index = Math.floor(index / 2);
      const tile = this.use(`${file}/${group}/${s}/${index}`);
      if (tile) return tile;
    }
    return null;
  }

  private use(key: string): Tile | undefined {
    const tile = this.kept.get(key);
    if (!tile) return this.base.get(key);
    this.kept.delete(key);
    this.kept.set(key, tile);
    return tile;
  }

  private pump(): void {
    while (this.underWay.size < UNDER_WAY && this.wanted.length) this.fetch(this.wanted.shift()!);
    while (this.baseUnderWay < BASE_UNDER_WAY && this.toBase.length) this.fetch(this.toBase.shift()!);
  }

  private async fetch(w: Want): Promise<void> {
    const abort = new AbortController();
    let stale = false;
    if (w.isBase) this.baseUnderWay++;
    else this.underWay.set(w.key, abort);
    try {
      const answer = await send(`sessions/${this.session}/view/tile?build=${this.build}&file=${w.file}&group=${w.group}&shift=${w.shift}&index=${w.index}&rows=${w.rows}`,
        { signal: abort.signal });
      stale = answer.status === 409;
      if (!answer.ok) throw new Error((await answer.json()).error);
      const data = await answer.arrayBuffer();
      this.received += data.byteLength;
      if (w.isBase) this.base.set(w.key, decode(data, w));
      else this.keep(w.key, decode(data, w));
      this.serverMs = Number(/dur=([\d.]+)/.exec(answer.headers.get("Server-Timing") ?? "")?.[1] ?? 0);
      this.failure = "";
    } catch (e) {
      if (!abort.signal.aborted) {
        const waitMs = stale ? 250 : 2000; // a newer build comes with the next catalogue
        this.failed.set(w.key, Date.now() + waitMs);
        this.failure = stale ? "" : e instanceof TypeError ? "connection lost, trying again" : (e as Error).message;
        setTimeout(() => this.onChange(false), waitMs + 100);
      }
    }
    if (w.isBase) this.baseUnderWay--;
    else this.underWay.delete(w.key);
    this.pump();
    this.onChange(stale);
  }

  private keep(key: string, tile: Tile): void {
    this.bytes += tile.bytes - (this.kept.get(key)?.bytes ?? 0);
    this.kept.set(key, tile);
    for (const [old, t] of this.kept) {
      if (this.bytes <= KEPT_BYTES) break;
      this.kept.delete(old);
      this.bytes -= t.bytes;
    }
  }
}
