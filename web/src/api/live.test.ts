import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Source } from './event-source';
import { throttle, connection, LiveStream, newVersion, type Changes } from './live';

class FakeSource {
  readyState = 0;
  isClosed = false;
  onerror: (() => void) | undefined;
  private handlers = new Map<string, (event: { data: string }) => void>();
  constructor(readonly url: string) {}
  addEventListener(name: string, handler: (event: { data: string }) => void): void {
    this.handlers.set(name, handler);
  }
  close(): void {
    this.isClosed = true;
    this.readyState = 2;
  }
  say(name: string, data: object): void {
    if (!this.isClosed) this.handlers.get(name)?.({ data: JSON.stringify(data) });
  }
  hello(version = '1'): void {
    this.readyState = 1;
    this.say('hello', { server: 's', version, started_at: 't' });
  }
  cut(isFinal = false): void {
    this.readyState = isFinal ? 2 : 0;
    this.onerror?.();
  }
}

function setUp() {
  const sources: FakeSource[] = [];
  const page = {
    hidden: false,
    handler: () => {},
    addEventListener: (_: string, handler: () => void) => {
      page.handler = handler;
    },
  };
  const stream = new LiveStream(
    (url) => {
      const made = new FakeSource(url);
      sources.push(made);
      return made as unknown as Source;
    },
    page as unknown as Document,
  );
  const show = (isSeen: boolean): void => {
    page.hidden = !isSeen;
    page.handler();
  };
  return { stream, sources, show, last: () => sources.at(-1)! };
}

beforeEach(() => {
  vi.useFakeTimers();
  connection.value = 'idle';
  newVersion.value = null;
});

describe('the live stream', () => {
  it('is one for all that is watched, and tells each its own', () => {
    const { stream, sources, last } = setUp();
    const heard: string[] = [];
    stream.add('run:a', (what) => heard.push(`a ${[...what].join()}`));
    stream.add('run:b', () => heard.push('b'));
    stream.add('ws:default', () => heard.push('list'));
    vi.advanceTimersByTime(50);
    expect(sources.map((one) => one.url)).toEqual(['/api/v1/events?run=a&run=b&workspace=default']);
    last().hello();
    heard.length = 0;
    last().say('run', { run: 'a', what: ['log'] });
    last().say('runs', { workspace: 'default' });
    expect(heard).toEqual(['a log', 'list']);
  });

  it('tells everybody once when it is there, and again after a cut', () => {
    const { stream, last } = setUp();
    const heard: Changes[] = [];
    stream.add('run:a', (what) => heard.push(what));
    vi.advanceTimersByTime(50);
    last().hello();
    expect(heard.length).toBe(1);
    last().cut();
    expect(connection.value).toBe('off');
    last().hello(); // the browser asked again by itself
    expect([heard.length, connection.value]).toEqual([2, 'on']);
    expect(heard[1]!.has('log')).toBe(true);
  });

  it('goes on while another run is added, and tells again what the old stream may have held back', () => {
    const { stream, sources, last } = setUp();
    const heard: string[] = [];
    stream.add('run:a', (what) => heard.push(`a ${what.size}`));
    vi.advanceTimersByTime(50);
    last().hello();
    stream.add('run:b', (what) => heard.push(`b ${what.size}`));
    vi.advanceTimersByTime(50);
    expect([sources.length, sources[0]!.isClosed]).toEqual([2, false]);
    sources[0]!.say('run', { run: 'a', what: ['log'] }); // the old one still tells
    sources[1]!.say('run', { run: 'a', what: ['log'] }); // the new one is not there yet
    sources[1]!.hello();
    expect([heard, sources[0]!.isClosed]).toEqual([['a 5', 'a 1', 'a 5', 'b 5'], true]);
    sources[0]!.say('run', { run: 'a', what: ['log'] });
    expect(heard.length).toBe(4);
  });

  it('tells all when a cut and a change of what is watched come together', () => {
    const { stream, sources, last } = setUp();
    const heard: string[] = [];
    stream.add('run:a', () => heard.push('a'));
    vi.advanceTimersByTime(50);
    last().hello();
    last().cut();
    stream.add('run:b', () => heard.push('b'));
    vi.advanceTimersByTime(50);
    sources[1]!.hello();
    expect(heard).toEqual(['a', 'a', 'b']);
  });

  it('asks again, ever more slowly, after an answer that was an error', () => {
    const { stream, sources, last } = setUp();
    stream.add('run:a', () => {});
    vi.advanceTimersByTime(50);
    last().cut(true);
    vi.advanceTimersByTime(1_000);
    expect(sources.length).toBe(2);
    last().cut(true);
    vi.advanceTimersByTime(1_500);
    expect(sources.length).toBe(2);
    vi.advanceTimersByTime(600);
    expect(sources.length).toBe(3);
  });

  it('sleeps with the tab, and tells everybody when it wakes', () => {
    const { stream, sources, show, last } = setUp();
    let heard = 0;
    stream.add('run:a', () => heard++);
    vi.advanceTimersByTime(50);
    last().hello();
    show(false);
    vi.advanceTimersByTime(4_000);
    expect(last().isClosed).toBe(false);
    vi.advanceTimersByTime(2_000);
    expect([last().isClosed, connection.value]).toEqual([true, 'idle']);
    show(true);
    last().hello();
    expect([sources.length, heard]).toEqual([2, 2]);
  });

  it('closes when nobody watches', () => {
    const { stream, last } = setUp();
    const stop = stream.add('run:a', () => {});
    vi.advanceTimersByTime(50);
    last().hello();
    stop();
    vi.advanceTimersByTime(50);
    expect(last().isClosed).toBe(true);
  });

  it('notices another version of the server', () => {
    const { stream, last } = setUp();
    stream.add('run:a', () => {});
    vi.advanceTimersByTime(50);
    last().hello('1');
    expect(newVersion.value).toBe(null);
    last().cut();
    last().hello('2');
    expect(newVersion.value).toBe('2');
  });
});

it('calms calls down without losing the last', () => {
  const times: number[] = [];
  let at = 0;
  const throttled = throttle(() => times.push(at), 100);
  for (at = 0; at < 250; at += 10) {
    throttled.call();
    vi.advanceTimersByTime(10);
  }
  vi.advanceTimersByTime(200);
  expect(times.length).toBe(4);
});
