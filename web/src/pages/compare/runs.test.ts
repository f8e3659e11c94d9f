import { expect, it } from 'vitest';
import type { Run } from '../../api/types';
import { fieldsOf, idsIn, namesOf } from './runs';

const run = (id: string, changes: object = {}): Run =>
  ({
    id,
    display_name: '',
    parameters: {},
    number: 1,
    status: 'Completed',
    experiment: 'e',
    submitted_by: '',
    spec: { target: 'local' },
    started_at: null,
    ended_at: null,
    ...changes,
  }) as unknown as Run;

it('names runs by what tells them apart', () => {
  const runs = [
    run('a', { display_name: 'best' }),
    run('b', { display_name: 'twin' }),
    run('c', { display_name: 'twin' }),
    run('d'),
  ];
  expect(namesOf(runs)).toEqual(['best', 'b', 'c', 'd']);
});

it('finds ids in what was pasted', () => {
  expect(idsIn(' exp_1, exp_2\nhttp://127.0.0.1:8787/runs/HD_1_0?tab=log exp_1 ../x <b>')).toEqual([
    'exp_1',
    'exp_2',
    'HD_1_0',
  ]);
});

it('plots by parameters, metrics and facts that differ', () => {
  const runs = [
    run('a', {
      parameters: { lr: '0.1', opt: 'adam' },
      started_at: '2026-01-01T00:00:00Z',
      ended_at: '2026-01-01T00:01:30.5Z',
    }),
    run('b', { parameters: { lr: '0.01' }, number: 2, status: 'Failed' }),
  ];
  const fields = fieldsOf(runs, {
    loss: { a: [0.5, 0.1, 1, 9], b: ['NaN', null, null, 1] },
    word: { a: ['x', null, null, 1] },
  });
  expect(Object.fromEntries(fields.map((field) => [field.id, field.values]))).toEqual({
    'params.lr': [0.1, 0.01],
    'params.opt': ['adam', null],
    'metrics.loss': [0.5, null],
    duration: [90.5, null],
    number: [1, 2],
    status: ['Completed', 'Failed'],
  });
});
