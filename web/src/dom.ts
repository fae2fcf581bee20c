// SPDX-License-Identifier: Apache-2.0

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

type Props = { [key: string]: unknown };

/** An element with text and children; text never becomes markup. An empty text sets nothing, but a value. */
export function el<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) if (value !== "" || key === "value") Object.assign(node, { [key]: value });
  node.append(...children);
  return node;
}

/** Rows of a table, or one line that says why there are none. */
export function fill(table: HTMLTableElement, rows: Node[], empty: string | Node): void {
  if (!rows.length) rows = [el("tr", {}, el("td", { colSpan: table.tHead!.rows[0].cells.length, className: "empty" }, empty))];
  table.tBodies[0].replaceChildren(...rows);
}

/** navigator.clipboard is missing on plain http. */
export function copy(text: string): void {
  const area = el("textarea", { value: text, className: "unseen" }), before = document.activeElement as HTMLElement | null;
  (before?.closest("dialog") ?? document.body).append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  before?.focus();
}
