// SPDX-License-Identifier: Apache-2.0

/* Behind a proxy the page may have a path of its own. */
const root = new URL("api/v1/", document.baseURI.replace(/[?#].*/, "")).href;

/** If the aggregator has a token, changes need it. The page asks for it once and keeps it while the tab is open. */
export function send(path: string, options: RequestInit = {}): Promise<Response> {
  const token = sessionStorage.getItem("token");
  return fetch(root + path, token ? { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } } : options);
}

export const fileUrl = (session: string, file: string): string => `${root}sessions/${session}/files/${encodeURIComponent(file)}`;

export const eventsUrl = `${root}events`;

export async function api(path: string, options?: RequestInit): Promise<any> {
  let answer = await send(path, options);
  const token = answer.status === 401 ? prompt("Token of this aggregator:") : null;
  if (token) {
    sessionStorage.setItem("token", token.trim());
    answer = await send(path, options);
  }
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || answer.statusText);
  return body;
}
