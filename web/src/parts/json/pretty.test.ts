import { describe, expect, it } from 'vitest';
import { prettyJson } from './pretty';

describe('prettyJson', () => {
  it('keeps short values on one line', () => {
    expect(prettyJson('{"data":[[1,2.50],[3,4]],"ok":true}')).toBe('{"data": [[1, 2.50], [3, 4]], "ok": true}');
    expect(prettyJson(' [ ] ')).toBe('[]');
    expect(prettyJson('"a\\nb"')).toBe('"a\\nb"');
  });

  it('keeps each digit of a number, and NaN', () => {
    expect(prettyJson('[12345678901234567890,0.10,NaN,1e400]')).toBe('[12345678901234567890, 0.10, NaN, 1e400]');
  });

  it('indents what is too long for a line', () => {
    const long = 'x'.repeat(60);
    expect(prettyJson(JSON.stringify({ one: long, two: [long, long], three: [] }))).toBe(
      `{\n  "one": "${long}",\n  "two": [\n    "${long}",\n    "${long}"\n  ],\n  "three": []\n}`,
    );
    expect(JSON.parse(prettyJson(JSON.stringify([[long], { [long]: { [long]: 1 } }]))!)).toEqual([
      [long],
      { [long]: { [long]: 1 } },
    ]);
  });

  it('says that other text is not JSON', () => {
    expect(prettyJson('<html>')).toBeNull();
    expect(prettyJson('')).toBeNull();
    expect(prettyJson('{"a": 1} more')).toBeNull();
  });

  it('is quick for a megabyte', () => {
    const text = JSON.stringify(Array.from({ length: 60_000 }, (_, at) => [at, at / 7]));
    expect(JSON.parse(prettyJson(text)!)).toEqual(JSON.parse(text));
  });
});
