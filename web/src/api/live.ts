// Changes of runs as they happen: one stream of server-sent events for the whole page.
//
// An event says which part of a run changed, never the new value: the listener reads it again. When a stream begins, at
// first or after a lost connection, a sleep or a change of what is watched, every listener is called once, so that nothing is missing.
//
// The stream is open only while the tab is visible: a browser keeps six connections to a server, and ten tabs in the
// background would take them all.
import { signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { FetchedSource, type Source } from './event-source';
import { address, API } from './http';

export type Change = 'status' | 'metrics' | 'log' | 'files' | 'tags';
export type Changes = ReadonlySet<Change>;
type Listener = (what: Changes) => void;

const ALL: Changes = new Set<Change>(['status', 'metrics', 'log', 'files', 'tags']);
const MOST_RUNS = 60;
const HIDDEN_MS = 5_000;

export interface Hello {
  server: string;
  version: string;
  started_at: string;
}

/** 'on': events arrive. 'off': the server does not answer; we retry. 'idle': there is no listener, or the tab is hidden. */
export const connection = signal<'on' | 'off' | 'idle'>('idle');
/** The version of the server, when it differs from the version that sent this page; else null. */
export const newVersion = signal<string | null>(null);

/** Call `listener` with a run's changes, with all kinds after a gap, until the returned function is called. */
export const watch = (runId: string, listener: Listener): (() => void) => stream.add(`run:${runId}`, listener);

/** Call `listener` when a run of the workspace is new, changed or deleted; at most once a second. */
export const watchWorkspace = (workspace: string, listener: () => void): (() => void) =>
  stream.add(`ws:${workspace}`, listener);

/** While mounted, call `act` when one of the runs has one of the changes `wants`; at most every `everyMs`. */
export function useWatch(runIds: readonly string[], wants: readonly Change[], act: () => void, everyMs = 0): void {
  const throttled = useThrottle(act, everyMs);
  useLayoutEffect(() => {
    const stops = runIds.map((id) => watch(id, (what) => wants.some((one) => what.has(one)) && throttled.call()));
    return () => {
      for (const stop of stops) stop();
    };
  }, [runIds.join('\n'), wants.join(), throttled]);
}

/** The same for all runs of a workspace. */
export function useWorkspaceWatch(workspace: string, act: () => void, everyMs = 0): void {
  const throttled = useThrottle(act, everyMs);
  useLayoutEffect(() => watchWorkspace(workspace, throttled.call), [workspace, throttled]);
}

/** Have a resource read again when a run of the workspace changes, and every `everyMs` for changes that no run causes. */
export function useLive<R extends { again: () => void }>(workspace: string, resource: R, everyMs: number): R {
  useWorkspaceWatch(workspace, resource.again, 1_000);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && resource.again(), everyMs);
    return () => clearInterval(timer);
  }, [resource.again, everyMs]);
  return resource;
}

/** `throttle` for a component's newest `act`: a call that is due is still made after the list of runs has changed. */
function useThrottle(act: () => void, everyMs: number): ReturnType<typeof throttle> {
  const latest = useRef(act);
  latest.current = act;
  const throttled = useMemo(() => throttle(() => latest.current(), everyMs), [everyMs]);
  useLayoutEffect(() => () => throttled.stop(), [throttled]);
  return throttled;
}

/** Call at once, then at most every `everyMs`; the last call is never lost. */
export function throttle(act: () => void, everyMs: number): { call: () => void; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isDue = false;
  const call = (): void => {
    if (timer !== undefined) {
      isDue = true;
      return;
    }
    act();
    if (everyMs <= 0) return;
    timer = setTimeout(() => {
      timer = undefined;
      if (isDue) {
        isDue = false;
        call();
      }
    }, everyMs);
  };
  return { call, stop: () => clearTimeout(timer) };
}

interface Open {
  source: Source;
  keys: ReadonlySet<string>;
}

/** The stream itself; the page has one. `makeSource` and `page` are for tests. */
export class LiveStream {
  private listeners = new Map<string, Set<Listener>>();
  private current: Open | undefined; // it has sent its first event
  private coming: Open | undefined; // requested, not open yet
  private version: string | undefined;
  private faults = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private change: ReturnType<typeof setTimeout> | undefined;
  private hide: ReturnType<typeof setTimeout> | undefined;
  private isAsleep: boolean;

  constructor(
    private readonly makeSource: (url: string) => Source = (url) => new FetchedSource(url),
    private readonly page: Pick<Document, 'hidden' | 'addEventListener'> = document,
  ) {
    this.isAsleep = page.hidden;
    page.addEventListener('visibilitychange', () => this.look());
  }

  add(key: string, listener: Listener): () => void {
    const found = this.listeners.get(key) ?? new Set();
    this.listeners.set(key, found.add(listener));
    this.plan();
    return () => {
      found.delete(listener);
      if (!found.size && this.listeners.get(key) === found) this.listeners.delete(key);
      this.plan();
    };
  }

  /** Open a stream for the present listeners, after a moment: the parts of a page add theirs one after the other. */
  private plan(): void {
    this.change ??= setTimeout(() => {
      this.change = undefined;
      this.open();
    }, 30);
  }

  private look(): void {
    clearTimeout(this.hide);
    if (this.page.hidden) {
      this.hide = setTimeout(() => {
        this.isAsleep = true;
        this.close();
      }, HIDDEN_MS);
    } else if (this.isAsleep) {
      this.isAsleep = false;
      this.open();
    }
  }

  private open(): void {
    clearTimeout(this.retry);
    const keys = new Set([...this.listeners.keys()].slice(-MOST_RUNS));
    if (!keys.size || this.isAsleep) {
      this.close();
      return;
    }
    const known = this.coming ?? this.current;
    if (known && sameKeys(known.keys, keys)) return;
    this.coming?.source.close();
    const runs = [...keys].filter((key) => key.startsWith('run:')).map((key) => key.slice(4));
    const workspace = [...keys]
      .filter((key) => key.startsWith('ws:'))
      .pop()
      ?.slice(3);
    const opened: Open = { source: this.makeSource(address(`${API}/events`, { run: runs, workspace })), keys };
    this.coming = opened;
    opened.source.addEventListener('hello', (event) =>
      this.hello(opened, JSON.parse((event as MessageEvent<string>).data) as Hello),
    );
    opened.source.addEventListener('run', (event) => {
      const { run, what } = JSON.parse((event as MessageEvent<string>).data) as { run: string; what: Change[] };
      if (opened === this.current) this.tell(`run:${run}`, new Set(what));
    });
    opened.source.addEventListener('runs', (event) => {
      if (opened === this.current)
        this.tell(`ws:${(JSON.parse((event as MessageEvent<string>).data) as { workspace: string }).workspace}`, ALL);
    });
    opened.source.onerror = () => this.fail(opened);
  }

  private hello(opened: Open, said: Hello): void {
    const before = this.current;
    this.faults = 0;
    this.coming = undefined;
    this.current = opened;
    if (before && before !== opened) before.source.close();
    connection.value = 'on';
    if (this.version !== undefined && said.version !== this.version) newVersion.value = said.version;
    this.version ??= said.version;
    // The server gathers changes for a moment before it sends them: what the old stream still held is lost with it.
    for (const key of opened.keys) this.tell(key, ALL);
  }

  private fail(opened: Open): void {
    if (opened !== this.current && opened !== this.coming) {
      opened.source.close();
      return;
    }
    connection.value = 'off';
    if (opened.source.readyState !== 2) return; // it asks again by itself
    // The connection was lost, or the answer was an error: too many streams, signed out, a server that stops.
    opened.source.close();
    if (opened === this.current) this.current = undefined;
    if (opened === this.coming) this.coming = undefined;
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.open(), Math.min(30_000, 1_000 * 2 ** this.faults++));
  }

  private tell(key: string, what: Changes): void {
    for (const listener of [...(this.listeners.get(key) ?? [])]) listener(what);
  }

  private close(): void {
    clearTimeout(this.retry);
    this.current?.source.close();
    this.coming?.source.close();
    this.current = this.coming = undefined;
    connection.value = 'idle';
  }
}

const sameKeys = (one: ReadonlySet<string>, other: ReadonlySet<string>): boolean =>
  one.size === other.size && [...one].every((key) => other.has(key));

const stream: Pick<LiveStream, 'add'> = typeof document === 'undefined' ? { add: () => () => {} } : new LiveStream();
