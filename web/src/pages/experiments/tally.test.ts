import { describe, expect, it, vi } from 'vitest';

vi.mock('../../parts/basics', () => ({
  statusKind: (status: string) => ({ Completed: 'good', Failed: 'bad', Running: 'busy' })[status] ?? 'idle',
}));
const { linesOf } = await import('./tally');

const experiment = (name: string, created_at: string) => ({
  id: name,
  name,
  workspace: 'default',
  created_at,
  archived_at: null,
  tags: {},
});
const last = (created_at: string) => ({ created_at }) as never;

describe('experiments', () => {
  it('come by their newest run, those without runs last', () => {
    const found = linesOf(
      [experiment('new and empty', '2026-03'), experiment('old', '2026-01'), experiment('busy', '2026-02')],
      [
        { experiment: 'old', statuses: { Failed: 1, Completed: 2, Running: 3 }, last: last('2026-05') },
        { experiment: 'busy', statuses: { Completed: 1 }, last: last('2026-06') },
        { experiment: 'archived', statuses: { Completed: 1 }, last: last('2026-07') },
      ],
    );
    expect(found.map((line) => [line.experiment.name, line.total])).toEqual([
      ['busy', 1],
      ['old', 6],
      ['new and empty', 0],
    ]);
    expect(found[1]?.parts.map((part) => [part.kind, part.count])).toEqual([
      ['good', 2],
      ['busy', 3],
      ['bad', 1],
    ]);
  });
});
