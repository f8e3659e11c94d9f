import { expect, it } from 'vitest';
import { firstAxes, firstPair } from './defaults';
import type { Field } from './values';

const field = (id: string, group: Field['group'], ...values: Field['values']): Field => ({
  id,
  label: id,
  group,
  values,
});
const fields = [
  field('same', 'Parameters', 1, 1),
  field('opt', 'Parameters', 'a', 'b'),
  field('lr', 'Parameters', 1, 2),
  field('acc', 'Metrics', 1, 2),
  field('loss', 'Metrics', 1, 2),
];

it('begins with the axes that differ', () => {
  expect(firstAxes(fields)).toEqual(['opt', 'lr', 'acc', 'loss']);
  expect(firstAxes(fields, 'acc')).toEqual(['opt', 'lr', 'acc']);
  expect(firstAxes([fields[0]!, field('acc', 'Metrics', 1, 1)])).toEqual(['acc', 'same']);
});

it('begins with a number against a metric', () => {
  expect(firstPair(fields)).toEqual({ x: 'lr', y: 'acc' });
  expect(firstPair(fields.slice(3))).toEqual({ x: 'loss', y: 'acc' });
  expect(firstPair([])).toEqual({ x: '', y: '' });
});
