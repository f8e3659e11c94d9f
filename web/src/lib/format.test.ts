import { describe, expect, it } from 'vitest';
import { ago, bytes, duration, number, plural } from './format';

describe('numbers', () => {
  it.each([
    [0, '0'],
    [12, '12'],
    [1234567, '1\u202f234\u202f567'],
    [-3, '−3'],
    [0.1 + 0.2, '0.3'],
    [1.23456789, '1.23457'],
    [0.00001234, '1.234e−5'],
    [123456789.5, '1.2346e8'],
    [NaN, 'NaN'],
    [Infinity, '∞'],
    [null, ''],
    ['x', 'x'],
  ])('%s is %s', (value, text) => expect(number(value)).toBe(text));
});

describe('sizes and durations', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [123456, '123 kB'],
    [999_960_000, '1.0 GB'],
  ])('%s bytes', (value, text) => expect(bytes(value)).toBe(text));
  it.each([
    [-5, '0 ms'],
    [850, '850 ms'],
    [1234, '1.2 s'],
    [59_990, '1 min'],
    [245_000, '4 min 5 s'],
    [11_520_000, '3 h 12 min'],
    [446_400_000, '5 d 4 h'],
  ])('%s ms', (value, text) => expect(duration(value)).toBe(text));
});

it('says how long ago something was', () => {
  const now = Date.parse('2026-03-01T12:00:00Z');
  expect(ago('2026-03-01T11:59:58Z', now)).toBe('just now');
  expect(ago('2026-03-01T11:40:00Z', now)).toBe('20 min ago');
  expect(ago('2026-02-27T11:40:00Z', now)).toBe('2 d ago');
});

it('counts', () => {
  expect(plural(1, 'run')).toBe('1 run');
  expect(plural(2, 'run')).toBe('2 runs');
});
