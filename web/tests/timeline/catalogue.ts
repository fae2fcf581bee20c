// SPDX-License-Identifier: Apache-2.0
// A catalogue as the aggregator answers, of hosts with one file each.
import type { Catalogue, Plane, Track } from "../../src/timeline/model";

export const track = (name: string, events: number, rows = 1, more: Partial<Track> = {}): Track => ({ name, events, rows, first_ps: "0", last_ps: "1000", ...more });

export function catalogue(hosts: Record<string, [string, Track[]][]>, bounds: Record<string, number | null> = {}): Catalogue {
  return {
    state: "ready", done_bytes: 0, bytes: 0, session: "S1", build: "B", run: "", t0_ns: 0, duration_ns: 1, warnings: [],
    hosts: Object.entries(hosts).map(([host, planes], file) => {
      let first = 0;
      const out = planes.map(([name, tracks]): Plane => ({ name, first_track: (first += tracks.length) - tracks.length, tracks }));
      return { host, state: "complete", reason: "", detail: "", clock_bound_ns: bounds[host] ?? null, lost: 0, files: [{ file, name: host, bytes: 0, state: "ready", flows_left_out: 0, planes: out }] };
    }),
  };
}
