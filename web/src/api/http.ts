// Calls of the HTTP API: JSON and frames in and out, errors as the server words them.
import { signal } from '@preact/signals';
import { iterFrames, type Frame } from './frames';
import { withSession } from './session';

export const API = '/api/v1';

/** What the server wants people to know, of its last answer: its disk is full, or soon will be. '' is nothing. */
export const serverNotice = signal('');

/** An error answer in the server's words: what happened, why, and what to type next. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly what: string,
    readonly why = '',
    readonly hint = '',
  ) {
    super(what);
  }
}

export type QueryValue = string | number | boolean | null | undefined | readonly string[];
export type Query = Record<string, QueryValue>;

/** Return `path?query`; empty values are left out, lists repeat their key. */
export function address(path: string, query: Query = {}): string {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '') continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) found.append(key, one);
  }
  const text = found.toString();
  return text ? `${path}?${text}` : path;
}

/** A part of a path: everything is encoded but `/` in `path()`. */
export const part = encodeURIComponent;
/** The name of an asset or an experiment as a part of a path, of the API or a page: encoded twice, so that a `/` stays. */
export const namePart = (name: string): string => part(part(name));
export const pathOf = (name: string): string => name.split('/').map(encodeURIComponent).join('/');

export async function getJson<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await answer(address(API + path, query), { signal })).json() as Promise<T>;
}

export async function sendJson<T>(
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const init: Parameters<typeof answer>[1] = { method, signal: signal ?? null };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { 'Content-Type': 'application/json' };
  }
  return (await answer(API + path, init)).json() as Promise<T>;
}

/** Send a body as it is; the answer is JSON. */
export async function sendBody<T>(
  path: string,
  query: Query,
  body: BodyInit | null,
  headers: Record<string, string>,
  signal?: AbortSignal,
): Promise<T> {
  const init = { method: 'POST', body, headers, signal: signal ?? null };
  return (await answer(address(API + path, query), init)).json() as Promise<T>;
}

export async function getFrames(path: string, query: Query = {}, signal?: AbortSignal): Promise<Frame[]> {
  return [...iterFrames(await (await answer(address(API + path, query), { signal })).arrayBuffer())];
}

export async function sendFrames(path: string, body: unknown, signal?: AbortSignal): Promise<Frame[]> {
  const init = {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'Content-Type': 'application/json' },
    signal: signal ?? null,
  };
  return [...iterFrames(await (await answer(API + path, init)).arrayBuffer())];
}

/** Answer of a GET whose body the caller reads: bytes of a file. */
export function getBytes(
  path: string,
  query: Query = {},
  init: { signal?: AbortSignal; range?: [number, number] } = {},
): Promise<Response> {
  const headers: Record<string, string> = init.range ? { Range: `bytes=${init.range[0]}-${init.range[1]}` } : {};
  return answer(address(API + path, query), { headers, signal: init.signal });
}

async function answer(
  url: string,
  init: {
    method?: string;
    body?: BodyInit | null;
    headers?: Record<string, string>;
    signal?: AbortSignal | null | undefined;
  },
): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, {
      ...init,
      headers: withSession(init.headers),
      signal: init.signal ?? null,
      credentials: 'same-origin',
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(
      0,
      'ServerGone',
      'The server does not answer.',
      'It may have stopped, or the network is away.',
      'Any `runyard` command starts a private server again; then reload this page.',
    );
  }
  serverNotice.value = response.headers.get('x-runyard-notice')?.replace(/^\S+ /, '') ?? '';
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function errorOf(response: Response): Promise<ApiError> {
  try {
    const { error } = (await response.json()) as { error: { code: string; what: string; why?: string; hint?: string } };
    if (response.status === 401) {
      return new ApiError(
        401,
        error.code,
        'This browser is not signed in.',
        'Its session has ended, or the server has a new token.',
        'Type `runyard studio` and open the link that it prints.',
      );
    }
    return new ApiError(response.status, error.code, error.what, error.why, error.hint);
  } catch {
    return new ApiError(
      response.status,
      'Unreadable',
      `The server answered ${response.status}.`,
      '',
      'Reload the page; `runyard server status` says where its log is.',
    );
  }
}
