// SPDX-License-Identifier: Apache-2.0
// Tiles from the aggregator, kept while there is room: what is not there yet is drawn from a coarser one.
import { LoadError, type Painter } from "./painter";
import { BUCKETS, MAX_SHIFT, type Tile } from "./tile";

const KEPT_BYTES = 200e6, UNDER_WAY = 6; // bytes of both threads
const BASE_BUCKETS = 64, BASE_ROWS = 6, BASE_GROUPS = 512, BASE_UNDER_WAY = 3; // of 200 tracks half a megabyte

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
  constructor(private readonly painter: Painter, private readonly session: string, public build: string, private readonly needs: (file: number, group: number) => Needs, private readonly onChange: (stale: boolean) => void) {}

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
      const { tile, received, serverMs } = await this.painter.load(`sessions/${this.session}/view/tile?build=${this.build}&file=${w.file}&group=${w.group}&shift=${w.shift}&index=${w.index}&rows=${w.rows}`,
        { shift: w.shift, index: w.index, rows: w.rows }, abort.signal);
      this.received += received;
      this.keep(w, tile);
      this.serverMs = serverMs;
      this.failure = "";
    } catch (e) {
      if (!abort.signal.aborted) {
        const status = e instanceof LoadError ? e.status : -1;
        stale = status === 409;
        const waitMs = stale ? 250 : 2000; // a newer build comes with the next catalogue
        this.failed.set(w.key, Date.now() + waitMs);
        this.failure = stale ? "" : status === 0 ? "connection lost, trying again" : (e as Error).message;
        setTimeout(() => this.onChange(false), waitMs + 100);
      }
    }
    if (w.isBase) this.baseUnderWay--;
    else this.underWay.delete(w.key);
    this.pump();
    this.onChange(stale);
  }

  private keep({ key, isBase }: Want, tile: Tile): void {
    const kept = isBase ? this.base : this.kept, before = kept.get(key);
    kept.set(key, tile);
    if (before) this.painter.drop(before);
    if (isBase) return;
    this.bytes += tile.bytes - (before?.bytes ?? 0);
    for (const [old, t] of this.kept) {
      if (this.bytes <= KEPT_BYTES) break;
      this.kept.delete(old);
      this.painter.drop(t);
      this.bytes -= t.bytes;
    }
  }
}
