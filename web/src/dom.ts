// SPDX-License-Identifier: Apache-2.0

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

type Props = { [key: string]: unknown };

/** An element with text and children; text never becomes markup. */
export function el<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
}

export function fill(table: HTMLTableElement, rows: Node[], columns: number, empty: string): void {
  if (!rows.length) rows = [el("tr", {}, el("td", { colSpan: columns, className: "empty", textContent: empty }))];
  table.tBodies[0].replaceChildren(...rows);
}
