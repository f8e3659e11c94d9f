// The page's half of the session. The cookie goes to every port of this host; what is kept here belongs to this port.
import { forget, recall } from '../lib/browser';

const KEY = 'runyard-session'; // put here by the page that ends a sign-in: server/access/signin.py

/** Return `headers` with the proof that this page is asking, not another page that the browser sent its cookie for. */
export function withSession(headers: Record<string, string> = {}): Record<string, string> {
  const key = recall(KEY);
  return key ? { ...headers, 'Runyard-Session': key } : headers;
}

export const forgetSession = (): void => forget(KEY);
