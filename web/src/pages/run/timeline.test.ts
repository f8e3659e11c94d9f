import { describe, expect, it } from 'vitest';
import type { Run } from '../../api/types';
import { attemptsOf, lasted, shares } from './timeline';

const at = (seconds: number): string => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const run = (values: Partial<Run>): Run => ({ attempts: [], attempt: 1, timeline: [], ...values }) as Run;

describe('attemptsOf', () => {
  it('joins created and queued, keeps reasons, and leaves the end out', () => {
    const [only, ...more] = attemptsOf(
      run({
        timeline: [
          { status: 'NotStarted', at: at(0) },
          { status: 'Queued', at: at(1), waits: [{ text: 'a place', at: at(1) }] },
          { status: 'Running', at: at(10), waits: [] },
          { status: 'Completed', at: at(30) },
        ],
      }),
    );
    expect(more).toEqual([]);
    expect(only?.steps.map((step) => [step.status, lasted(step, 0), step.waits.map((one) => one.text)])).toEqual([
      ['Queued', 10_000, ['a place']],
      ['Running', 20_000, []],
    ]);
  });

  it('counts to now while it goes on', () => {
    const [only] = attemptsOf(run({ timeline: [{ status: 'Running', at: at(0) }] }));
    expect(only?.steps.map((step) => [step.to, lasted(step, Date.parse(at(7)))])).toEqual([[null, 7000]]);
  });

  it('begins a new attempt where one was given up', () => {
    const found = attemptsOf(
      run({
        attempt: 2,
        attempts: [
          { number: 1, given_up_at: at(20), ended_at: at(25), code: 'NodeLost', why: 'n1 is down', host: 'n1' },
        ],
        timeline: [
          { status: 'Queued', at: at(0) },
          { status: 'Running', at: at(5) },
          { status: 'Queued', at: at(20) },
          { status: 'Running', at: at(40) },
        ],
      }),
    );
    expect(found.map((one) => [one.number, one.code, one.host, one.steps.map((step) => step.status)])).toEqual([
      [1, 'NodeLost', 'n1', ['Queued', 'Running']],
      [2, '', '', ['Queued', 'Running']],
    ]);
  });
});

describe('shares', () => {
  it('adds up to 100 and keeps short phases visible', () => {
    const found = shares([1, 99_999]);
    expect(found[0]).toBeGreaterThan(3.8);
    expect(found.reduce((sum, one) => sum + one)).toBeCloseTo(100);
    expect(shares([0, 0])).toEqual([50, 50]);
  });
});
