// SPDX-License-Identifier: Apache-2.0
// Opens a session for questions: its indexes may have to be made first.
import { send } from "./api";
import type { Catalogue } from "./timeline/model";

export interface Waiting { state: "waiting" | "building"; done_bytes: number; bytes: number }

/** What becomes of a session that is opened; each returns whether to go on. */
export interface Opening {
  wait: (w: Waiting | null) => boolean; // nothing new to be shown; null: the aggregator does not answer
  take: (doc: Catalogue) => boolean; // what is indexed so far, in the end all of it
}

const AGAIN_MS = 200;

/** Asks until all of it is indexed. Throws what is wrong with the session. */
export async function openSession(session: string, on: Opening): Promise<void> {
  for (let build = ""; ; await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))) {
    const answer = await send(`sessions/${session}/view${build && `?build=${build}`}`).catch(() => null), doc = await answer?.json().catch(() => null);
    if (answer && !answer.ok) throw new Error(doc?.error ?? answer.statusText);
    if (!(doc?.hosts ? on.take(doc) : on.wait(doc ?? null)) || doc?.state === "ready") return;
    build = doc?.build ?? build;
  }
}
