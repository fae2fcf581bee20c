// SPDX-License-Identifier: Apache-2.0
// An open session: its catalogue, and the rows that its hosts, planes and tracks are shown in.
import { GROUP } from "./tile";

/* Documents of docs/viewer.md. */
export interface Track {
  name: string; events: number; rows: number; first_ps: string; last_ps: string;
  counter?: boolean; min?: number; max?: number; untimed?: number; unplaced?: number;
}
export interface Plane { name: string; first_track: number; tracks: Track[] }
export interface File { file: number; name: string; bytes: number; state: "waiting" | "building" | "ready" | "failed"; error?: string; flows_left_out: number; planes: Plane[] }
export interface Host {
  host: string; state: string; reason: string; detail: string; clock_bound_ns: number | null; lost: number; files: File[];
}
export interface Catalogue { state: "building" | "ready"; done_bytes: number; bytes: number; session: string; build: string; run: string; t0_ns: number; duration_ns: number; warnings: string[]; hosts: Host[] }

/** So many tracks there are by now. */
export const tracksOf = (doc: Catalogue): number => doc.hosts.flatMap((h) => h.files.flatMap((f) => f.planes)).reduce((sum, p) => sum + p.tracks.length, 0);

export interface Place { file: number; track: number; event: number }

/** Whether the events of a plane are spans without records (docs/format.md). */
export const showsLosses = (p: Plane): boolean => p.name.startsWith("/host:CPU lost ");

/** A stripe of the picture. */
export interface Row {
  kind: "host" | "plane" | "track";
  key: string; // what is open or closed
  host: Host;
  plane?: Plane;
  file?: number;
  track?: number; // number in its file
  info?: Track;
  y: number; height: number; // from the top of all rows
  shown: number; // of a track: its rows that are drawn
  losses: { file: number; track: number }[]; // the tracks whose events are spans without records: of a host those of it, of a track itself
  label: string;
}

export const HOST_HEIGHT = 24, PLANE_HEIGHT = 20, LANE = 15, COUNTER_HEIGHT = 40, STRIP = 14;
const OPEN_TRACKS = 48; // planes behind so many are closed at first, and larger ones that are not the first
const OPEN_LANES = 12, ALL_LANES = 256; // of a track, and of one that is opened whole

const LOSSES_MAX = 256; // tracks whose tiles a host's line wants: an agent has one for each tracer

const lossesOf = (host: Host): Row["losses"] => host.files.flatMap(({ file, planes }) =>
  planes.filter(showsLosses).flatMap((p) => p.tracks.flatMap((t, i) => (t.counter ? [] : [{ file, track: p.first_track + i }])))).slice(0, LOSSES_MAX);

export class Model {
  readonly flipped = new Set<string>(); // keys that are not as they are at first
  private readonly initiallyClosed = new Set<string>();
  readonly pinned = new Set<string>(); // "FILE.TRACK": on top, in this order
  rows: Row[] = [];
  private readonly byKey = new Map<string, Row>();
  height = 0;
  filter = "";
  beginPs = 0;
  endPs = 1000;
  events = 0;
  doc!: Catalogue;
  private readonly known = new Set<string>(); // keys of planes
  private whole = new Set<string>(); // "FILE.GROUP": a track of it is opened whole
  private readonly tracks = new Map<number, number>(); // of each file

  constructor(doc: Catalogue) { this.take(doc); }

  /** While a session is indexed each catalogue has the tracks of the one before, in the same places, and more. */
  take(doc: Catalogue): void {
    let begin = 0, end = doc.duration_ns * 1000, events = 0, tracks = 0;
    this.tracks.clear();
    for (const host of doc.hosts) for (const f of host.files) for (const plane of f.planes) {
      this.tracks.set(f.file, plane.first_track + plane.tracks.length);
      const key = `p${f.file}.${plane.first_track}`; // what it is at first it stays, however many tracks it gets: those before it have all of theirs
      if (!this.known.has(key) && tracks && (tracks >= OPEN_TRACKS || plane.tracks.length > OPEN_TRACKS)) this.initiallyClosed.add(key);
      this.known.add(key);
      tracks += plane.tracks.length;
      for (const t of plane.tracks) {
        events += t.counter ? 0 : t.events;
        if (t.events) {
          begin = Math.min(begin, Number(t.first_ps));
          end = Math.max(end, Number(t.last_ps));
        }
      }
    }
    this.doc = doc;
    this.beginPs = begin;
    this.endPs = Math.max(end, begin + 1000);
    this.events = events;
    this.layOut();
  }

  /** All groups of so many tracks that tiles have, file by file. */
  groups(size: number): { file: number; group: number }[] {
    return [...this.tracks].flatMap(([file, n]) => Array.from({ length: Math.ceil(n / size) }, (_, group) => ({ file, group })));
  }

  tracksOf(file: number): number { return this.tracks.get(file) ?? 0; }

  /** How many rows of a group's tracks are shown at most. */
  rowsOf(file: number, group: number): number { return this.whole.has(`${file}.${group}`) ? ALL_LANES : OPEN_LANES; }

  /** Hosts and planes begin open or closed; tracks begin with their first lanes. */
  isOpen(key: string): boolean {
    const open = key[0] === "h" || (key[0] === "p" && !this.initiallyClosed.has(key));
    return open !== this.flipped.has(key);
  }

  toggle(key: string): void {
    if (!this.flipped.delete(key)) this.flipped.add(key);
    this.layOut();
  }

  layOut(): void {
    const want = this.filter.toLowerCase(), tracks = [...this.flipped].filter((key) => key[0] === "t").map((key) => key.slice(1).split(".").map(Number));
    this.whole = new Set(tracks.map(([file, track]) => `${file}.${Math.floor(track / GROUP)}`));
    this.rows = [];
    this.byKey.clear();
    this.height = 0;
    for (const key of this.pinned) this.addPinned(key);
    for (const host of this.doc.hosts) {
      const key = `h${host.host}`;
      this.add({ kind: "host", key, host, losses: lossesOf(host), label: host.host, height: HOST_HEIGHT });
      if (!this.isOpen(key)) continue;
      for (const f of host.files) for (const plane of f.planes) this.addPlane(host, f.file, plane, want);
    }
  }

  private addPlane(host: Host, file: number, plane: Plane, want: string): void {
    const key = `p${file}.${plane.first_track}`;
    const wanted = plane.tracks.map((t, i) => ({ t, i })).filter(({ t }) => !want || `${plane.name} ${t.name}`.toLowerCase().includes(want));
    if (!wanted.length) return;
    this.add({ kind: "plane", key, host, plane, file, label: plane.name, height: PLANE_HEIGHT });
    if (!this.isOpen(key) && !want) return;
    for (const { t, i } of wanted) {
      if (!this.pinned.has(`${file}.${plane.first_track + i}`)) this.addTrack(host, file, plane, plane.first_track + i, t, t.name);
    }
  }

  private addTrack(host: Host, file: number, plane: Plane, track: number, t: Track, label: string): void {
    const own = `t${file}.${track}`, shown = t.counter ? 1 : Math.min(t.rows, this.isOpen(own) ? ALL_LANES : OPEN_LANES);
    const height = t.counter ? COUNTER_HEIGHT : Math.max(1, shown) * LANE + 3;
    const losses = showsLosses(plane) && !t.counter ? [{ file, track }] : [];
    this.add({ kind: "track", key: own, host, plane, file, track, info: t, shown, losses, label, height });
  }

  private addPinned(key: string): void {
    const [file, track] = key.split(".").map(Number), at = this.find(file, track);
    if (at) this.addTrack(at.host, file, at.plane, track, at.info, `${at.host.host} › ${at.info.name}`);
  }

  /** A pinned track is above all hosts; the second call puts it back. */
  pin(file: number, track: number): boolean {
    const key = `${file}.${track}`, fresh = !this.pinned.delete(key);
    if (fresh) this.pinned.add(key);
    this.layOut();
    return fresh;
  }

  /** Changes places with the pinned track above it; whether there is one. */
  raise(file: number, track: number): boolean {
    const order = [...this.pinned], at = order.indexOf(`${file}.${track}`);
    if (at < 1) return false;
    [order[at - 1], order[at]] = [order[at], order[at - 1]];
    this.pinned.clear();
    order.forEach((key) => this.pinned.add(key));
    this.layOut();
    return true;
  }

  private add(row: Omit<Row, "y" | "shown" | "losses"> & Partial<Row>): void {
    const placed = { shown: 0, losses: [], ...row, y: this.height };
    this.rows.push(placed);
    this.byKey.set(row.key, placed);
    this.height += row.height;
  }

  /** The first row that ends below y. */
  rowAt(y: number): number {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].y + this.rows[middle].height <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  row(key: string): Row | undefined { return this.byKey.get(key); }
  trackRow(file: number, track: number): Row | undefined { return this.row(`t${file}.${track}`); }

  find(file: number, track: number): { host: Host; plane: Plane; info: Track } | null {
    for (const host of this.doc.hosts) for (const f of host.files) {
      if (f.file !== file) continue;
      for (const plane of f.planes) {
        const info = plane.tracks[track - plane.first_track];
        if (info && track >= plane.first_track) return { host, plane, info };
      }
    }
    return null;
  }

  /** Opens what hides a track. */
  reveal(file: number, track: number): void {
    const at = this.find(file, track);
    if (!at || this.trackRow(file, track)) return;
    for (const key of [`h${at.host.host}`, `p${file}.${at.plane.first_track}`]) if (!this.isOpen(key)) this.toggle(key);
    this.filter = this.trackRow(file, track) ? this.filter : "";
    this.layOut();
  }
}
