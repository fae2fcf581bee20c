// SPDX-License-Identifier: Apache-2.0
// The field of a selector: it completes hosts, labels and jobs, and says how many hosts it names.
import { api } from "../api";
import { el } from "../dom";
import { plural } from "../format";
import { hosts, onLive, type Host } from "../live";
import { current, selected } from "./selector";

const SHOWN = 8;

interface PodJob { job: string; namespace: string; pods: number; connected: number }

let jobs: PodJob[] = [];

/* What may stand at the cursor: a text, and what it stands for. */
function candidates(known: Host[]): [string, string][] {
  const labels = new Map<string, number>();
  for (const h of known) for (const [k, v] of Object.entries(h.labels ?? {})) labels.set(`${k}=${v}`, (labels.get(`${k}=${v}`) ?? 0) + 1);
  return [["all", plural(known.length, "host")], ...[...labels].map(([l, n]): [string, string] => [l, `label of ${plural(n, "host")}`]),
    ...jobs.map((j): [string, string] => [`job=${j.job}`, `job in ${j.namespace}, ${plural(j.pods, "pod")}, ${j.connected} on connected hosts`]),
    ...known.map((h): [string, string] => [h.host, h.state === "lost" ? "host, lost" : "host"])];
}

export interface HostsField { node: HTMLElement; input: HTMLInputElement; chosen: () => Host[] | null }

/** `changed` is called whenever other hosts are named. */
export function hostsField(changed: () => void): HostsField {
  const list = el("ul", { id: "k-list", role: "listbox", hidden: true }), said = el("span", { id: "k-match", className: "soft" });
  const input = el("input", { id: "k-hosts", name: "hosts", value: "all", required: true, autocomplete: "off", spellcheck: false });
  let shown: [string, string][] = [], at = -1;
  const chosen = (): Host[] | null => selected(input.value, hosts ?? []);

  const close = (): void => {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const take = (text: string): void => {
    const { from } = current(input.value, input.selectionStart ?? 0), rest = input.value.slice(input.selectionStart ?? 0).replace(/^[^,]*/, "");
    input.value = input.value.slice(0, from) + text + rest;
    input.setSelectionRange(from + text.length, from + text.length);
    close();
    update();
  };
  const mark = (): void => {
    [...list.children].forEach((o, i) => o.setAttribute("aria-selected", String(i === at)));
    if (at >= 0) input.setAttribute("aria-activedescendant", `k-option-${at}`);
  };
  const complete = (): void => {
    const { word } = current(input.value, input.selectionStart ?? 0), want = word.replace(/^!/, "").toLowerCase();
    shown = candidates(hosts ?? []).filter(([text]) => text.toLowerCase().includes(want) && text !== word)
      .sort(([a], [b]) => Number(b.toLowerCase().startsWith(want)) - Number(a.toLowerCase().startsWith(want))).slice(0, SHOWN)
      .map(([text, what]) => [word.startsWith("!") ? `!${text}` : text, what]);
    list.replaceChildren(...shown.map(([text, what], i) => el("li", { id: `k-option-${i}`, role: "option", ariaSelected: "false", onpointerdown: (ev: Event) => { ev.preventDefault(); take(text); } },
      el("b", { textContent: text }), el("span", { className: "soft", textContent: ` ${what}` }))));
    list.hidden = !shown.length;
    at = -1;
    input.setAttribute("aria-expanded", String(!list.hidden));
  };
  const update = (): void => {
    const match = chosen(), lost = match?.filter((h) => h.state === "lost").length ?? 0;
    said.className = match && !match.length ? "bad" : "soft";
    said.textContent = match ? `${match.length} of ${plural(hosts?.length ?? 0, "host")} match${lost ? `, ${lost} of them lost` : ""}` : "which hosts that are, the aggregator finds out";
    changed();
  };

  for (const [key, value] of [["role", "combobox"], ["aria-controls", "k-list"], ["aria-expanded", "false"], ["aria-autocomplete", "list"], ["aria-describedby", "k-match"]]) input.setAttribute(key, value);
  list.setAttribute("aria-label", "Hosts, labels and jobs");
  input.addEventListener("input", () => { complete(); update(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (ev) => {
    if (ev.key === "ArrowDown" && list.hidden) complete();
    else if ((ev.key === "ArrowDown" || ev.key === "ArrowUp") && shown.length) at = (at + (ev.key === "ArrowDown" ? 1 : -1) + shown.length) % shown.length;
    else if (ev.key === "Enter" && at >= 0) take(shown[at][0]);
    else if (ev.key === "Escape" && !list.hidden) close();
    else return;
    mark();
    ev.preventDefault();
  });
  onLive("hosts", update);
  api("jobs").then((doc: { jobs: PodJob[] }) => { jobs = doc.jobs; }, () => undefined);
  return { node: el("div", { className: "field" }, el("label", { htmlFor: "k-hosts", textContent: "Hosts" }), el("div", { className: "combo" }, input, list), said), input, chosen };
}
