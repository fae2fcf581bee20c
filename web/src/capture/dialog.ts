// SPDX-License-Identifier: Apache-2.0
// The dialog that begins a capture or a snapshot, and then shows how far it is. Closing it changes nothing: what runs is in the bar.
import { api } from "../api";
import { byId, copy, el } from "../dom";
import { plural } from "../format";
import { type Capture, captures, hasEnded, hosts, onLive, takeCapture } from "../live";
import { hostsField } from "./hosts_field";
import { className, progressNode, progressText } from "./progress";
import { settingsField } from "./settings_field";

type When = "now" | "step" | "last";
const WHENS: [When, string][] = [["now", "Now"], ["step", "At a step"], ["last", "Last seconds"]];

const dialog = byId<HTMLDialogElement>("capture");
let shown = ""; // the session whose progress is shown; "" = the form
let fields: Fields | null = null;

class Fields {
  when: When = "now";
  readonly hosts = hostsField(() => this.update());
  readonly settings = settingsField(() => this.update());
  readonly run = el("input", { name: "run", size: 18, placeholder: "optional" });
  readonly duration = el("input", { name: "duration", type: "number", min: "0.001", max: "3600", step: "any", value: "2", required: true });
  readonly slide = el("input", { type: "range", min: "-1", max: "1.78", step: "0.01", value: "0.3", ariaLabel: "Length, from 0.1 to 60 s" });
  readonly last = el("input", { name: "last", type: "number", min: "0.001", max: "3600", step: "any", value: "30", required: true });
  readonly step = el("input", { name: "step", value: "next", pattern: "next|[0-9]{1,15}", size: 8, required: true, title: "next, or a step's number" });
  readonly steps = el("input", { name: "steps", type: "number", min: "1", max: "1000000", value: "5", required: true });
  readonly tracers = el("div", { className: "checks" });
  readonly command = el("code", { id: "k-command" });
  readonly error = el("p", { className: "bad", role: "alert" });
  private readonly off = new Set<string>(); // tracers that are not wanted
  private readonly whenLine = el("div", { className: "line" });

  node(): HTMLElement {
    const label = (text: string, input: HTMLElement): HTMLElement => el("label", {}, text, input);
    const form = el("form", { id: "k-form", onsubmit: (ev: Event) => { ev.preventDefault(); this.begin(); } },
      this.hosts.node,
      el("div", { className: "field" }, el("span", { className: "label", textContent: "When" }),
        el("div", { className: "segments", role: "radiogroup", ariaLabel: "When" }, ...WHENS.map(([when, text]) => el("label", {}, el("input", { type: "radio", name: "when", value: when, checked: when === this.when, onchange: () => { this.when = when; this.update(); } }), text))),
        this.whenLine),
      el("div", { className: "field" }, el("span", { className: "label", textContent: "What" }), this.tracers),
      this.settings.node,
      el("div", { className: "line" }, label("Run", this.run)),
      el("div", { className: "line" }, this.command, el("button", { type: "button", className: "tool", textContent: "Copy", title: "Copy the command", onclick: () => copy(this.command.textContent!) })),
      this.error,
      el("div", { className: "line end" }, el("button", { type: "button", className: "tool", textContent: "Close", onclick: () => dialog.close() }), el("button", { id: "k-begin" }, "Capture")));
    for (const input of [this.run, this.duration, this.last, this.step, this.steps]) input.addEventListener("input", () => this.update());
    this.slide.addEventListener("input", () => { this.duration.value = String(Number((10 ** Number(this.slide.value)).toPrecision(2))); this.update(); });
    this.duration.addEventListener("input", () => { this.slide.value = String(Math.log10(Number(this.duration.value) || 0.1)); });
    this.update();
    return form;
  }

  private static readonly seconds = (input: HTMLInputElement): number => Math.round(Number(input.value) * 1e9);

  private body(): { path: string; body: object } {
    const names = this.tracerNames(), settings = this.settings.values(), run = this.run.value.trim();
    const common = { hosts: this.hosts.input.value, settings, run, ...(this.off.size ? { tracers: names.filter((t) => !this.off.has(t)) } : {}) };
    if (this.when === "last") return { path: "snapshots", body: { ...common, last_ns: Fields.seconds(this.last) } };
    if (this.when === "now") return { path: "captures", body: { ...common, duration_ns: Fields.seconds(this.duration) } };
    return { path: "captures", body: { ...common, at_step: this.step.value === "next" ? "next" : Number(this.step.value), steps: Number(this.steps.value) } };
  }

  /* The same for a shell. */
  private line(): string {
    const quote = (text: string): string => (/^[\w.=,:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
    const when = this.when === "last" ? ["--last", `${this.last.value}s`] : this.when === "now" ? ["--duration", `${this.duration.value}s`] : ["--at-step", this.step.value, "--steps", this.steps.value];
    const words = ["tutti", this.when === "last" ? "snapshot" : "capture", "--hosts", this.hosts.input.value, ...when];
    if (this.off.size) for (const t of this.tracerNames()) if (!this.off.has(t)) words.push("--tracer", t);
    for (const [k, v] of Object.entries(this.settings.values())) words.push("--set", `${k}=${v}`);
    if (this.run.value.trim()) words.push("--run", this.run.value.trim());
    return words.map(quote).join(" ");
  }

  private tracerNames(): string[] { return [...new Set((hosts ?? []).flatMap((h) => (h.tracers ?? []).map((t) => t.name)))].sort(); }

  /* On how many of the chosen hosts a tracer records, and why not on the others. */
  private tracerBox(name: string): HTMLElement {
    const named = this.hosts.chosen(), chosen = named?.length ? named : hosts ?? [], states = chosen.map((h) => ({ host: h.host, t: h.tracers?.find((t) => t.name === name) }));
    const on = states.filter((s) => s.t && s.t.state !== "off"), less = states.filter((s) => s.t && s.t.state !== "ok" && s.t.reason);
    const reasons = [...new Set(less.map((s) => s.t!.reason!))];
    const box = el("input", { type: "checkbox", checked: !this.off.has(name), onchange: () => { if (box.checked) this.off.delete(name); else this.off.add(name); this.update(); } });
    return el("label", {}, box, el("span", {}, name, el("span", { className: on.length < chosen.length ? "warn" : "soft", textContent: ` on ${on.length} of ${plural(chosen.length, "host")}` }),
      ...reasons.slice(0, 2).map((text) => el("span", { className: "soft reason", textContent: text }))));
  }

  private showWhen(): void {
    const label = (text: string, input: HTMLElement): HTMLElement => el("label", {}, text, input);
    if (this.when === "now") this.whenLine.replaceChildren(label("Length (s)", this.duration), this.slide);
    else if (this.when === "last") this.whenLine.replaceChildren(label("The last (s)", this.last), el("span", { className: "soft", textContent: "from the rings of the hosts: stops nothing" }));
    else this.whenLine.replaceChildren(label("Step", this.step), label("Steps", this.steps));
  }

  private drawnFor = "";
  update(): void {
    const key = `${this.when} ${[...this.off]} ${this.hosts.chosen()?.map((h) => h.host)} ${JSON.stringify((hosts ?? []).map((h) => h.tracers?.map((t) => [t.name, t.state])))}`;
    this.command.textContent = this.line();
    if (key === this.drawnFor) return;
    const focused = document.activeElement as HTMLElement | null, at = [...this.tracers.querySelectorAll("input")].indexOf(focused as HTMLInputElement);
    this.drawnFor = key;
    this.showWhen();
    this.tracers.replaceChildren(...this.tracerNames().map((name) => this.tracerBox(name)));
    if (!this.tracers.firstChild) this.tracers.append(el("span", { className: "soft", textContent: "No host has told of its tracers yet." }));
    if (at >= 0) this.tracers.querySelectorAll("input")[at]?.focus();
    const button = document.getElementById("k-begin");
    if (button) button.textContent = this.when === "last" ? "Snapshot" : "Capture";
  }

  private async begin(): Promise<void> {
    const { path, body } = this.body();
    this.error.textContent = "";
    try {
      const c: Capture = await api(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      takeCapture(c);
      show(c.session);
    } catch (e) {
      this.error.textContent = (e as Error).message;
    }
  }
}

function head(title: string): HTMLElement {
  return el("div", { className: "head" }, el("h2", { id: "k-title", textContent: title }), el("button", { className: "plain", textContent: "close", title: "Esc", onclick: () => dialog.close() }));
}

function showForm(): void {
  shown = "";
  fields ??= new Fields();
  dialog.replaceChildren(head("Capture"), fields.node());
  if (!dialog.open) dialog.showModal();
  fields.hosts.input.focus();
  fields.hosts.input.select();
}

/** The progress of a capture. */
function show(session: string): void {
  shown = session;
  draw();
  if (!dialog.open) dialog.showModal();
}

function draw(): void {
  const c = captures.get(shown);
  if (!c) return;
  const button = dialog.contains(document.activeElement) && (document.activeElement as HTMLElement).textContent;
  dialog.replaceChildren(head(c.snapshot ? "Snapshot" : "Capture"), progressNode(c, () => dialog.close()));
  const open = dialog.querySelector<HTMLElement>("a.button"), same = [...dialog.querySelectorAll<HTMLElement>("button")].find((b) => b.textContent === button);
  (open ?? same ?? dialog.querySelector<HTMLElement>("button.tool"))?.focus();
}

/* What runs: a button each, which shows its progress. */
function showRunning(): void {
  const running = [...captures.values()].filter((c) => !hasEnded(c));
  byId("running").replaceChildren(...running.slice(-2).map((c) => el("button", { className: `tool ${className(c)}`, textContent: progressText(c), title: c.session, onclick: () => show(c.session) })));
}

export function openCapture(): void {
  if (!document.querySelector("dialog[open]")) showForm();
}

export function showProgress(session: string): void { show(session); }

export function startCapture(): void {
  byId("capture-open").addEventListener("click", openCapture);
  onLive("capture", (c: Capture) => { showRunning(); if (c.session === shown && dialog.open) draw(); });
}
