// SPDX-License-Identifier: Apache-2.0
// The timeline of one session: its state, and what can be done to it. keys.ts and mouse.ts say how.
import { bodyOf, sendSignedIn } from "../api";
import { byId, el } from "../dom";
import { bytes, count, plural, span } from "../format";
import { onTheme } from "../theme";
import { openInPerfetto, TooLarge, viewers, xprofAddress } from "../viewers";
import { addressOf, placesOf, restore } from "./address";
import { type DurationsDoc, type FlameDoc, sampledTracks } from "./analysis";
import { showDurations, showFlame } from "./analysis_panel";
import { Picture } from "./draw";
import { Flows } from "./flows";
import { Keys, type Tool, TOOLS } from "./keys";
import { type Catalogue, LANE, Model, type Place, type Row, tracksOf } from "./model";
import { Mouse } from "./mouse";
import { Notices } from "./notices";
import { Painter } from "./painter";
import { type EventDoc, hide, showEvent, showSelected, showSelection } from "./panel";
import { type Mark, psOf, type Scene, type Selected, TOP, yOf } from "./scene";
import { Search, type SearchFlags } from "./search";
import type { Jump, SelectionDoc } from "./sums";
import { GROUP } from "./tile";
import { Tiles } from "./tiles";

const PERFETTO_EVENTS = 600_000;
const STALE_MS = 5000, AGAIN_MS = 250;
const MIN_SPAN_PS = 1000, AROUND_PS = 1e8, /* what is shown of an instant's surroundings */ ASKED_TRACKS = 700, NOTE_MS = 5000;
const COLLECTIVE = "all-?reduce|all-?gather|reduce-?scatter|all-?to-?all|nccl", STEP = "^(train|step|ProfilerStep)";

/* What is compared with the next box. */
interface Box { doc: SelectionDoc; fromPs: number; toPs: number; tracks: string }

export class View {
  readonly canvas = byId<HTMLCanvasElement>("v-canvas");
  readonly model: Model;
  readonly picture: Picture;
  readonly scene: Scene;
  readonly flows = new Flows(this);
  tool: Tool = "select";
  pointer = { x: 400, y: 100 };
  private readonly painter = new Painter();
  private readonly tiles: Tiles;
  private readonly base: string;
  private readonly off = new AbortController();
  private readonly keys: Keys;
  private readonly notices = new Notices(() => this.resize());
  private readonly search: Search;
  private readonly asking = new Map<string, AbortController>(); // a new question of a kind ends the one before
  private asked = 0; // questions under way
  private frame = 0;
  private hashTimer = 0;
  private stored = "";
  private noteTimer = 0;
  private noted = "";
  private restored = 0; // how often the address was followed: an older one's selection ends
  private doc: EventDoc | null = null; // of the one selected event
  private box: Box | null = null;
  private boxMark: Mark | null = null; // the time of the last box: what m marks and f frames
  private isOld = false; // it is opened again

  constructor(catalogue: Catalogue, private query: URLSearchParams, private readonly openAgain: () => void) {
    const signal = this.off.signal;
    this.model = new Model(catalogue);
    this.base = `sessions/${catalogue.session}/view`;
    this.tiles = new Tiles(this.painter, catalogue.session, catalogue.build, (file, group) => ({ tracks: Math.min(GROUP, this.model.tracksOf(file) - group * GROUP), rows: this.model.rowsOf(file, group) }),
      (stale) => (stale && this.model.doc.state === "ready" ? this.reload() : this.redraw()));
    this.picture = new Picture(this.canvas, this.model, this.tiles, this.painter, () => this.nextFrame(), signal);
    this.scene = {
      t0: this.model.beginPs, t1: this.model.endPs, y: 0, gutter: 240, width: 0, height: 0, row: "", selected: [], flows: [], links: () => this.flows.links, marks: [],
      drag: null, find: null, ticks: null, hover: null,
    };
    this.keys = new Keys(this, signal);
    this.search = new Search(this, signal);
    new Mouse(this, signal);
    window.addEventListener("resize", () => this.resize(), { signal });
    onTheme(() => this.redraw(), signal);
    byId("v-only").addEventListener("input", (ev) => { this.setFilter((ev.target as HTMLInputElement).value); this.scene.y = 0; this.move(this.scene.t0, this.scene.t1); }, { signal });
    this.showFrame(catalogue);
    this.restore(query);
    this.resize();
    this.keepBase();
  }

  /* Once all is indexed. */
  private keepBase(): void {
    if (this.model.doc.state === "ready") this.tiles.keepBase(this.model.groups(GROUP), this.model.beginPs, this.model.endPs);
  }

  /** More of the session is indexed: the window stays where it is, or shows the whole of it as before. An aggregator that began anew
      catches up first: no track goes away meanwhile. */
  refine(doc: Catalogue): void {
    if (doc.state !== "ready" && tracksOf(doc) < tracksOf(this.model.doc)) return this.showProgress(doc.done_bytes, doc.bytes);
    const s = this.scene, { beginPs, endPs } = this.model, wasWhole = s.t0 <= beginPs && s.t1 >= endPs;
    this.model.take(doc);
    this.tiles.build = doc.build;
    this.notices.take(doc);
    if (wasWhole) this.move(this.model.beginPs, this.model.endPs);
    else this.move(s.t0, s.t1);
    if (doc.state !== "ready") return;
    this.keepBase();
    if (this.wanted) this.search.find(this.wanted);
    if (!s.selected.length) this.selectAll(placesOf(this.query)); // their tracks may not have been there
  }

  /** How far the indexing is. */
  showProgress(doneBytes: number, ofBytes: number): void {
    this.model.doc.done_bytes = doneBytes;
    this.model.doc.bytes = ofBytes;
    this.showStatus(); // the picture is the same
  }

  private reload(): void {
    if (!this.isOld) this.openAgain();
    this.isOld = true;
  }

  /** It was opened again; whether it is the same. */
  goOn(doc: Catalogue): boolean {
    if (doc.build !== this.model.doc.build) return false;
    this.isOld = false;
    this.note("");
    return true;
  }

  close(): void {
    this.off.abort();
    for (const question of this.asking.values()) question.abort(); // the next session has the panel
    this.painter.close();
    this.search.close();
    this.flows.close();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.hashTimer);
    clearTimeout(this.noteTimer);
  }

  /** For tests. */
  state(): object {
    const s = this.scene, p = this.picture;
    return {
      t0: s.t0, t1: s.t1, y: s.y, gutter: s.gutter, tool: this.tool, selected: s.selected, marks: s.marks, flows: s.flows, links: this.flows.links.length, arrows: p.arrows, find: this.search.text, ticks: s.ticks,
      pinned: [...this.model.pinned], row: s.row, shown: p.isShown, idle: this.tiles.isIdle && !this.asked && !this.keys.areHeld, coarse: p.coarse, missing: p.missing, onScreen: p.onScreen, complete: this.model.doc.state === "ready", drawMs: p.drawMs,
      received: this.tiles.received, events: this.model.events, failure: this.tiles.failure,
      rows: this.model.rows.map((r) => ({ kind: r.kind, key: r.key, label: r.label, host: r.host.host, file: r.file, track: r.track, y: yOf(s, r), height: r.height, shown: r.shown })),
    };
  }

  hitAt(x: number, y: number): object | null {
    const h = this.picture.hit(this.scene, x, y);
    return h && { name: h.name, startPs: h.startPs, lengthPs: h.lengthPs, count: h.count, file: h.file, track: h.track, event: h.tile.event[h.entry] };
  }

  sampleAt(x: number, y: number): object | null { return this.picture.sampleAt(this.scene, x, y); }

  /* ---- the frame around the picture ---- */

  private showFrame(doc: Catalogue): void {
    const verb = (textContent: string, title: string, onclick: () => void, id = ""): HTMLElement => el("button", { className: "tool", textContent, title, onclick, id });
    byId("v-name").textContent = `${doc.run ? `${doc.run} / ` : ""}${doc.session}`;
    byId("v-tools").replaceChildren(...TOOLS.map(([tool, key, , title]) => verb(title, `${title} (${key})`, () => this.choose(tool))),
      verb("Flows", "Arrows of all flows in the window (v)", () => this.toggleFlows(), "v-flows"),
      verb("Flame", "Flame graph of the box, or of the window (g)", () => this.flame()),
      verb("Late?", "Which host is late (l)", () => this.late()),
      verb("Compare", "Compare the window, or the whole session, with another one", () => { location.hash = this.compareAddress(); }));
    this.choose("select");
    this.notices.take(doc);
    hide();
    void this.showViewers(doc);
  }

  /* Other viewers, as far as there are any. An address with `perfetto=1` asks for a click: browsers open no window without one. */
  private async showViewers(doc: Catalogue): Promise<void> {
    const wanted = this.query.has("perfetto"), { perfetto } = await viewers(), xprof = await xprofAddress(doc.session, doc.run), tool = (textContent: string, title: string): object => ({ className: "tool", textContent, title });
    if (this.off.signal.aborted) return;
    const open = (): void => void this.openPerfetto(perfetto, this.scene.t0, this.scene.t1);
    if (perfetto) byId("v-tools").append(el("button", { ...tool("Perfetto", "Open the window that is shown in Perfetto"), id: "v-perfetto", onclick: open }));
    if (xprof) byId("v-tools").append(el("a", { ...tool("XProf", "Open the session in XProf"), className: "button tool", id: "v-xprof", href: xprof, target: "_blank", rel: "noopener" }));
    if (wanted && perfetto) this.notices.offer("This link opens the window in Perfetto. ", "Open it", open);
    this.resize();
  }

  private async openPerfetto(url: string, fromPs: number, toPs: number): Promise<void> {
    const { session, t0_ns } = this.model.doc;
    try {
      await openInPerfetto(url, { session, t0_ns, fromPs, toPs, fetch: (query, signal) => this.send("trace", query, signal) }, (text) => this.note(text));
    } catch (e) {
      this.note((e as Error).message);
      if (e instanceof TooLarge) await this.offerLess(url, fromPs, toPs);
    }
  }

  /* A window in the middle that has some 60 MB: an event is 34 bytes there, and more with args. */
  private async offerLess(url: string, fromPs: number, toPs: number): Promise<void> {
    const sums = await this.ask<SelectionDoc>("selection", { from_ps: Math.round(fromPs), to_ps: Math.round(toPs), tracks: "all" });
    if (!sums) return;
    const half = (toPs - fromPs) / 2 * Math.min(0.5, PERFETTO_EVENTS / Math.max(1, sums.count)), middle = (fromPs + toPs) / 2;
    this.notices.offer(`${span(toPs - fromPs)} with ${plural(sums.count, "event")} are too much for Perfetto: it is given 100 MB at most. `, `Open the ${span(Math.round(2 * half))} in the middle`,
      () => { this.store(true); this.move(middle - half, middle + half); void this.openPerfetto(url, middle - half, middle + half); });
  }

  choose(tool: Tool): void {
    this.tool = tool;
    [...byId("v-tools").children].slice(0, TOOLS.length).forEach((b, i) => b.setAttribute("aria-pressed", String(TOOLS[i][0] === tool)));
    this.canvas.style.cursor = { select: "default", pan: "grab", zoom: "zoom-in", time: "col-resize" }[tool];
  }

  /** For those who hear the page. */
  say(text: string): void { byId("v-live").textContent = text; }

  /** In the line below the picture, for a while. */
  note(text: string): void {
    this.noted = text;
    clearTimeout(this.noteTimer);
    this.noteTimer = window.setTimeout(() => { this.noted = ""; this.redraw(); }, NOTE_MS);
    this.redraw();
  }

  resize(): void {
    const box = byId("v-stage").getBoundingClientRect();
    Object.assign(this.scene, { width: box.width, height: box.height, gutter: Math.min(240, Math.max(110, box.width * 0.3), box.width * 0.6) });
    this.move(this.scene.t0, this.scene.t1);
  }

  closePanel(): void {
    hide();
    this.resize();
  }

  /* ---- drawing ---- */

  redraw(): void {
    this.picture.change();
    this.nextFrame();
  }

  private nextFrame(): void {
    if (!this.frame) this.frame = requestAnimationFrame((now) => { this.frame = 0; this.keys.step(now); this.picture.draw(this.scene); this.showStatus(); });
  }

  private showStatus(): void {
    const s = this.scene, { state, done_bytes, bytes: all } = this.model.doc, indexing = state === "building" ? `indexing, ${bytes(done_bytes)} of ${bytes(all)}…` : "";
    byId("v-time").textContent = `${s.hover === null ? "" : `${span(s.hover)} · `}window ${span(s.t1 - s.t0)} · ${count(this.picture.onScreen)} drawn of ${count(this.model.events)} events`;
    byId("v-note").textContent = this.tiles.failure || this.noted || indexing || (this.tiles.waiting || this.picture.coarse ? "coarse, sharpening…" : `server ${this.tiles.serverMs.toFixed(1)} ms`);
  }

  move(t0: number, t1: number): void {
    const s = this.scene, whole = this.model.endPs - this.model.beginPs, size = Math.min(Math.max(t1 - t0, MIN_SPAN_PS), whole * 1.2);
    const low = this.model.beginPs - whole * 0.1, high = this.model.endPs + whole * 0.1, middle = (t0 + t1) / 2;
    s.t0 = Math.min(Math.max(middle - size / 2, low), Math.max(low, high - size));
    s.t1 = s.t0 + size;
    s.y = Math.max(0, Math.min(s.y, this.model.height - (s.height - TOP) / 2));
    this.redraw();
    this.flows.follow();
    clearTimeout(this.hashTimer);
    this.hashTimer = window.setTimeout(() => this.store(), 300);
  }

  zoom(factor: number, x = this.pointer.x): void {
    const s = this.scene, at = psOf(s, Math.max(s.gutter, Math.min(x, s.width)));
    this.move(at - (at - s.t0) * factor, at + (s.t1 - at) * factor);
  }

  scroll(by: number): void {
    this.scene.y += by;
    this.move(this.scene.t0, this.scene.t1);
  }

  frameOn(fromPs: number, toPs: number): void {
    const size = this.scene.t1 - this.scene.t0, margin = toPs - fromPs < MIN_SPAN_PS ? Math.min(size, AROUND_PS) / 2 : (toPs - fromPs) * 0.1;
    this.store(true);
    this.move(fromPs - margin, toPs + margin);
  }

  /* ---- the address ---- */

  /* Not over an address that someone has put there meanwhile: it is restored from in a moment. */
  store(push = false): void {
    if (location.hash !== this.stored) return;
    if (push) history.pushState(null, "", addressOf(this));
    else history.replaceState(null, "", addressOf(this));
    this.stored = location.hash;
  }

  restore(q: URLSearchParams): void {
    this.stored = location.hash;
    this.query = q;
    restore(this, q);
    this.scene.selected = [];
    this.selectAll(placesOf(q));
    this.showSelected();
  }

  private selectAll(places: Place[]): void {
    const mine = ++this.restored;
    places.reduce((before, at) => before.then(() => (this.restored === mine ? this.select(at, true) : undefined)), Promise.resolve());
  }

  setFilter(text: string): void {
    this.model.filter = byId<HTMLInputElement>("v-only").value = text;
    this.model.layOut();
  }

  get wanted(): string { return this.search.text; }
  searchFlags(): SearchFlags { return this.search.flags; }
  setSearchFlags(to: SearchFlags): void { this.search.flags = to; }

  setSearch(text: string): void {
    byId<HTMLInputElement>("v-find").value = text;
    this.search.find(text);
  }

  next(backward: boolean): Promise<void> { return this.search.next(backward); }

  /* ---- questions ---- */

  /* While the session is indexed, its build may be gone by now: the newer one comes with the next catalogue. An aggregator that has
     closed a session is asked to open it again. */
  private async send(what: string, query: Record<string, string>, signal: AbortSignal): Promise<Response> {
    for (const end = Date.now() + STALE_MS; ; await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))) {
      const { build, state } = this.model.doc, answer = await sendSignedIn(`${this.base}/${what}?${new URLSearchParams({ build, ...query })}`, { signal });
      if (answer.status !== 409) return answer;
      if (state === "ready" && this.model.doc.build === build) this.reload();
      if (Date.now() > end) return answer;
    }
  }

  async ask<T>(what: string, query: Record<string, string | number>): Promise<T | null> {
    const abort = new AbortController();
    this.asking.get(what)?.abort();
    this.asking.set(what, abort);
    this.asked++;
    try {
      return await bodyOf(await this.send(what, Object.fromEntries(Object.entries(query).map(([k, v]) => [k, String(v)])), abort.signal));
    } catch (e) {
      if (!abort.signal.aborted) this.note((e as Error).message);
      return null;
    } finally {
      if (this.asking.get(what) === abort) this.asking.delete(what);
      this.asked--;
    }
  }

  async select(at: Jump, more: boolean): Promise<void> {
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
    s.row = this.model.trackRow(e.file, e.track)?.key ?? s.row;
    if (s.selected.length > 1 || !this.doc) showSelected(this.model, s.selected, () => this.clear());
    else {
      s.flows = this.doc.flow.filter((f) => f.track !== e.track || f.file !== e.file || f.event !== e.event)
        .map((f) => ({ file: f.file, track: f.track, row: 0, startPs: Number(f.start_ps), direction: f.direction }));
      showEvent(this.model, e, this.doc, (to) => this.jump(to), () => this.showAll(e), () => this.clear());
      const at = this.model.find(e.file, e.track)!;
      this.say(`${e.name || "event without a name"}, ${span(e.durationPs)}, at ${span(e.startPs)}, track ${at.info.name} of ${at.host.host}`);
    }
    this.resize();
  }

  clear(): void {
    Object.assign(this.scene, { selected: [], flows: [] });
    this.doc = null;
    this.boxMark = null;
    this.closePanel();
  }

  /** Goes to an event, wherever it is. */
  async jump(to: Jump): Promise<void> {
    const s = this.scene;
    this.model.reveal(to.file, to.track);
    await this.select(to, false);
    const [e] = s.selected, row = this.model.trackRow(to.file, to.track), size = s.t1 - s.t0;
    if (!e || !row) return;
    this.bringIn(row.y + Math.min(e.row, row.shown) * LANE, LANE);
    if (e.startPs < s.t0 || e.startPs + e.durationPs > s.t1) {
      const wide = Math.max(size, e.durationPs * 1.5), middle = e.startPs + e.durationPs / 2;
      this.store(true);
      this.move(middle - wide / 2, middle + wide / 2);
    }
    this.redraw();
  }

  /* Scrolls until a stripe of the picture is on the screen. */
  private bringIn(y: number, height: number): void {
    const s = this.scene, room = s.height - TOP;
    if (y < s.y || y + height > s.y + room) s.y = Math.max(0, y - room / 2);
  }

  /** The tracks with events that are between two heights of the picture, as a question wants them. */
  tracksBetween(y0: number, y1: number): string {
        return this.model.rows.filter((r) => r.kind === "track" && !r.info!.counter && r.info!.events && yOf(this.scene, r) < y1 && yOf(this.scene, r) + r.height > Math.max(y0, TOP))
      .map((r) => [r.file!, r.track!]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, ASKED_TRACKS).map((t) => t.join(".")).join(",");
  }

  async selectBox(fromPs: number, toPs: number, y0: number, y1: number): Promise<void> {
    const tracks = this.tracksBetween(y0, y1), s = this.scene;
    if (!tracks) return this.say("no track with events is there");
    const doc = await this.ask<SelectionDoc>("selection", { from_ps: Math.round(fromPs), to_ps: Math.round(toPs), tracks });
    if (!doc) return;
    const now: Box = { doc, fromPs, toPs, tracks }, before = this.box;
    s.selected = [];
    this.boxMark = { fromPs, toPs };
    showSelection(doc, before && { doc: before.doc, page: this.compareAddress(before, now) }, {
      compare: () => { this.box = now; this.say("the next box is compared with this one"); this.closePanel(); }, flame: () => this.flame(), close: () => this.closePanel(),
    });
    this.box = null;
    this.say(`${plural(doc.count, "event")} in the box, ${span(Number(doc.total_ps))} in all`);
    this.resize();
  }

  /** All tracks that are on the screen, in the time that is. */
  sumScreen(): void { this.selectBox(this.scene.t0, this.scene.t1, 0, this.scene.height); }

  /* The page that compares two boxes, or the window with what is still to be chosen. */
  private compareAddress(before?: Box, now?: Box): string {
    const session = this.model.doc.session, time = (b: { fromPs: number; toPs: number }): string => `${Math.round(b.fromPs)}_${Math.round(b.toPs)}`;
    if (before && now) return `#/compare?${new URLSearchParams({ a: session, at: time(before), an: before.tracks, b: session, bt: time(now), bn: now.tracks })}`;
    const whole = this.scene.t0 <= this.model.beginPs && this.scene.t1 >= this.model.endPs;
    return `#/compare?${new URLSearchParams({ a: session, ...(whole ? {} : { at: time({ fromPs: this.scene.t0, toPs: this.scene.t1 }) }) })}`;
  }

  /** Of the box, else of the window. */
  async flame(): Promise<void> {
    const s = this.scene, of = this.boxMark ?? { fromPs: s.t0, toPs: s.t1 };
    const doc = await this.ask<FlameDoc>("flame", { from_ps: Math.round(of.fromPs), to_ps: Math.round(of.toPs), tracks: sampledTracks(this.model), group: "none" });
    if (!doc) return;
    showFlame(doc, of.fromPs, of.toPs, s.find, () => this.closePanel());
    this.say(`flame graph of ${span(of.toPs - of.fromPs)}, ${plural(doc.stacks, "stack")}`);
    this.resize();
  }

  async showAll(of: Jump): Promise<void> {
    const doc = await this.ask<DurationsDoc>("durations", { file: of.file, track: of.track, event: of.event, from_ps: -(2 ** 59), to_ps: 2 ** 59 });
    if (!doc) return;
    showDurations(this.model, doc, (to) => this.jump(to), () => this.closePanel());
    this.say(`${plural(doc.count, "event")} of this name on ${plural(doc.hosts.length, "host")}`);
    this.resize();
  }

  /** The selected event's name; else that of a collective, else of a step: what all hosts do together. */
  async late(): Promise<void> {
    if (this.scene.selected[0]) return this.showAll(this.scene.selected[0]);
    for (const text of [COLLECTIVE, STEP]) {
      const found = await this.ask<Jump & { found: boolean }>("next", { text, pattern: 1, case: 0, start_ps: Math.round(this.model.beginPs) - 1, file: 0, track: 0, event: 0, backward: 0 });
      if (found?.found) return this.showAll(found);
    }
    this.note("no event of this session is a collective's or a step's: select one, then press l");
    this.say("no event of this session is a collective's or a step's");
  }

  toggleFlows(): void { this.flows.toggle(); this.move(this.scene.t0, this.scene.t1); }

  /* ---- rows ---- */

  pin(): void {
    const [e] = this.scene.selected;
    if (!e) return this.say("select an event of the track first");
    this.say(this.model.pin(e.file, e.track) ? "pinned" : "put back");
    this.scene.y = 0;
    this.move(this.scene.t0, this.scene.t1);
  }

  /** The selected event's track changes places with the pinned one above it. */
  raise(): void {
    const [e] = this.scene.selected;
    if (e && this.model.raise(e.file, e.track)) this.say("moved up");
    this.move(this.scene.t0, this.scene.t1);
  }

  walkRows(by: number): void {
    const rows = this.model.rows, s = this.scene, now = rows.findIndex((r) => r.key === s.row);
    const row = rows[now < 0 ? this.model.rowAt(s.y) : Math.max(0, Math.min(now + by, rows.length - 1))];
    if (!row) return;
    s.row = row.key;
    this.bringIn(row.y, row.height);
    this.say(this.rowText(row));
    this.move(s.t0, s.t1);
  }

  private rowText(row: Row): string {
    const open = this.model.isOpen(row.key) ? "open" : "closed", bound = row.host.clock_bound_ns;
    if (row.kind === "host") return `host ${row.label}, ${row.host.state}${row.host.reason ? `, ${row.host.reason}` : ""}, clock ${bound === null ? "not calibrated" : `within ${span(bound * 1000)}`}${row.losses.length ? ", records are missing" : ""}, ${open}`;
    if (row.kind === "plane") return `${row.label} of ${row.host.host}, ${plural(row.plane!.tracks.length, "track")}, ${open}`;
    return `track ${row.label} of ${row.host.host}, ${plural(row.info!.events, row.info!.counter ? "sample" : "event")}${row.info!.counter ? `, ${row.info!.min} to ${row.info!.max}` : ""}`;
  }

  toggleRow(): void {
    const row = this.model.row(this.scene.row);
    if (!row) return;
    this.model.toggle(row.key);
    this.say(this.rowText(row));
    this.move(this.scene.t0, this.scene.t1);
  }

  /* ---- from event to event ---- */

  /** The event before or after on the track; on a row that has none selected, the first one on the screen. */
  walk(by: number): void {
    const s = this.scene, [e] = s.selected, row = this.model.row(s.row);
    if (e && (!row || (row.file === e.file && row.track === e.track))) {
      const to = e.event + by;
      if (to >= 0 && to < this.model.find(e.file, e.track)!.info.events) this.jump({ file: e.file, track: e.track, event: to });
      return;
    }
    const isOfEvents = (r: Row): boolean => r.kind === "track" && !r.info!.counter && r.info!.events > 0;
    const on = row && isOfEvents(row) ? row : this.model.rows.slice(row ? this.model.rows.indexOf(row) : this.model.rowAt(s.y)).find(isOfEvents);
    if (on) this.jump({ file: on.file!, track: on.track!, event: this.picture.firstOnScreen(s, on) ?? 0 });
  }

  goOut(): void {
    const [e] = this.scene.selected, parent = this.doc?.parents.at(-1);
    if (e && parent) this.jump({ ...e, event: parent.event });
  }

  goIn(): void {
    const s = this.scene, [e] = s.selected;
    if (!e) return this.walk(1);
    const inside = this.picture.firstInside(s, e);
    if (inside !== null) this.jump({ ...e, event: inside });
    else this.say("nothing inside is drawn as an event of its own: zoom in, or this is the innermost one");
  }

  /** The time that what is selected covers. */
  extent(): [number, number] | null {
    const list = this.scene.selected;
    if (!list.length) return this.boxMark && [this.boxMark.fromPs, this.boxMark.toPs];
    return [Math.min(...list.map((e) => e.startPs)), Math.max(...list.map((e) => e.startPs + e.durationPs))];
  }

  mark(fromPs: number, toPs: number): void {
    this.scene.marks.push({ fromPs, toPs });
    this.say(`marked ${span(toPs - fromPs)}`);
    this.move(this.scene.t0, this.scene.t1);
  }
}
