// How the runs of each experiment stand: counts by kind of status, widths of the bar.
import type { Experiment, RunStatus, SentRow } from '../../api/types';
import { statusKind } from '../../parts/basics';

export interface Tally {
  experiment: string;
  statuses: Partial<Record<RunStatus, number>>;
  last: SentRow;
}

export interface Line {
  experiment: Experiment & { undo_until?: string | null };
  total: number;
  parts: { status: RunStatus; kind: string; count: number }[];
  last: SentRow | undefined;
}

const ORDER = ['good', 'busy', 'warn', 'idle', 'bad'];

/** Experiments with their counts: those with the newest run first, then the newest without runs. */
export function linesOf(experiments: readonly Experiment[], tallies: readonly Tally[]): Line[] {
  const found = new Map(tallies.map((one) => [one.experiment, one]));
  const lines = experiments.map((experiment) => {
    const tally = found.get(experiment.name);
    const parts = Object.entries(tally?.statuses ?? {}).map(([status, count]) => ({
      status: status as RunStatus,
      kind: statusKind(status as RunStatus),
      count,
    }));
    parts.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || b.count - a.count);
    return { experiment, total: parts.reduce((sum, one) => sum + one.count, 0), parts, last: tally?.last };
  });
  const at = (line: Line): string => line.last?.created_at ?? line.experiment.created_at;
  return lines.sort(
    (a, b) =>
      Number(!a.last) - Number(!b.last) ||
      at(b).localeCompare(at(a)) ||
      a.experiment.name.localeCompare(b.experiment.name),
  );
}
