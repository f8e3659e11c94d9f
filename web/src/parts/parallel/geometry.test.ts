import { expect, it } from 'vitest';
import { scaleOf } from '../fields/scale';
import type { Field } from '../fields/values';
import { axisX, curved, heights, nearest, reordered } from './geometry';

const frame = { width: 220, top: 0, bottom: 100, left: 10, right: 10 };
const field = (id: string, ...values: Field['values']): Field => ({ id, label: id, group: 'Metrics', values });
const fields = [field('a', 0, 10, null), field('b', 10, 0, 5), field('c', 0, 10, 10)];
const scales = new Map(fields.map((one) => [one.id, scaleOf(one.values)]));
const lines = heights(3, fields, scales, frame);

it('has axes at equal distances, a single one in the middle', () => {
  expect([0, 1, 2].map((index) => axisX(frame, index, 3))).toEqual([10, 110, 210]);
  expect(axisX(frame, 0, 1)).toBe(110);
});

it('has the greatest value on top and no value below the axis', () => {
  expect([...lines]).toEqual([100, 0, 100, 0, 100, 0, 116, 50, 0]);
});

it('finds the line nearest to the pointer', () => {
  expect(nearest(lines, 3, frame, 20, 88)).toBe(0);
  expect(nearest(lines, 3, frame, 20, 12)).toBe(1);
  expect(nearest(lines, 3, frame, 160, 26)).toBe(2);
  expect(nearest(lines, 3, frame, 20, 50)).toBeNull();
  expect(nearest(lines, 3, frame, 20, 50, { reach: 60, kept: [false, true, false] })).toBe(1);
  expect(nearest(lines, 3, frame, 400, 50, { reach: 100 })).toBeNull();
});

it('knows where a curve is', () => {
  expect([0, 0.5, 1].map((part) => Number(curved(part).toFixed(4)))).toEqual([0, 0.5, 1]);
  expect(curved(0.25)).toBeLessThan(0.25);
});

it('moves an axis to another place', () => {
  expect(reordered(['a', 'b', 'c'], 'a', 2)).toEqual(['b', 'c', 'a']);
  expect(reordered(['a', 'b', 'c'], 'c', 0)).toEqual(['c', 'a', 'b']);
});
