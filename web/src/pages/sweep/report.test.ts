import { describe, expect, it } from 'vitest';
import {
  bestChild,
  bestOrder,
  budgetOf,
  countsOf,
  fieldsOf,
  orderedBy,
  policyText,
  progressOf,
  type Child,
  type Report,
} from './report';

const at = (second: number): string => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const ms = (second: number): number => Date.parse(at(second));

function child(index: number, changes: Partial<Child> = {}): Child {
  return {
    run_id: `HD_${index}`,
    index,
    parameters: { '--lr': 0.1 * (index + 1) },
    status: 'Completed',
    best: null,
    best_at: null,
    cut_short: null,
    started_at: at(index),
    ended_at: at(index + 5),
    ...changes,
  };
}

function report(children: Child[], changes: Partial<Report['spec']> = {}, bests: Report['bests'] = []): Report {
  const spec = {
    sampling: 'GRID',
    space: { '--lr': [] },
    primary_metric: 'acc',
    goal: 'MAXIMIZE' as const,
    max_total_runs: 8,
    max_concurrent_runs: 2,
    max_duration_s: 100,
    policy: 'Bandit',
    policy_properties: { slack_amount: 0.1, slack_factor: null, evaluation_interval: 1, delay_evaluation: 0 },
    resume_from: [],
    ...changes,
  };
  return { run_id: 'HD', spec, children, inherited: [], bests, closed: null, finished: null };
}

const four = [
  child(0, { best: 0.7 }),
  child(1, { best: 'NaN' }),
  child(2, { best: 0.9, parameters: { '--lr': 0.1, extra: 'x' } }),
  child(3, { best: 0.9, status: 'Canceled', cut_short: { kind: 'policy', reason: 'worse' } }),
];

describe('the best', () => {
  it('is the greatest or the least, the first of equals, and never NaN', () => {
    expect(bestChild(report(four))?.run_id).toBe('HD_2');
    expect(bestChild(report(four, { goal: 'MINIMIZE' }))?.run_id).toBe('HD_0');
    expect(bestChild(report([four[1]!]))).toBeNull();
  });

  it('comes first, those without a value last', () => {
    expect(orderedBy(report(four), bestOrder(report(four).spec))).toEqual([2, 3, 0, 1]);
    expect(orderedBy(report(four), { by: 'best', isDown: false })).toEqual([0, 2, 3, 1]);
  });
});

it('orders by anything', () => {
  expect(orderedBy(report(four), { by: 'index', isDown: true })).toEqual([3, 2, 1, 0]);
  expect(orderedBy(report(four), { by: 'params.extra', isDown: true })).toEqual([2, 0, 1, 3]);
  expect(orderedBy(report(four), { by: 'status', isDown: false })).toEqual([0, 1, 2, 3]);
});

describe('progress', () => {
  const bests = [
    { run_id: 'HD_0', value: 0.7, at: at(5) },
    { run_id: 'HD_2', value: 0.9, at: at(7) },
  ];

  it('has a dot per value and a step per improvement', () => {
    const found = progressOf(report(four, {}, bests), at(0), at(20), ms(50))!;
    expect(found.dots.map((dot) => [dot.child.index, dot.value, dot.at])).toEqual([
      [0, 0.7, ms(5)],
      [2, 0.9, ms(7)],
      [3, 0.9, ms(8)],
    ]);
    expect(found.steps).toEqual([
      { at: ms(5), value: 0.7 },
      { at: ms(7), value: 0.9 },
    ]);
    expect([found.start, found.end]).toEqual([ms(0), ms(20)]);
  });

  it('counts what a child that still runs has reached', () => {
    const live = child(4, { best: 0.95, status: 'Running', ended_at: null });
    const found = progressOf(report([...four, live], {}, bests), at(0), null, ms(50))!;
    expect(found.steps.at(-1)).toEqual({ at: ms(50), value: 0.95 });
    expect(found.end).toBe(ms(50));
  });

  it('is none before the first value', () => expect(progressOf(report([four[1]!]), at(0), null, ms(1))).toBeNull());
});

it('is plotted by parameters, results and facts', () => {
  const fields = fieldsOf(report(four), { acc: { HD_0: [0.1, 0.1, 0.1, 1] }, loss: { HD_0: [2, 2, 2, 1] } });
  expect(Object.fromEntries(fields.map((field) => [field.label, field.values]))).toMatchObject({
    lr: [0.1, 0.2, 0.1, 0.4],
    extra: [null, null, 'x', null],
    'best acc': [0.7, null, 0.9, 0.9],
    loss: [2, null, null, null],
    'Duration (s)': [5, 5, 5, 5],
    Status: ['Completed', 'Completed', 'Completed', 'Stopped early'],
  });
  expect(fields.map((field) => field.label)).not.toContain('acc');
});

it('says what the policy is and what was used', () => {
  expect(policyText(report([]).spec)).toBe('Bandit (slack amount 0.1)');
  expect(policyText(report([], { policy_properties: { delay_evaluation: 5 } }).spec)).toBe(
    'Bandit (delay evaluation 5)',
  );
  expect(policyText(report([], { policy: 'Default' }).spec)).toBe('None');
  expect(budgetOf(report(four), at(0), at(50), 0)).toEqual([
    { text: '4 of at most 8 runs', part: 0.5 },
    { text: '50 s of at most 1 min 40 s', part: 0.5 },
  ]);
});

it('counts children by what became of them', () => {
  const children = [
    ...four,
    child(4, { status: 'Failed', cut_short: { kind: 'crash', reason: 'boom' } }),
    child(5, { status: 'Running' }),
    child(6, { status: 'Queued' }),
  ];
  expect(countsOf(children).map((one) => `${one.count} ${one.word}`)).toEqual([
    '1 running',
    '1 waiting',
    '3 completed',
    '1 stopped by the policy',
    '1 failed',
  ]);
});
