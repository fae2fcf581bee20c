// SPDX-License-Identifier: Apache-2.0
import "./style.css";
import { send } from "./api";
import { byId, el } from "./dom";
import { bytes } from "./format";
import { startHome } from "./home";
import { startTheme, themeButton } from "./theme";
import type { Catalogue } from "./timeline/model";
import { View } from "./timeline/view";

let view: View | null = null;
let shown = ""; // the session on the screen
let turn = 0; // a new address ends what an older one still waits for

function notice(...children: (Node | string)[]): void { byId("v-notices").replaceChildren(el("p", {}, ...children)); }

/* Asks until the session is indexed whole, and shows what is there on the way. Ends when it cannot be shown, or when the reader has gone
   elsewhere. */
async function follow(session: string, mine: number, show: (doc: Catalogue) => void): Promise<void> {
  for (let build = ""; ; await new Promise((resolve) => setTimeout(resolve, 200))) {
    let doc;
    try {
      const answer = await send(`sessions/${session}/view${build && `?build=${build}`}`);
      doc = await answer.json();
      if (turn !== mine) return;
      if (!answer.ok) return notice(doc.error, " ", el("a", { href: "#/", textContent: "All sessions" }));
    } catch {
      if (turn !== mine) return;
      if (!view) notice("The aggregator does not answer; trying again.");
      continue;
    }
    if (doc.hosts) show(doc);
    else if (view) view.showProgress(doc.done_bytes, doc.bytes);
    else notice(doc.state === "waiting" ? "Another session is being prepared first." : `Preparing ${bytes(doc.done_bytes)} of ${bytes(doc.bytes)} `, el("progress", { max: doc.bytes || 1, value: doc.done_bytes }));
    if (doc.state === "ready") return;
    build = doc.build ?? build;
  }
}

async function showSession(session: string, query: URLSearchParams, again: boolean): Promise<void> {
  if (shown === session && view && !again) return view.restore(query);
  const mine = ++turn;
  view?.close();
  view = null;
  shown = session;
  byId("v-name").textContent = session;
  await follow(session, mine, (doc) => {
    if (view) view.refine(doc);
    else view = new View(doc, query, () => showSession(session, new URLSearchParams(location.hash.split("?")[1]), true));
  });
}

function route(): void {
  const [path, query] = location.hash.split("?"), session = /^#\/s\/(\w+)$/.exec(path)?.[1];
  byId("home").hidden = Boolean(session);
  byId("viewer").hidden = !session;
  document.title = session ? `${session} – Tutti` : "Tutti";
  if (session) return void showSession(session, new URLSearchParams(query), false);
  turn++;
  view?.close();
  view = null;
  shown = "";
}

/* Read-only, for tests. */
Object.defineProperty(window, "tutti", { value: { state: () => view?.state() ?? null, hitAt: (x: number, y: number) => view?.hitAt(x, y) ?? null } });

byId("home-theme").append(themeButton());
startTheme();
startHome();
window.addEventListener("popstate", route);
route();
