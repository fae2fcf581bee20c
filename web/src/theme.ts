// SPDX-License-Identifier: Apache-2.0
// Light or dark: as the system says, unless the reader chose.
import { el } from "./dom";

type Theme = "system" | "light" | "dark";
const order: Theme[] = ["system", "light", "dark"], system = matchMedia("(prefers-color-scheme: dark)"), forced = matchMedia("(forced-colors: active)");
const names: Record<Theme, string> = { system: "Auto", light: "Light", dark: "Dark" };
const listeners = new Set<() => void>();
let chosen: Theme = "system";

export const isDark = (): boolean => (chosen === "system" ? system.matches : chosen === "dark");

/** Calls fn after each change, until `signal` is aborted. */
export function onTheme(fn: () => void, signal?: AbortSignal): void {
  listeners.add(fn);
  signal?.addEventListener("abort", () => listeners.delete(fn));
}

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const b of document.querySelectorAll(".theme")) b.textContent = names[chosen];
  listeners.forEach((fn) => fn());
}

/** Storage may be forbidden: then the choice lasts as long as the page. */
function stored(value?: Theme): string | null {
  try {
    if (value) localStorage.setItem("theme", value);
    return localStorage.getItem("theme");
  } catch { return null; }
}

export function themeButton(): HTMLButtonElement {
  return el("button", { className: "tool theme", textContent: names[chosen], title: "Light or dark, or as the system says", onclick: () => {
    chosen = order[(order.indexOf(chosen) + 1) % order.length];
    stored(chosen);
    apply();
  } });
}

export function startTheme(): void {
  chosen = order.find((t) => t === stored()) ?? "system";
  for (const m of [system, forced]) m.addEventListener("change", apply);
  apply();
}
