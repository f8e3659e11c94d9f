import { describe, expect, it } from 'vitest';
import { isShown, parsedLine, statusTone } from './accesslog';

const LINE = '2026-11-19T20:00:00Z POST /score?a=b c 502 12.345ms 17 3f-1';

describe('parsedLine', () => {
  it('has all parts, also of a target with spaces', () =>
    expect(parsedLine(LINE)).toEqual({
      time: '2026-11-19T20:00:00Z',
      method: 'POST',
      target: '/score?a=b c',
      status: 502,
      tookMs: 12.345,
      size: 17,
      id: '3f-1',
    }));

  it('has a line without a request id', () =>
    expect(parsedLine('2026-11-19T20:00:00Z GET / 431 0.100ms 9 ')).toMatchObject({ status: 431, id: '' }));

  it.each(['', '2026-11-19T20:00:00Z … 40 more requests in this second', '<b>half a li'])('leaves %j', (text) =>
    expect(parsedLine(text)).toBe(text),
  );
});

describe('isShown', () => {
  it('looks for all words, in any order and letter', () => {
    expect(isShown(LINE, 'SCORE 502', false)).toBe(true);
    expect(isShown(LINE, 'score 200', false)).toBe(false);
    expect(isShown(LINE, '', false)).toBe(true);
  });

  it('leaves only errors', () => {
    expect(isShown(LINE, '', true)).toBe(true);
    expect(isShown(LINE.replace('502', '200'), '', true)).toBe(false);
    expect(isShown('… more', '', true)).toBe(false);
  });
});

it.each([
  [200, 'good'],
  [301, 'idle'],
  [404, 'warn'],
  [503, 'bad'],
])('status %i is %s', (status, tone) => expect(statusTone(status)).toBe(tone));
