// SPDX-License-Identifier: Apache-2.0
// Rows of settings: each a name from the aggregator's list, with its value and what it does.
import { api } from "../api";
import { el } from "../dom";

interface Setting { name: string; tracer: string; type: string; min?: number; max?: number; values?: string[]; default: unknown; help: string; hosts?: number }

const valueText = (v: unknown): string => (v === null || v === undefined ? "none" : String(v));

function valueField(s: Setting | undefined): HTMLInputElement | HTMLSelectElement {
  const choices = s?.type === "choice" ? s.values! : s?.type === "bool" ? ["true", "false"] : null;
  if (choices) return el("select", { ariaLabel: `Value of ${s!.name}`, value: "" }, ...choices.map((v) => el("option", { value: v, textContent: v, selected: v === String(s!.default) })));
  const input = el("input", { ariaLabel: `Value of ${s?.name ?? "this setting"}`, size: 14, value: s?.default === null || s?.default === undefined ? "" : String(s.default) });
  if (s?.type === "int") Object.assign(input, { type: "number", min: s.min ?? "", max: s.max ?? "", step: 1 });
  return input;
}

function helpOf(s: Setting | undefined): string {
  if (!s) return "an entry of advanced_configuration, as advanced.NAME";
  const range = s.type === "int" && s.max !== undefined ? ` ${s.min ?? 0} to ${s.max};` : "";
  return `${s.help};${range} ${valueText(s.default)} unless given`;
}

export interface SettingsField { node: HTMLElement; values: () => Record<string, string>; set: (values: Record<string, string>) => void }

/** `changed` is called whenever a setting is another one. */
export function settingsField(changed: () => void): SettingsField {
  const rows = el("div", { className: "settings" });
  let known: Setting[] = [];

  const add = (name = "", value?: string): void => {
    const names = el("input", { ariaLabel: "Setting", placeholder: "name", value: name, size: 26, autocomplete: "off", spellcheck: false }), help = el("p", { className: "soft" }), place = el("span", {});
    names.setAttribute("list", "k-settings");
    const show = (): void => {
      const s = known.find((k) => k.name === names.value), field = valueField(s);
      field.addEventListener("input", changed);
      place.replaceChildren(field);
      help.textContent = names.value ? helpOf(s) : "";
      changed();
    };
    names.addEventListener("input", show);
    const row = el("div", { className: "setting" }, names, place, el("button", { type: "button", className: "plain", textContent: "remove", onclick: () => { row.remove(); changed(); } }), help);
    rows.append(row);
    show();
    if (value !== undefined) (place.firstChild as HTMLInputElement).value = value;
    if (!name) names.focus();
  };

  api("settings").then((doc: { settings: Setting[] }) => {
    known = [...new Map(doc.settings.map((s) => [s.name, s])).values()];
    list.replaceChildren(...known.filter((s) => !s.name.includes("NAME")).map((s) => el("option", { value: s.name, textContent: s.help })));
  }, () => undefined);
  const list = el("datalist", { id: "k-settings" });
  return {
    node: el("div", { className: "field", role: "group", ariaLabel: "Settings" }, el("span", { className: "label", textContent: "Settings" }), list, rows, el("button", { type: "button", className: "tool", textContent: "Add a setting", onclick: () => add() })),
    values: () => Object.fromEntries([...rows.children].map((r) => [(r.children[0] as HTMLInputElement).value.trim(), (r.children[1].firstChild as HTMLInputElement).value.trim()]).filter(([name]) => name)),
    set: (values) => { rows.replaceChildren(); for (const [name, value] of Object.entries(values)) add(name, value); },
  };
}
