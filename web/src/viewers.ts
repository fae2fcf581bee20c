// SPDX-License-Identifier: Apache-2.0
// Other viewers that the aggregator names: links to XProf; a window of Perfetto that gets a part of a session.
import { api } from "./api";
import { bytes } from "./format";

interface Viewers { perfetto: string; xprof: string }

const PING_MS = 100, PATIENCE_MS = 120_000; // a first visit loads Perfetto, and asks whether this page may give it something

let known: Promise<Viewers> | null = null;

export function viewers(): Promise<Viewers> {
  return known ??= api("viewers").catch(() => { known = null; return { perfetto: "", xprof: "" }; });
}

const within = (url: string, rest: string): string => url.replace(/\/+$/, "") + rest;

/** XProf's address of a session: it names runs by their folder. "" where there is no XProf. */
export async function xprofAddress(session: string, run: string, tool = "trace_viewer@", more: Record<string, string> = {}): Promise<string> {
  const { xprof } = await viewers();
  return xprof && within(xprof, `/?${new URLSearchParams({ run: run ? `${run}/${session}` : session, tag: tool, ...more })}`);
}

/** An operation of XLA in XProf's graph of its module. */
export const graphAddress = (session: string, run: string, host: string, op: string, module: string): Promise<string> =>
  xprofAddress(session, run, "graph_viewer", { host, node_name: op, module_name: module });

export interface Part {
  session: string; t0_ns: number; fromPs: number; toPs: number;
  fetch: (query: Record<string, string>, signal: AbortSignal) => Promise<Response>; // asks for the session's `trace`
}

/** The file is larger than what another viewer is given. */
export class TooLarge extends Error {}

async function fetchTrace(part: Part, signal: AbortSignal): Promise<ArrayBuffer> {
  const answer = await part.fetch({ from_ps: String(Math.round(part.fromPs)), to_ps: String(Math.round(part.toPs)) }, signal);
  if (answer.ok) return answer.arrayBuffer();
  const text = (await answer.json()).error;
  throw answer.status === 400 ? new TooLarge(text) : new Error(text);
}

/* Until it says that it listens. */
function whenReady(w: Window, origin: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const begin = Date.now(), timer = setInterval(() => {
      if (w.closed) end(() => reject(new Error("Perfetto's window was closed")));
      else if (Date.now() - begin > PATIENCE_MS) end(() => reject(new Error(`${origin} does not answer: is that a Perfetto?`)));
      else w.postMessage("PING", origin);
    }, PING_MS);
    const onMessage = (ev: MessageEvent): void => { if (ev.source === w && ev.origin === origin && ev.data === "PONG") end(resolve); };
    const end = (then: () => void): void => { clearInterval(timer); window.removeEventListener("message", onMessage); then(); };
    window.addEventListener("message", onMessage);
    signal.addEventListener("abort", () => end(() => reject(new Error("stopped"))));
  });
}

/** To be called in a click, else browsers open no window. The part goes from page to page: Perfetto fetches nothing. */
export async function openInPerfetto(perfetto: string, part: Part, say: (text: string) => void): Promise<void> {
  const ns = (ps: number): string => String(BigInt(part.t0_ns) + BigInt(Math.round(ps / 1000))), origin = new URL(perfetto).origin, stop = new AbortController();
  const w = window.open(within(perfetto, `/#!/?visStart=${ns(part.fromPs)}&visEnd=${ns(part.toPs)}`));
  if (!w) throw new Error("the browser opened no window: allow pop-ups of this page, and try again");
  say("Perfetto: fetching the window…");
  try {
    const [buffer] = await Promise.all([fetchTrace(part, stop.signal), whenReady(w, origin, stop.signal)]), size = buffer.byteLength;
    w.postMessage({ perfetto: { buffer, title: part.session, fileName: `${part.session}.pftrace`, localOnly: true } }, origin, [buffer]);
    say(`Perfetto has the window, ${bytes(size)}`);
  } catch (e) {
    w.close();
    throw e;
  } finally {
    stop.abort();
  }
}
