import { expect, test } from 'vitest';
import { pieces, plain } from './ansi';

const shown = (line: string) =>
  pieces(line).map(({ text, class: look, color, background }) =>
    [text, look, color, background].filter((one) => one !== undefined && one !== ''),
  );

test.each<[string, string, unknown[]]>([
  ['plain', 'a b\tc', [['a b\tc']]],
  ['nothing', '', []],
  [
    '16 colours',
    '\x1b[31mred\x1b[0m \x1b[92mgreen\x1b[39m x',
    [['red', 'log-f-1'], [' '], ['green', 'log-f-10'], [' x']],
  ],
  ['bold and underlined', '\x1b[1;4mx\x1b[22my\x1b[24mz', [['x', 'log-bold log-under'], ['y', 'log-under'], ['z']]],
  [
    '256 colours',
    '\x1b[38;5;208mo\x1b[48;5;244mg\x1b[38;5;9mr',
    [
      ['o', 'rgb(255 135 0)'],
      ['g', 'rgb(255 135 0)', 'rgb(128 128 128)'],
      ['r', 'log-f-9', 'rgb(128 128 128)'],
    ],
  ],
  [
    'true colours',
    '\x1b[38;2;1;2;3ma\x1b[48:2::9:8:7mb',
    [
      ['a', 'rgb(1 2 3)'],
      ['b', 'rgb(1 2 3)', 'rgb(9 8 7)'],
    ],
  ],
  [
    'inverse',
    '\x1b[7mx\x1b[31my\x1b[27mz',
    [
      ['x', 'log-f-back log-b-fore'],
      ['y', 'log-f-back log-b-1'],
      ['z', 'log-f-1'],
    ],
  ],
  ['empty reset', '\x1b[1mx\x1b[my', [['x', 'log-bold'], ['y']]],
  ['an unfinished colour', 'a\x1b[38;5mb\x1b[38mc\x1b[', [['a'], ['b', 'log-f-0'], ['c', 'log-f-0']]],
  ['cursor moves', 'a\x1b[2K\x1b[1A\x1b[?25lb', [['a'], ['b']]],
  ['title and link', '\x1b]0;title\x07a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\', [['a'], ['link']]],
  [
    'control characters',
    'a\x00b\x07\x7fc\x9b31m',
    [
      ['a'],
      ['\u2400', 'log-control'],
      ['b'],
      ['\u2407', 'log-control'],
      ['\u2421', 'log-control'],
      ['c'],
      ['<U+009B>', 'log-control'],
      ['31m'],
    ],
  ],
  ['direction marks', 'a\u202eb\u2066', [['a'], ['<U+202E>', 'log-control'], ['b'], ['<U+2066>', 'log-control']]],
  ['backspaces', 'ab\b\bxy\b', [['x']]],
  ['markup', '<img src=x onerror=alert(1)>&amp;', [['<img src=x onerror=alert(1)>&amp;']]],
])('%s', (_, line, expected) => {
  expect(shown(line)).toEqual(expected);
});

test('the plain text is what is shown', () => {
  expect(plain('\x1b[1mbold\x1b[0m \u20ac\x00')).toBe('bold \u20ac\u2400');
  expect(plain('just text')).toBe('just text');
});

test('a line of escapes alone is dealt with at once', () => {
  expect(pieces('\x1b[31mx'.repeat(100_000)).length).toBeLessThanOrEqual(2001);
  expect(pieces(`\x1b[${'0'.repeat(500_000)}`)).toEqual([]);
});
