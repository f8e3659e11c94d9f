import { expect, it } from 'vitest';
import { scaleOf } from '../fields/scale';
import type { Field } from '../fields/values';
import { nearestPoint, pointsOf } from './geometry';

const area = { left: 40, right: 160, top: 0, bottom: 120 };
const field = (id: string, ...values: Field['values']): Field => ({ id, label: id, group: 'Metrics', values });
const x = field('x', 10, 0, 5, null);
const y = field('y', 'low', 'high', null, 'low');
const points = pointsOf(x, y, scaleOf(x.values), scaleOf(y.values), area);

it('has a point for each row with both values, from left to right', () => {
  expect(points).toEqual([
    { row: 1, x: 50, y: 85 },
    { row: 0, x: 150, y: 35 },
  ]);
});

it('finds the point next to the pointer', () => {
  expect(nearestPoint(points, 55, 80)).toBe(0);
  expect(nearestPoint(points, 148, 30)).toBe(1);
  expect(nearestPoint(points, 100, 60)).toBeNull();
});
