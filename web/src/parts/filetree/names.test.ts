import { expect, it } from 'vitest';
import { isReachable, shownName } from './names';

it('writes out what would mislead', () => {
  expect(shownName('a\u202egnp.exe')).toBe('a\\u202egnp.exe');
  expect(shownName('line\nbreak\u0000\ud800')).toBe('line\\u000abreak\\u0000\\ud800');
  expect(shownName('größe ☃ 😀 <b>')).toBe('größe ☃ 😀 <b>');
});

it('knows names that no address can hold', () => {
  expect(['a b;c%2f', '\udcff', 'a\\b', 'a\nb'].map(isReachable)).toEqual([true, false, false, false]);
});
