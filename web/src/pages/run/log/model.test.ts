import { expect, test, vi } from 'vitest';
import { ApiError } from '../../../api/http';
import { LogModel, type LinesAnswer, type LinesQuery } from './model';
import { Search } from './search';

/** A log that grows, answered as the server does. */
class FakeLog {
  text = '';
  id = 'a';
  counted = true;
  isDown = false;
  asked: LinesQuery[] = [];

  ask = async (query: LinesQuery): Promise<LinesAnswer> => {
    this.asked.push(query);
    await Promise.resolve();
    if (this.isDown) throw new ApiError(0, 'ServerGone', 'The server does not answer.');
    const ended = this.text === '' || this.text.endsWith('\n');
    const lines = this.text.split('\n').slice(0, ended ? -1 : undefined);
    const first = query.first < 0 ? Math.max(1, lines.length + 1 + query.first) : query.first;
    const shown = lines.slice(first - 1, first - 1 + query.count);
    const about = { file: 'f', id: this.id, size: this.text.length, complete: false, ended, cut: [] };
    if (!this.counted) {
      if (query.count === 0) this.counted = true;
      return {
        ...about,
        first: query.first < 0 ? -shown.length : query.first,
        total: null,
        lines: query.first < 0 ? shown : [],
      };
    }
    return { ...about, first, total: lines.length, lines: shown };
  };
}

const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 60; turn++) await Promise.resolve();
};
const all = (model: LogModel): (string | undefined)[] =>
  Array.from({ length: model.total ?? 0 }, (_, index) => model.line(index + 1));

test('a log that grows in the middle of a line has no gap and nothing twice', async () => {
  const log = new FakeLog();
  const model = new LogModel(log.ask);
  const written = Array.from({ length: 700 }, (_, index) => `line ${index}`).join('\n');
  for (let at = 0; at < written.length; at += 37) {
    log.text = written.slice(0, at);
    model.refresh();
    if (at % 5 === 0) await settled();
  }
  log.text = `${written}\n`;
  model.refresh();
  await settled();
  model.want(1, model.total!);
  await settled();
  expect(all(model)).toEqual(written.split('\n'));
});

test('the end is shown while lines are counted, then by numbers', async () => {
  const log = new FakeLog();
  log.text = 'a\nb\nc\n';
  log.counted = false;
  const model = new LogModel(log.ask);
  model.refresh();
  await settled();
  expect(model.tail).toEqual(['a', 'b', 'c']);
  expect(model.total).toBe(3);
  model.want(1, 3);
  await settled();
  expect(all(model)).toEqual(['a', 'b', 'c']);
});

test('a new attempt takes the place of the old log', async () => {
  const log = new FakeLog();
  log.text = 'old 1\nold 2\n';
  const model = new LogModel(log.ask);
  model.refresh();
  await settled();
  log.text = 'new\n';
  log.id = 'b';
  model.refresh();
  await settled();
  expect(all(model)).toEqual(['new']);
});

test('a server that is away is asked again, and nothing is lost', async () => {
  vi.useFakeTimers();
  const log = new FakeLog();
  log.text = 'a\n';
  const model = new LogModel(log.ask);
  model.refresh();
  await settled();
  log.isDown = true;
  log.text = 'a\nb\n';
  model.refresh();
  await settled();
  expect(model.error?.code).toBe('ServerGone');
  log.isDown = false;
  await vi.advanceTimersByTimeAsync(500);
  await settled();
  expect(model.error).toBeUndefined();
  expect(all(model)).toEqual(['a', 'b']);
  vi.useRealTimers();
});

test('only what is wanted is read, and lines far away are let go', async () => {
  const log = new FakeLog();
  log.text = 'x\n'.repeat(100_000);
  const model = new LogModel(log.ask);
  model.refresh();
  await settled();
  log.asked.length = 0;
  for (let first = 1; first < 60_000; first += 500) {
    model.want(first, first + 50);
    await settled();
  }
  expect(log.asked.length).toBe(120);
  expect(model.line(1)).toBeUndefined();
  expect(model.line(59_501)).toBe('x');
});

test('a search goes on when the log grows, and finds each line once', async () => {
  const answers = [
    { size: 10, lines: [2, 3], searched_to: 3, offset: 5, done: false },
    { size: 10, lines: [3, 7], searched_to: 6, offset: 8, done: true },
    { size: 20, lines: [7, 9], searched_to: 9, offset: 20, done: true },
  ];
  const asked: number[] = [];
  const search = new Search({ text: 'x', case: false, word: false }, async (query) => {
    asked.push(query.after);
    return answers[asked.length - 1]!;
  });
  expect(await search.reach(4, 1)).toBe(7);
  expect(search.hits).toEqual([2, 3, 7]);
  expect(search.find(8, 1)).toBe(0); // round
  expect(search.find(1, -1)).toBe(2);
  expect(search.find(7, -1)).toBe(2);
  expect(search.find(6, -1)).toBe(1);
  search.refresh();
  await settled();
  expect(search.hits).toEqual([2, 3, 7, 9]);
  expect(asked).toEqual([0, 3, 6]);
});
