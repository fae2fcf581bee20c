// SPDX-License-Identifier: Apache-2.0
// Which names a search finds, as far as the page can tell.

export interface Wanted { text: string; pattern: boolean; case: boolean }

const POSIX = /\[[:.=]/; // "[[:digit:]]" is something else here, and no error

/** What the picture pales is decided by this; the aggregator counts. A pattern that only it understands pales nothing. */
export function matcher(wanted: Wanted): (name: string) => boolean {
  const text = wanted.case ? wanted.text : wanted.text.toLowerCase();
  if (!wanted.pattern) return (name) => (wanted.case ? name : name.toLowerCase()).includes(text);
  if (POSIX.test(wanted.text)) return () => true;
  try {
    const re = new RegExp(wanted.text, wanted.case ? "" : "i");
    return (name) => re.test(name);
  } catch { return () => true; }
}
