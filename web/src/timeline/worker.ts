// SPDX-License-Identifier: Apache-2.0
// The page's second thread: fetches and unpacks tiles and paints them, so that keys and the mouse never wait for that.
import type { FromWorker, ToWorker } from "./job";
import { Pixels } from "./pixels";
import { Tile, unpack } from "./tile";

const page = globalThis as unknown as Pick<Worker, "postMessage" | "onmessage">; // the other end
const pixels = new Pixels();
const loading = new Map<number, AbortController>();

const say = (message: FromWorker, hand: ArrayBuffer[] = []): void => page.postMessage(message, hand);

async function load({ id, url, headers, asked }: ToWorker & { kind: "load" }): Promise<void> {
  const abort = new AbortController();
  let status = 0;
  loading.set(id, abort);
  try {
    const answer = await fetch(url, { headers, signal: abort.signal });
    status = answer.status;
    if (!answer.ok) throw new Error((await answer.json()).error);
    const data = await answer.arrayBuffer(), tile = unpack(data, asked);
    pixels.add(new Tile(id, { ...tile, columns: tile.columns.slice(0) })); // the page gets the other one
    say({ kind: "loaded", id, tile, received: data.byteLength, serverMs: Number(/dur=([\d.]+)/.exec(answer.headers.get("Server-Timing") ?? "")?.[1] ?? 0) }, [tile.columns]);
  } catch (e) {
    say({ kind: "failed", id, status: e instanceof TypeError ? 0 : status, error: (e as Error).message });
  }
  loading.delete(id);
}

page.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  switch (data.kind) {
    case "load": void load(data); break;
    case "abort": loading.get(data.id)?.abort(); break;
    case "drop": pixels.drop(data.id); break;
    case "paint": {
      const painted = pixels.paint(data.job, data.spare);
      say({ kind: "painted", painted }, [painted.pixels]);
    }
  }
};
