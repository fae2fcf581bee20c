// SPDX-License-Identifier: Apache-2.0
// A tile: unpacked in the worker, which paints it, and handed to the page, which looks up what is at the pointer. Its format: docs/viewer.md.

export const BUCKETS = 1024, GROUP = 16, MAX_SHIFT = 50;
const COLUMNS = 6, MAGIC = 0x32545654;

/** What was asked for: `rows` of a track at most. */
export interface Asked { shift: number; index: number; rows: number }

/** What goes from one thread to the other. */
export interface Unpacked extends Asked {
  ends: Uint32Array;
  columns: ArrayBuffer; // one after the other
  names: Uint8Array; named: number; // still packed: few are ever read
}

/* Numbers of 7 bits a byte, the lowest first. */
class Numbers {
  constructor(private readonly bytes: Uint8Array, public at: number) {}

  next(): number {
    let v = this.bytes[this.at++], b = v, shift = 7;
    if (v < 0x80) return v; // most are
    for (v &= 0x7f; b & 0x80; shift += 7) {
      b = this.bytes[this.at++];
      v |= (b & 0x7f) << shift;
    }
    return v; // 32 bits, signed
  }

  fill<T extends Int32Array | Uint32Array>(out: T): T {
    for (let i = 0; i < out.length; i++) out[i] = this.next();
    return out;
  }

  /** Differences to the entry before on the track. */
  fillSteps(out: Int32Array | Uint32Array, ends: Uint32Array): void {
    let i = 0;
    for (const end of ends) for (let v = 0; i < end; i++) { const z = this.next(); out[i] = v = (v + ((z >>> 1) ^ -(z & 1))) | 0; }
  }
}

export function unpack(data: ArrayBuffer, asked: Asked): Unpacked {
  const [magic, tracks, n, named] = new Uint32Array(data, 0, 4), bytes = new Uint8Array(data), from = new Numbers(bytes, 16 + 4 * tracks);
  if (magic !== MAGIC) throw new Error("this is no tile");
  const ends = new Uint32Array(data, 16, tracks).slice(), columns = new ArrayBuffer(4 * COLUMNS * n), [start, length, name, event, count, row] = split(columns);
  from.fillSteps(start, ends);
  from.fill(length);
  from.fill(name);
  from.fillSteps(event, ends);
  from.fill(count);
  from.fill(row);
  for (let i = 0; i < n; i++) row[i] |= (count[i] > 1 ? bytes[from.at++] : 255) * 257 << 16;
  return { ...asked, ends, columns, names: bytes.slice(from.at), named };
}

function split(columns: ArrayBuffer): Uint32Array[] {
  const n = columns.byteLength / 4 / COLUMNS;
  return Array.from({ length: COLUMNS }, (_, i) => new Uint32Array(columns, 4 * n * i, n));
}

/* Each begins with some characters of the one before. */
function unpackNames(bytes: Uint8Array, n: number): string[] {
  const from = new Numbers(bytes, 0), heads = from.fill(new Uint32Array(2 * n)), rest = bytes.subarray(from.at), names: string[] = [], text = new TextDecoder(), plain = text.decode(rest);
  let at = 0, name = "";
  for (let i = 0; i < n; i++) {
    const end = at + heads[2 * i + 1];
    name = name.slice(0, heads[2 * i]) + (plain.length === rest.length ? plain.slice(at, end) : text.decode(rest.subarray(at, end)));
    names.push(name);
    at = end;
  }
  return names;
}

/** The columns of docs/viewer.md (row: and << 16 how busy, of 65535); track i of the group has the entries from ends[i - 1] (or 0) to ends[i]. */
export class Tile {
  readonly fromPs: number; readonly unit: number; readonly shift: number;
  readonly rows: number; // of a track: it has no deeper ones
  readonly ends: Uint32Array;
  readonly start: Int32Array; readonly length: Uint32Array; readonly name: Uint32Array; readonly event: Uint32Array; readonly count: Uint32Array; readonly row: Uint32Array;
  readonly least: Float32Array; readonly largest: Float32Array; readonly last: Float32Array; // of counters: the same bytes
  readonly bytes: number; // that both threads keep
  private known: string[] | null = null;

  /** `id` names the tile where both threads talk about it. */
  constructor(readonly id: number, private readonly of: Unpacked) {
    const [start, length, name, event, count, row] = split(of.columns), floats = (a: Uint32Array): Float32Array => new Float32Array(a.buffer, a.byteOffset, a.length);
    this.fromPs = of.index * BUCKETS * 2 ** of.shift;
    this.unit = 2 ** Math.max(0, of.shift - 8);
    this.shift = of.shift;
    this.rows = of.rows;
    this.ends = of.ends;
    this.start = new Int32Array(of.columns, 0, start.length);
    [this.length, this.name, this.event, this.count, this.row] = [length, name, event, count, row];
    [this.least, this.largest, this.last] = [floats(length), floats(name), floats(event)];
    this.bytes = 2 * of.columns.byteLength + 4 * start.length /* colours */ + of.names.length + 64 * of.named + 1000;
  }

  get names(): string[] { return this.known ??= unpackNames(this.of.names, this.of.named); }

  /** The entries of its track k. */
  from(k: number): number { return k ? this.ends[k - 1] : 0; }
}
