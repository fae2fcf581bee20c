// SPDX-License-Identifier: Apache-2.0
// Opens a session for questions: its indexes may have to be made first.
import { isPassing, send } from "./api";
import type { Catalogue } from "./timeline/model";

export interface Waiting { state: "waiting" | "building"; done_bytes: number; bytes: number }

/** What becomes of a session that is opened; each returns whether to go on. */
export interface Opening {
  wait: (w: Waiting) => boolean; // nothing new to be shown
  away: (why: string) => boolean; // the aggregator, or its store, does not answer now
  take: (doc: Catalogue) => boolean; // what is indexed so far, in the end all of it
}

const AGAIN_MS = 200, AWAY_MS = 2000, SLOW_MS = 3000;
const NO_ANSWER = "The aggregator does not answer";

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks until all of it is indexed. Throws what is wrong with the session. */
export async function openSession(session: string, on: Opening): Promise<void> {
  for (let build = ""; ;) {
    const slow = setTimeout(() => on.away(`${NO_ANSWER} yet`), SLOW_MS);
    const answer = await send(`sessions/${session}/view${build && `?build=${build}`}`).catch(() => null), doc = await answer?.json().catch(() => null);
    clearTimeout(slow);
    if (!answer || isPassing(answer.status)) {
      if (!on.away(doc?.error ?? (answer ? `${NO_ANSWER}: ${answer.status} ${answer.statusText}` : NO_ANSWER))) return;
      await pause(AWAY_MS);
      continue;
    }
    if (!answer.ok) throw new Error(doc?.error ?? answer.statusText);
    if (!(doc?.hosts ? on.take(doc) : !doc || on.wait(doc)) || doc?.state === "ready") return;
    build = doc?.build ?? build;
    await pause(AGAIN_MS);
  }
}
