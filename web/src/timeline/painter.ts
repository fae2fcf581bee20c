// SPDX-License-Identifier: Apache-2.0
// The page's end of the worker that loads tiles and paints them.
import { requestTo } from "../api";
import type { FromWorker, Job, Painted, ToWorker } from "./job";
import { type Asked, Tile } from "./tile";
import Work from "./worker?worker&inline";

export interface Loaded { tile: Tile; received: number; serverMs: number }

/** Why a tile did not come; status 0: there was no answer; -1: the worker failed. */
export class LoadError extends Error {
  constructor(readonly status: number, message: string) { super(message); }
}

export class Painter {
  private readonly worker: Worker = new Work();
  private readonly loads = new Map<number, { done: (l: Loaded) => void; fail: (e: Error) => void }>();
  private painted: (p: Painted | null) => void = () => undefined;
  private spare: ArrayBuffer | null = null;
  private ids = 0;

  constructor() {
    this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.take(data);
    this.worker.onerror = (ev) => this.fail(ev.message || "the worker that paints did not start");
  }

  private say(message: ToWorker, hand: ArrayBuffer[] = []): void { this.worker.postMessage(message, hand); }

  private take(m: FromWorker): void {
    if (m.kind === "painted") return this.painted(m.painted);
    const load = this.loads.get(m.id);
    this.loads.delete(m.id);
    if (m.kind === "loaded") load?.done({ tile: new Tile(m.id, m.tile), received: m.received, serverMs: m.serverMs });
    else load?.fail(new LoadError(m.status, m.error));
  }

  /* Nothing that waits for the worker waits for ever. */
  private fail(why: string): void {
    for (const { fail } of this.loads.values()) fail(new LoadError(-1, why));
    this.loads.clear();
    this.painted(null);
  }

  async load(path: string, asked: Asked, signal: AbortSignal): Promise<Loaded> {
    const { url, headers } = await requestTo(path), id = this.ids++;
    signal.throwIfAborted();
    return new Promise((done, fail) => {
      this.loads.set(id, { done, fail });
      this.say({ kind: "load", id, url, headers, asked });
      signal.addEventListener("abort", () => this.say({ kind: "abort", id }));
    });
  }

  /** No job that is painted from now on has this tile. */
  drop(tile: Tile): void { this.say({ kind: "drop", id: tile.id }); }

  /** One picture at a time, or null if it failed; its pixels are given back with recycle(). */
  paint(job: Job, painted: (p: Painted | null) => void): void {
    const { spare } = this;
    this.painted = painted;
    this.spare = null;
    this.say({ kind: "paint", job, spare }, spare ? [spare] : []);
  }

  recycle(pixels: ArrayBuffer): void { this.spare = pixels; }

  close(): void { this.worker.terminate(); }
}
