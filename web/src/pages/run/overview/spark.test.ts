import { expect, it } from 'vitest';
import { sparkPoints } from './spark';

it('spreads over the width, high values at the top, gaps left out', () => {
  expect(sparkPoints([0, 10])).toBe('1.0,20.0 119.0,2.0');
  expect(sparkPoints([0, NaN, 10])).toBe('1.0,20.0 119.0,2.0');
  expect(sparkPoints([5, 5])).toBe('1.0,20.0 119.0,20.0');
  expect([sparkPoints([1]), sparkPoints([NaN, Infinity, 1])]).toEqual(['', '']);
});
