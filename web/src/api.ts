// SPDX-License-Identifier: Apache-2.0

/* Behind a proxy the page may have a path of its own. */
const root = new URL("api/v1/", document.baseURI.replace(/[?#].*/, "")).href;

/** What changes send beside the cookie of a browser that has signed in; "" = it has not. */
let csrf = "";
let asked: Promise<boolean> | null = null;

/** Asks for a token and signs in with it. Several calls that need it ask once. */
function signIn(): Promise<boolean> {
  asked ??= (async () => {
    const token = prompt("Token of this aggregator:");
    if (!token) return false;
    const answer = await fetch(`${root}login`, { method: "POST", body: JSON.stringify({ token: token.trim() }) });
    if (answer.ok) csrf = (await answer.json()).csrf;
    return answer.ok;
  })().finally(() => { asked = null; });
  return asked;
}

/** Of an aggregator that stands by (docs/replicas.md): where the one that leads is, "" = not known now; null: this one leads. */
export let leader: string | null = null;

function takeLeader(url: unknown): void {
  leader = typeof url !== "string" ? null : /^https?:\/\//.test(url) ? url : "";
}

/** Asks again who leads. */
export async function askLeader(): Promise<void> {
  const answer = await fetch(`${root}whoami`);
  if (answer.ok) takeLeader((await answer.json()).leader);
}

/** When it is known who asks: event streams and links send the cookie alone. */
export const ready: Promise<void> = (async () => {
  const answer = await fetch(`${root}whoami`);
  if (answer.ok) {
    const who = await answer.json();
    csrf = who.csrf || "";
    takeLeader(who.leader);
  } else if (answer.status === 401) await signIn();
})().catch(() => undefined);

export const isSignedIn = (): boolean => csrf !== "";

export async function signOut(): Promise<void> {
  await fetch(`${root}login`, { method: "DELETE" });
  location.reload();
}

/** What a request is made of, for who sends it himself. */
export async function requestTo(path: string): Promise<{ url: string; headers: Record<string, string> }> {
  await ready;
  return { url: root + path, headers: csrf ? { "X-Tutti-CSRF": csrf } : {} };
}

export async function send(path: string, options: RequestInit = {}): Promise<Response> {
  const { url, headers } = await requestTo(path);
  return fetch(url, { ...options, headers: { ...options.headers, ...headers } });
}

export const fileUrl = (session: string, file: string): string => `${root}sessions/${session}/files/${encodeURIComponent(file)}`;

export const eventsUrl = `${root}events`;

/** As send(); who has not signed in is asked to. */
export async function sendSignedIn(path: string, options?: RequestInit): Promise<Response> {
  const answer = await send(path, options);
  return answer.status === 401 && await signIn() ? send(path, options) : answer;
}

/** Of what stands in front of the aggregator, too: the same request may be answered later. */
export const isPassing = (status: number): boolean => status === 429 || (status >= 502 && status <= 504);

/** The answer is an error. */
export class Refusal extends Error {
  constructor(readonly status: number, message: string) { super(message); }
}

export async function bodyOf(answer: Response): Promise<any> {
  const body = await answer.json();
  if (answer.ok) return body;
  const why: string = body.error || answer.statusText;
  throw new Refusal(answer.status, body.reason === "store" && !why.includes("the store") ? `the store: ${why}` : why);
}

export const api = async (path: string, options?: RequestInit): Promise<any> => bodyOf(await sendSignedIn(path, options));
