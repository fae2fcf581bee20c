// SPDX-License-Identifier: Apache-2.0
// The timeline of one session: its state, and what keys and the mouse do to it.
import { api } from "../api";
import { byId, el } from "../dom";
import { bytes, count, plural, span } from "../format";
import { type Hit, OVERVIEW, Picture, type Mark, type Scene, type Selected } from "./draw";
import { LANE, Model, type Catalogue } from "./model";
import { type DurationsDoc, type FlameDoc, sampledTracks, showDurations, showFlame } from "./analysis";
import { onTheme, themeButton } from "../theme";
import { type EventDoc, hide, type Jump, type SearchDoc, type SelectionDoc, showEvent, showSearch, showSelected, showSelection } from "./panel";
import { GROUP, Tiles } from "./tiles";

type Tool = "select" | "pan" | "zoom" | "time";
const TOOLS: [Tool, string, string, string][] = [["select", "1", "!", "Select"], ["pan", "2", "@", "Pan"], ["zoom", "3", "#", "Zoom"], ["time", "4", "$", "Measure"]];
const MIN_SPAN_PS = 1000;
const COLLECTIVE = "all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|nccl", STEP = "^(train|step|ProfilerStep)";

const KEYS: [string, string][] = [
  ["W S", "zoom in and out at the pointer; hold to go on"], ["A D", "move left and right; with Shift faster"], ["1 2 3 4, or ! @ # $", "select, pan, zoom, measure"],
  ["click, Ctrl+click, drag", "select an event, one more, all in a box"], ["h", "all events of this name: hosts, histogram, the longest"], ["g", "flame graph of the box, or of the window"], ["l", "which host is late; Enter goes there"], ["p", "pin the event's track on top; again: put it back"], ["t", "show only tracks with a text in their name"], ["f", "zoom to what is selected"], ["m", "mark what is selected, with its length"], ["M", "remove all marks"],
  ["← →", "the event before and after on the track"], ["↑", "the event around this one"], ["/", "find in the whole session"], ["Enter, Shift+Enter", "next and previous match"],
  ["wheel, Ctrl+wheel, Shift+wheel", "scroll, zoom, move"], ["double click", "zoom to the event"], ["0", "the whole session"], ["Esc", "select nothing"], ["?", "these keys"],
];

export class View {
  private readonly model: Model;
  private readonly tiles: Tiles;
  private readonly picture: Picture;
  private readonly canvas = byId<HTMLCanvasElement>("v-canvas");
  private readonly scene: Scene;
  private readonly base: string;
  private readonly off = new AbortController();
  private tool: Tool = "select";
  private held = new Set<string>();
  private pointer = { x: 400, y: 100 };
  private lastFrame = 0;
  private frame = 0;
  private search: SearchDoc | null = null;
  private wanted = ""; // the text of the search
  private box: SelectionDoc | null = null; // what the next box is compared with
  private readonly asking = new Map<string, AbortController>(); // a new question of a kind ends the one before
  private searchTimer = 0;
  private hashTimer = 0;
  private asked = 0; // questions under way
  private restored = 0; // how often the address was followed: an older one's selection ends
  private pan: { x: number; y: number; t0: number; t1: number; top: number } | null = null;
  private doc: EventDoc | null = null; // of the one selected event

  constructor(catalogue: Catalogue, private query: URLSearchParams, private readonly reload: () => void) {
    this.model = new Model(catalogue);
    this.base = `sessions/${catalogue.session}/view`;
    this.tiles = new Tiles(catalogue.session, catalogue.build, (file, group) => Math.min(GROUP, this.model.tracksOf(file) - group * GROUP),
      (stale) => (stale && this.model.doc.state === "ready" ? this.reload() : this.redraw()));
    this.picture = new Picture(this.canvas, this.model, this.tiles, this.off.signal);
    this.scene = { t0: this.model.beginPs, t1: this.model.endPs, y: 0, gutter: 240, width: 0, height: 0, selected: [], flows: [], marks: [], drag: null, find: () => true, finding: false, hover: null };
    this.showFrame(catalogue);
    this.restore(query);
    this.listen();
    this.resize();
  }

  /** More of the session is indexed: the window stays where it is, or shows the whole of it as before. */
  refine(doc: Catalogue): void {
    const s = this.scene, { beginPs, endPs } = this.model, wasWhole = s.t0 <= beginPs && s.t1 >= endPs;
    this.model.take(doc);
    this.tiles.build = doc.build;
    this.showNotices(doc);
    if (wasWhole) this.move(this.model.beginPs, this.model.endPs);
    else this.move(s.t0, s.t1);
    if (doc.state !== "ready") return;
    if (this.wanted) this.find(this.wanted);
    if (!s.selected.length) this.restoreSelection(this.query); // its tracks may not have been there
  }

  /** How far the indexing is. */
  showProgress(doneBytes: number, ofBytes: number): void {
    this.model.doc.done_bytes = doneBytes;
    this.model.doc.bytes = ofBytes;
    this.redraw();
  }

  close(): void {
    this.off.abort();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.searchTimer);
    clearTimeout(this.hashTimer);
  }

  /** For tests. */
  state(): object {
    const s = this.scene;
    return {
      t0: s.t0, t1: s.t1, y: s.y, gutter: s.gutter, tool: this.tool, selected: s.selected, marks: s.marks, flows: s.flows, find: this.wanted, pinned: [...this.model.pinned], idle: this.tiles.isIdle && !this.asked && !this.held.size,
      coarse: this.picture.coarse, onScreen: this.picture.onScreen, complete: this.model.doc.state === "ready", received: this.tiles.received, events: this.model.events, failure: this.tiles.failure,
      rows: this.model.rows.map((r) => ({ kind: r.kind, key: r.key, label: r.label, host: r.host.host, file: r.file, track: r.track, y: this.picture.rowY(s, r), height: r.height, shown: r.shown })),
    };
  }

  hitAt(x: number, y: number): object | null {
    const h = this.picture.hit(this.scene, x, y);
    return h && { name: h.name, startPs: h.startPs, lengthPs: h.lengthPs, count: h.count, file: h.row.file, track: h.row.track, event: h.tile.event[h.entry] };
  }

  /* ---- the frame around the picture ---- */

  private showFrame(doc: Catalogue): void {
    byId("v-name").textContent = `${doc.run ? `${doc.run} / ` : ""}${doc.session}`;
    byId("v-tools").replaceChildren(...TOOLS.map(([tool, key, , title]) => el("button", { className: "tool", textContent: title, title: `${title} (${key})`, onclick: () => this.choose(tool) })),
      el("button", { className: "tool", textContent: "Flame", title: "Flame graph of the box, or of the window (g)", onclick: () => this.flame() }),
      el("button", { className: "tool", textContent: "Late?", title: "Which host is late (l)", onclick: () => this.late() }),
      themeButton(), el("button", { className: "tool", textContent: "?", title: "All keys (?)", onclick: () => this.showKeys() }));
    this.choose("select");
    this.showNotices(doc);
    byId("v-keys").replaceChildren(el("h2", { textContent: "Keys" }), el("table", { className: "pairs" }, el("tbody", {}, ...KEYS.map(([k, v]) => el("tr", {}, el("th", { textContent: k }), el("td", { textContent: v }))))),
      el("form", { method: "dialog" }, el("button", { textContent: "Close" })));
    hide();
  }

  private showNotices(doc: Catalogue): void {
    byId("v-notices").replaceChildren(...this.notices(doc).map((text) => el("p", {}, text, el("button", {
      className: "plain", textContent: "dismiss", onclick: (ev: Event) => { (ev.target as HTMLElement).parentElement!.remove(); this.resize(); },
    }))));
  }

  /* What a reader must know before he believes the picture. */
  private notices(doc: Catalogue): string[] {
    const failed = doc.hosts.filter((h) => !h.files.length), lost = doc.hosts.filter((h) => h.lost), loose = doc.hosts.filter((h) => h.files.length && (h.clock_bound_ns === null || h.clock_bound_ns > 1e6));
    const names = (hosts: { host: string; reason?: string }[]): string => hosts.slice(0, 6).map((h) => `${h.host}${h.reason ? ` (${h.reason})` : ""}`).join(", ") + (hosts.length > 6 ? `, and ${hosts.length - 6} more` : "");
    const out: string[] = [];
    if (failed.length) out.push(`${failed.length} of ${plural(doc.hosts.length, "host")} gave nothing: ${names(failed)} `);
    for (const f of doc.hosts.flatMap((h) => h.files)) if (f.error) out.push(`Not shown: ${f.error} `);
    if (lost.length) out.push(`Records are known to be lost: ${lost.slice(0, 6).map((h) => `${count(h.lost)} on ${h.host}`).join(", ")} `);
    if (loose.length) out.push(`Clocks off by more than 1 ms, or not calibrated: ${names(loose.map(({ host }) => ({ host })))} `);
    const unplaced = doc.hosts.flatMap((h) => h.files.flatMap((f) => f.planes.flatMap((p) => p.tracks))).reduce((n, t) => n + (t.unplaced ?? 0), 0);
    if (unplaced) out.push(`${plural(unplaced, "event")} have times out of range and are not shown `);
    return out;
  }

  private choose(tool: Tool): void {
    this.tool = tool;
    [...byId("v-tools").children].slice(0, TOOLS.length).forEach((b, i) => b.setAttribute("aria-pressed", String(TOOLS[i][0] === tool)));
    this.canvas.style.cursor = { select: "default", pan: "grab", zoom: "zoom-in", time: "col-resize" }[tool];
  }

  private showKeys(): void { byId<HTMLDialogElement>("v-keys").showModal(); }

  private say(text: string): void { byId("v-live").textContent = text; }

  private resize(): void {
    const box = byId("v-stage").getBoundingClientRect();
    Object.assign(this.scene, { width: box.width, height: box.height, gutter: Math.min(240, Math.max(110, box.width * 0.3)) });
    this.move(this.scene.t0, this.scene.t1);
  }

  /* ---- drawing ---- */

  private redraw(): void {
    if (!this.frame) this.frame = requestAnimationFrame((now) => { this.frame = 0; this.step(now); this.picture.draw(this.scene); this.showStatus(); });
  }

  private showStatus(): void {
    const s = this.scene, waiting = this.tiles.waiting;
    byId("v-time").textContent = `${s.hover === null ? "" : `${span(s.hover)} · `}window ${span(s.t1 - s.t0)} · ${count(this.picture.onScreen)} drawn of ${count(this.model.events)} events`;
    const { state, done_bytes, bytes: all } = this.model.doc;
    byId("v-note").textContent = this.tiles.failure || (state === "building" ? `indexing, ${bytes(done_bytes)} of ${bytes(all)}…` : "") || (waiting || this.picture.coarse ? "coarse, sharpening…" : `server ${this.tiles.serverMs.toFixed(1)} ms`);
  }

  /* Keys that are held move the window as long as they are. */
  private step(now: number): void {
    const elapsed = Math.min(100, this.lastFrame ? now - this.lastFrame : 16) / 1000;
    this.lastFrame = this.held.size ? now : 0;
    if (!this.held.size) return;
    const fast = this.held.has("Shift") ? 3 : 1, size = this.scene.t1 - this.scene.t0;
    if (this.held.has("KeyW")) this.zoom(Math.exp(-2.2 * elapsed));
    if (this.held.has("KeyS")) this.zoom(Math.exp(2.2 * elapsed));
    if (this.held.has("KeyA")) this.move(this.scene.t0 - size * elapsed * fast, this.scene.t1 - size * elapsed * fast);
    if (this.held.has("KeyD")) this.move(this.scene.t0 + size * elapsed * fast, this.scene.t1 + size * elapsed * fast);
    this.redraw();
  }

  private move(t0: number, t1: number): void {
    const s = this.scene, whole = this.model.endPs - this.model.beginPs, size = Math.min(Math.max(t1 - t0, MIN_SPAN_PS), whole * 1.2);
    const low = this.model.beginPs - whole * 0.1, high = this.model.endPs + whole * 0.1, middle = (t0 + t1) / 2;
    s.t0 = Math.min(Math.max(middle - size / 2, low), Math.max(low, high - size));
    s.t1 = s.t0 + size;
    s.y = Math.max(0, Math.min(s.y, this.model.height - (s.height - this.picture.top()) / 2));
    this.redraw();
    clearTimeout(this.hashTimer);
    this.hashTimer = window.setTimeout(() => this.store(), 300);
  }

  private zoom(factor: number, x = this.pointer.x): void {
    const s = this.scene, at = this.picture.ps(s, Math.max(s.gutter, Math.min(x, s.width)));
    this.move(at - (at - s.t0) * factor, at + (s.t1 - at) * factor);
  }

  private frameOn(fromPs: number, toPs: number): void {
    const margin = Math.max((toPs - fromPs) * 0.1, MIN_SPAN_PS);
    this.store(true);
    this.move(fromPs - margin, toPs + margin);
  }

  /* ---- the address: it restores the view ---- */

  private store(push = false): void {
    const s = this.scene, q = new URLSearchParams({ t: `${Math.round(s.t0)}_${Math.round(s.t1)}` });
    if (s.y) q.set("y", String(Math.round(s.y)));
    if (s.selected.length) q.set("sel", s.selected.slice(0, 50).map((e) => `${e.file}.${e.track}.${e.event}`).join("_"));
    if (this.wanted) q.set("q", this.wanted);
    for (const [key, on] of Object.entries(this.searchFlags())) if (on) q.set(key, "1");
    if (this.model.pinned.size) q.set("pin", [...this.model.pinned].join("_"));
    if (this.model.filter) q.set("only", this.model.filter);
    if (this.model.flipped.size) q.set("open", [...this.model.flipped].join("~"));
    if (s.marks.length) q.set("m", s.marks.map((m) => `${Math.round(m.fromPs)}_${Math.round(m.toPs)}`).join("~"));
    const address = `#/s/${this.model.doc.session}?${q}`;
    if (push) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  }

  restore(q: URLSearchParams): void {
    const s = this.scene, two = (text: string): [number, number] | null => { const [a, b] = text.split("_").map(Number); return Number.isFinite(a) && b > a ? [a, b] : null; };
    this.query = q;
    this.model.flipped.clear();
    for (const key of (q.get("open") ?? "").split("~")) if (key) this.model.flipped.add(key);
    this.model.pinned.clear();
    for (const key of (q.get("pin") ?? "").split("_")) if (/^\d+\.\d+$/.test(key)) this.model.pinned.add(key);
    this.model.filter = byId<HTMLInputElement>("v-only").value = q.get("only") ?? "";
    this.model.layOut();
    for (const key of ["pattern", "case"]) byId(`v-${key}`).setAttribute("aria-pressed", String(q.get(key) === "1"));
    const t = two(q.get("t") ?? "");
    if (t) [s.t0, s.t1] = t;
    s.y = Number(q.get("y")) || 0;
    s.marks = (q.get("m") ?? "").split("~").map(two).filter((m) => m !== null).map(([fromPs, toPs]): Mark => ({ fromPs, toPs }));
    byId<HTMLInputElement>("v-find").value = q.get("q") ?? "";
    this.find(q.get("q") ?? "");
    s.selected = [];
    this.restoreSelection(q);
    this.showSelected();
  }

  private restoreSelection(q: URLSearchParams): void {
    const mine = ++this.restored;
    const places = (q.get("sel") ?? "").split("_").map((p) => p.split(".").map(Number)).filter((p) => p.length === 3 && p.every(Number.isFinite));
    places.reduce((before, [file, track, event]) => before.then(() => (this.restored === mine ? this.select({ file, track, event }, true) : undefined)), Promise.resolve());
  }

  /* ---- questions ---- */

  private async ask<T>(what: string, query: Record<string, string | number>): Promise<T | null> {
    const abort = new AbortController();
    this.asking.get(what)?.abort();
    this.asking.set(what, abort);
    this.asked++;
    try {
      return await api(`${this.base}/${what}?${new URLSearchParams({ build: this.model.doc.build, ...Object.fromEntries(Object.entries(query).map(([k, v]) => [k, String(v)])) })}`, { signal: abort.signal });
    } catch (e) {
      if (!abort.signal.aborted) byId("v-note").textContent = (e as Error).message;
      return null;
    } finally {
      if (this.asking.get(what) === abort) this.asking.delete(what);
      this.asked--;
    }
  }

  private async select(at: Jump, more: boolean): Promise<void> {
    const s = this.scene, same = s.selected.findIndex((e) => e.file === at.file && e.track === at.track && e.event === at.event);
    if (more && same >= 0) s.selected.splice(same, 1);
    else {
      const doc = await this.ask<EventDoc>("event", { file: at.file, track: at.track, event: at.event });
      if (!doc) return;
      const e: Selected = { ...at, row: doc.row, startPs: Number(doc.start_ps), durationPs: Number(doc.duration_ps), name: doc.display_name || doc.name };
      s.selected = more ? [...s.selected, e] : [e];
      this.doc = doc;
    }
    this.showSelected();
    this.move(s.t0, s.t1);
  }

  private showSelected(): void {
    const s = this.scene, [e] = s.selected;
    s.flows = [];
    if (!e) return this.closePanel();
    if (s.selected.length > 1 || !this.doc) showSelected(this.model, s.selected, () => this.clear());
    else {
      s.flows = this.doc.flow.filter((f) => f.track !== e.track || f.file !== e.file || f.event !== e.event)
        .map((f) => ({ file: f.file, track: f.track, row: 0, startPs: Number(f.start_ps), direction: f.direction }));
      showEvent(this.model, e, this.doc, (to) => this.jump(to), () => this.showAll(e), () => this.clear());
      const at = this.model.find(e.file, e.track)!;
      this.say(`${e.name}, ${span(e.durationPs)}, at ${span(e.startPs)}, track ${at.info.name} of ${at.host.host}`);
    }
    this.resize();
  }

  private closePanel(): void {
    hide();
    this.resize();
  }

  private clear(): void {
    this.scene.selected = [];
    this.scene.flows = [];
    this.doc = null;
    this.boxMark = null;
    this.closePanel();
  }

  /* Goes to an event, wherever it is. */
  private async jump(to: Jump): Promise<void> {
    const s = this.scene;
    this.model.reveal(to.file, to.track);
    await this.select(to, false);
    const [e] = s.selected, row = this.model.trackRow(to.file, to.track), size = s.t1 - s.t0;
    if (!e || !row) return;
    const y = row.y + Math.min(e.row, row.shown) * LANE;
    if (y < s.y || y + LANE > s.y + s.height - this.picture.top()) s.y = Math.max(0, y - (s.height - this.picture.top()) / 2);
    if (e.startPs < s.t0 || e.startPs + e.durationPs > s.t1) {
      const wide = Math.max(size, e.durationPs * 1.5), middle = e.startPs + e.durationPs / 2;
      this.store(true);
      this.move(middle - wide / 2, middle + wide / 2);
    }
    this.redraw();
  }

  private searchFlags(): { pattern: number; case: number } {
    const on = (key: string): number => Number(byId(`v-${key}`).getAttribute("aria-pressed") === "true");
    return { pattern: on("pattern"), case: on("case") };
  }

  /* What the picture pales is decided here; the aggregator counts. A pattern that only it understands pales nothing. */
  private matcher(text: string): (name: string) => boolean {
    const flags = this.searchFlags(), want = flags.case ? text : text.toLowerCase();
    if (!flags.pattern) return (name) => (flags.case ? name : name.toLowerCase()).includes(want);
    try {
      const re = new RegExp(text, flags.case ? "" : "i");
      return (name) => re.test(name);
    } catch { return () => true; }
  }

  private find(text: string): void {
    this.wanted = text;
    Object.assign(this.scene, { finding: text !== "", find: this.matcher(text) });
    this.search = null;
    byId("v-hits").textContent = "";
    clearTimeout(this.searchTimer);
    this.redraw();
    if (text) this.searchTimer = window.setTimeout(() => this.runSearch(text), 120);
    else if (!this.scene.selected.length) this.closePanel();
  }

  private async runSearch(text: string): Promise<void> {
    const doc = await this.ask<SearchDoc>("search", { text, ...this.searchFlags() });
    if (!doc || this.wanted !== text) return;
    this.search = doc;
    byId("v-hits").textContent = doc.matches ? `${count(doc.matches)} matches` : "no match";
    if (!this.scene.selected.length) {
      showSearch(this.model, text, doc, () => this.next(false), () => this.closePanel());
      this.resize();
    }
    this.move(this.scene.t0, this.scene.t1);
  }

  private async next(backward: boolean): Promise<void> {
    const s = this.scene, [e] = s.selected;
    if (!this.wanted) return;
    const from = e ? { start_ps: e.startPs, file: e.file, track: e.track, event: e.event } : { start_ps: Math.round(backward ? s.t1 : s.t0), file: 0, track: 0, event: 0 };
    const query = { text: this.wanted, ...this.searchFlags(), backward: backward ? 1 : 0 };
    let doc = await this.ask<Jump & { found: boolean }>("next", { ...query, ...from });
    if (doc && !doc.found && this.search?.matches)  // around the end
      doc = await this.ask<Jump & { found: boolean }>("next", { ...query, start_ps: Math.round(backward ? this.model.endPs : this.model.beginPs) + (backward ? 1 : -1), file: 0, track: 0, event: 0 });
    if (doc?.found) await this.jump({ file: doc.file, track: doc.track, event: doc.event });
    else this.say("no match");
  }

  private async selectBox(d: NonNullable<Scene["drag"]>): Promise<void> {
    const s = this.scene, [y0, y1] = [Math.min(d.y0, d.y1), Math.max(d.y0, d.y1)], [x0, x1] = [Math.min(d.x0, d.x1), Math.max(d.x0, d.x1)];
    const tracks = this.model.rows.filter((r) => r.kind === "track" && !r.info!.counter && r.info!.events && this.picture.rowY(s, r) < y1 && this.picture.rowY(s, r) + r.height > y0)
      .map((r) => [r.file!, r.track!]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    if (!tracks.length) return;
    const from = this.picture.ps(s, Math.max(x0, s.gutter)), to = this.picture.ps(s, x1);
    const doc = await this.ask<SelectionDoc>("selection", { from_ps: Math.round(from), to_ps: Math.round(to), tracks: tracks.slice(0, 700).map((t) => t.join(".")).join(",") });
    if (!doc) return;
    s.selected = [];
    s.marks = s.marks.filter((m) => m !== this.boxMark);
    this.boxMark = { fromPs: from, toPs: to };
    showSelection(doc, this.box, () => { this.box = doc; this.say("the next box is compared with this one"); this.closePanel(); }, () => this.flame(), () => this.closePanel());
    this.box = null;
    this.say(`${plural(doc.count, "event")} in the box, ${span(Number(doc.total_ps))} in all`);
    this.resize();
  }
  private boxMark: Mark | null = null; // the time of the last box: what m marks and f frames

  /* Of the box, else of the window. */
  private async flame(): Promise<void> {
    const s = this.scene, of = this.boxMark ?? { fromPs: s.t0, toPs: s.t1 };
    const doc = await this.ask<FlameDoc>("flame", { from_ps: Math.round(of.fromPs), to_ps: Math.round(of.toPs), tracks: sampledTracks(this.model), group: "none" });
    if (!doc) return;
    showFlame(doc, of.fromPs, of.toPs, this.wanted.toLowerCase(), () => this.closePanel());
    this.say(`flame graph of ${span(of.toPs - of.fromPs)}, ${plural(doc.stacks, "stack")}`);
    this.resize();
  }

  private async showAll(of: Jump): Promise<void> {
    const doc = await this.ask<DurationsDoc>("durations", { file: of.file, track: of.track, event: of.event, from_ps: -(2 ** 59), to_ps: 2 ** 59 });
    if (!doc) return;
    showDurations(this.model, doc, (to) => this.jump(to), () => this.closePanel());
    this.say(`${plural(doc.count, "event")} of this name on ${plural(doc.hosts.length, "host")}`);
    this.resize();
  }

  /* The selected event's name; else that of a collective, else of a step: what all hosts do together. */
  private async late(): Promise<void> {
    if (this.scene.selected[0]) return this.showAll(this.scene.selected[0]);
    for (const text of [COLLECTIVE, STEP]) {
      const found = await this.ask<Jump & { found: boolean }>("next", { text, pattern: 1, case: 0, start_ps: Math.round(this.model.beginPs) - 1, file: 0, track: 0, event: 0, backward: 0 });
      if (found?.found) return this.showAll(found);
    }
    this.say("no event of this session is a collective's or a step's: select one, then press l");
  }

  private pin(): void {
    const [e] = this.scene.selected;
    if (!e) return this.say("select an event of the track first");
    this.say(this.model.pin(e.file, e.track) ? "pinned" : "put back");
    this.scene.y = 0;
    this.move(this.scene.t0, this.scene.t1);
  }

  /* The extent of what is selected. */
  private extent(): [number, number] | null {
    const list = this.scene.selected;
    if (!list.length) return this.boxMark && [this.boxMark.fromPs, this.boxMark.toPs];
    return [Math.min(...list.map((e) => e.startPs)), Math.max(...list.map((e) => e.startPs + e.durationPs))];
  }

  /* ---- keys ---- */

  private onKey(ev: KeyboardEvent): void {
    const typing = ev.target instanceof HTMLInputElement, find = byId<HTMLInputElement>("v-find");
    if (byId<HTMLDialogElement>("v-keys").open) return;
    if (ev.key === "Enter" && ((typing && ev.target === find) || ev.target === this.canvas || ev.target === document.body)) return void this.next(ev.shiftKey);
    if (ev.key === "Escape") { if (typing) (ev.target as HTMLElement).blur(); return this.clear(); }
    if (typing || ev.ctrlKey || ev.metaKey || ev.altKey) return;
    if (["KeyW", "KeyA", "KeyS", "KeyD"].includes(ev.code)) {
      if (ev.repeat) return;
      this.held.add(ev.code);
      if (ev.shiftKey) this.held.add("Shift");
      return this.redraw();
    }
    const tool = TOOLS.find(([, key, shifted]) => ev.key === key || ev.key === shifted), extent = this.extent();
    if (tool) this.choose(tool[0]);
    else if (ev.key === "f" && extent) this.frameOn(...extent);
    else if (ev.key === "m" && extent) this.mark(...extent);
    else if (ev.key === "M") { this.scene.marks = []; this.redraw(); }
    else if (ev.key === "h" && this.scene.selected[0]) this.showAll(this.scene.selected[0]);
    else if (ev.key === "g") this.flame();
    else if (ev.key === "l") this.late();
    else if (ev.key === "p") this.pin();
    else if (ev.key === "t") byId("v-only").focus();
    else if (ev.key === "0") { this.store(true); this.move(this.model.beginPs, this.model.endPs); }
    else if (ev.key === "/") { find.focus(); find.select(); }
    else if (ev.key === "?") this.showKeys();
    else if (ev.key.startsWith("Arrow")) this.walk(ev.key);
    else return;
    ev.preventDefault();
  }

  private mark(fromPs: number, toPs: number): void {
    this.scene.marks.push({ fromPs, toPs });
    this.say(`marked ${span(toPs - fromPs)}`);
    this.move(this.scene.t0, this.scene.t1);
  }

  /* From event to event; without one, from the first that is on the screen. */
  private walk(key: string): void {
    const [e] = this.scene.selected;
    if (!e) {
      const row = this.model.rows.slice(this.model.rowAt(this.scene.y)).find((r) => r.kind === "track" && !r.info!.counter && r.info!.events);
      if (row) this.jump({ file: row.file!, track: row.track!, event: 0 });
    } else if (key === "ArrowUp") {
      const parent = this.doc?.parents.at(-1);
      if (parent) this.jump({ ...e, event: parent.event });
    } else {
      const to = e.event + (key === "ArrowLeft" ? -1 : 1), info = this.model.find(e.file, e.track)!.info;
      if (to >= 0 && to < info.events) this.jump({ file: e.file, track: e.track, event: to });
    }
  }

  /* ---- the mouse ---- */

  private at(ev: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: ev.clientX - box.left, y: ev.clientY - box.top };
  }

  private onDown(ev: PointerEvent): void {
    const { x, y } = this.at(ev), s = this.scene;
    if (ev.button !== 0) return;
    this.canvas.focus();
    this.canvas.setPointerCapture(ev.pointerId);
    if (y < OVERVIEW && x > s.gutter) return this.moveTo(x);
    if (x < s.gutter || y < this.picture.top()) return;
    if (this.tool === "pan") this.pan = { x, y, t0: s.t0, t1: s.t1, top: s.y };
    else {
      const from = this.tool === "time" ? this.picture.x(s, this.picture.snap(s, x, y)) : x;
      s.drag = { kind: this.tool === "select" ? "box" : this.tool, x0: from, y0: y, x1: from, y1: y };
    }
  }

  /* The window goes where the overview was clicked. */
  private moveTo(x: number): void {
    const s = this.scene, middle = this.model.beginPs + (x - s.gutter) / (s.width - s.gutter) * (this.model.endPs - this.model.beginPs), half = (s.t1 - s.t0) / 2;
    this.move(middle - half, middle + half);
  }

  private onMove(ev: PointerEvent): void {
    const { x, y } = this.at(ev), s = this.scene;
    this.pointer = { x, y };
    s.hover = x > s.gutter ? this.picture.ps(s, x) : null;
    if (this.pan) {
      const shift = (this.pan.x - x) / (s.width - s.gutter) * (this.pan.t1 - this.pan.t0);
      s.y = this.pan.top + this.pan.y - y;
      this.move(this.pan.t0 + shift, this.pan.t1 + shift);
    } else if (s.drag) {
      s.drag.x1 = this.tool === "time" ? this.picture.x(s, this.picture.snap(s, x, y)) : x;
      s.drag.y1 = y;
    } else if (ev.buttons === 1 && y < OVERVIEW) this.moveTo(x);
    this.showTip(x, y);
    this.redraw();
  }

  private onUp(ev: PointerEvent): void {
    const s = this.scene, d = s.drag, { x, y } = this.at(ev);
    const dragged = d && Math.abs(d.x1 - d.x0) + (d.kind === "box" ? Math.abs(d.y1 - d.y0) : 0) > 4;
    s.drag = null;
    if (!d && !this.pan && x < s.gutter) this.toggleAt(y);
    else if (d && !dragged) this.click(this.picture.hit(s, x, y), ev.ctrlKey || ev.metaKey);
    else if (d?.kind === "box") this.selectBox(d);
    else if (d?.kind === "zoom") { this.store(true); this.move(this.picture.ps(s, Math.min(d.x0, d.x1)), this.picture.ps(s, Math.max(d.x0, d.x1))); }
    else if (d?.kind === "time") this.mark(this.picture.ps(s, Math.min(d.x0, d.x1)), this.picture.ps(s, Math.max(d.x0, d.x1)));
    this.pan = null;
    this.redraw();
  }

  private toggleAt(y: number): void {
    const row = this.model.rows[this.model.rowAt(y - this.picture.top() + this.scene.y)];
    if (!row || y < this.picture.top()) return;
    this.model.toggle(row.key);
    this.move(this.scene.t0, this.scene.t1);
  }

  /* A fold has no details of its own: a click zooms to what it stands for. */
  private click(hit: Hit | null, more: boolean): void {
    if (!hit) { if (!more) this.clear(); return; }
    if (hit.count > 1) return this.frameOn(hit.startPs, hit.startPs + Math.max(hit.lengthPs, 1));
    this.select({ file: hit.row.file!, track: hit.row.track!, event: hit.tile.event[hit.entry] }, more);
  }

  private showTip(x: number, y: number): void {
    const tip = byId("v-tip"), hit = this.scene.drag || this.pan ? null : this.picture.hit(this.scene, x, y);
    tip.hidden = !hit;
    if (!hit) return;
    const busy = Math.round((hit.tile.row[hit.entry] >>> 16) / 655.35);
    tip.textContent = hit.count > 1 ? `× ${count(hit.count)}, ${busy} % busy, longest: ${hit.name}` : `${hit.name} · ${span(hit.lengthPs)}`;
    tip.style.left = `${Math.min(x + 12, this.scene.width - tip.offsetWidth - 8)}px`;
    tip.style.top = `${y + 16}px`;
  }

  private onWheel(ev: WheelEvent): void {
    const s = this.scene, { x } = this.at(ev), size = s.t1 - s.t0;
    ev.preventDefault();
    if (ev.ctrlKey) return this.zoom(Math.exp(ev.deltaY * 0.002), x);
    const sideways = ev.deltaX + (ev.shiftKey ? ev.deltaY : 0);
    if (!ev.shiftKey) s.y += ev.deltaY;
    this.move(s.t0 + sideways / 1000 * size, s.t1 + sideways / 1000 * size);
  }

  private listen(): void {
    const signal = this.off.signal, on = { signal };
    window.addEventListener("keydown", (ev) => this.onKey(ev), on);
    window.addEventListener("keyup", (ev) => { this.held.delete(ev.code); if (ev.key === "Shift") this.held.delete("Shift"); this.redraw(); }, on);
    window.addEventListener("blur", () => this.held.clear(), on);
    window.addEventListener("resize", () => this.resize(), on);
    onTheme(() => this.redraw(), signal);
    this.canvas.addEventListener("pointerdown", (ev) => this.onDown(ev), on);
    this.canvas.addEventListener("pointermove", (ev) => this.onMove(ev), on);
    this.canvas.addEventListener("pointerup", (ev) => this.onUp(ev), on);
    this.canvas.addEventListener("pointerleave", () => { this.scene.hover = null; byId("v-tip").hidden = true; this.redraw(); }, on);
    this.canvas.addEventListener("dblclick", (ev) => { const h = this.picture.hit(this.scene, this.at(ev).x, this.at(ev).y); if (h) this.frameOn(h.startPs, h.startPs + h.lengthPs); }, on);
    this.canvas.addEventListener("wheel", (ev) => this.onWheel(ev), { signal, passive: false });
    byId("v-find").addEventListener("input", (ev) => this.find((ev.target as HTMLInputElement).value), on);
    byId("v-only").addEventListener("input", (ev) => { this.model.filter = (ev.target as HTMLInputElement).value; this.model.layOut(); this.scene.y = 0; this.move(this.scene.t0, this.scene.t1); }, on);
    for (const key of ["pattern", "case"]) byId(`v-${key}`).addEventListener("click", (ev) => {
      const button = ev.currentTarget as HTMLElement;
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      this.find(this.wanted);
    }, on);
  }
}
