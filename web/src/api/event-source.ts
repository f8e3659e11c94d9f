// Server-sent events over fetch: the browser's own EventSource sends no headers, and so not our half of the session.
import { withSession } from './session';

type Handler = (event: MessageEvent<string>) => void;
export type Source = Pick<EventSource, 'readyState' | 'close'> & {
  onerror: (() => void) | null;
  addEventListener(name: string, handler: Handler): void;
};

/** One stream. It ends with `onerror` and `readyState` 2; the caller decides whether to open another one. */
export class FetchedSource implements Source {
  readyState: 0 | 1 | 2 = 0;
  onerror: (() => void) | null = null;
  private readonly handlers = new Map<string, Handler>();
  private readonly stop = new AbortController();

  constructor(url: string) {
    void this.run(url)
      .catch(() => {})
      .then(() => this.end());
  }

  addEventListener(name: string, handler: Handler): void {
    this.handlers.set(name, handler);
  }

  close(): void {
    this.readyState = 2;
    this.stop.abort();
  }

  private end(): void {
    if (this.readyState === 2) return;
    this.readyState = 2;
    this.onerror?.();
  }

  private async run(url: string): Promise<void> {
    const headers = withSession({ Accept: 'text/event-stream' });
    const response = await fetch(url, {
      headers,
      signal: this.stop.signal,
      credentials: 'same-origin',
      cache: 'no-store',
    });
    if (!response.ok || !response.body) return;
    this.readyState = 1;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new EventText();
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      for (const [name, data] of events.add(read.value)) {
        if (this.stop.signal.aborted) return;
        this.handlers.get(name)?.(new MessageEvent(name, { data }));
      }
    }
  }
}

/** Cuts a stream's text into its events: name and data. Comments only keep the connection open; they are dropped. */
export class EventText {
  private rest = '';

  add(text: string): [string, string][] {
    const blocks = (this.rest + text).replaceAll('\r\n', '\n').split('\n\n');
    this.rest = blocks.pop() ?? '';
    return blocks.map(eventOf).filter(([, data]) => data !== '');
  }
}

function eventOf(block: string): [string, string] {
  let name = 'message';
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (field === 'event') name = value ?? '';
    if (field === 'data') data.push(value ?? '');
  }
  return [name, data.join('\n')];
}
