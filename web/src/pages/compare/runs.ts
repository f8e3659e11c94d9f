// The runs of a comparison: how they are named, and what they can be plotted by. Pure.
import { hasEnded, type Run, type Summaries } from '../../api/types';
import { asNumber, asValue, varies, type Field, type Row, type Value } from '../../parts/fields/values';
import { shownName } from '../../parts/filetree/names';

/** Their display names, or ids where a name is missing or used twice. */
export function namesOf(runs: readonly Run[]): string[] {
  const count = new Map<string, number>();
  for (const run of runs) count.set(run.display_name, (count.get(run.display_name) ?? 0) + 1);
  return runs.map((run) =>
    shownName(run.display_name && count.get(run.display_name) === 1 ? run.display_name : run.id),
  );
}

export const rowsOf = (runs: readonly Run[]): Row[] => {
  const names = namesOf(runs);
  return runs.map((run, index) => ({ id: run.id, label: names[index]! }));
};

/** Run ids in a pasted text, split at spaces and commas; an address of a run counts as its id. */
export function idsIn(text: string): string[] {
  const words = text.split(/[\s,;]+/).map((word) => /\/runs\/([^/?#]+)/.exec(word)?.[1] ?? word);
  return [...new Set(words.filter((word) => /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(word)))];
}

/** Everything that runs can be plotted by: parameters, last values of metrics, and facts. Equal facts are left out. */
export function fieldsOf(runs: readonly Run[], summaries: Summaries): Field[] {
  const parameters = [...new Set(runs.flatMap((run) => Object.keys(run.parameters)))].map(
    (name): Field => ({
      id: `params.${name}`,
      label: shownName(name),
      group: 'Parameters',
      values: runs.map((run) => asValue(run.parameters[name])),
    }),
  );
  const metrics = Object.entries(summaries).map(
    ([name, found]): Field => ({
      id: `metrics.${name}`,
      label: shownName(name),
      group: 'Metrics',
      values: runs.map((run) => asNumber(found[run.id]?.[0])),
    }),
  );
  const fact = (id: string, label: string, of: (run: Run) => Value): Field => ({
    id,
    label,
    group: 'Run',
    values: runs.map(of),
  });
  const facts = [
    fact('duration', 'Duration (s)', durationOf),
    fact('number', 'Number', (run) => run.number),
    fact('status', 'Status', (run) => run.status),
    fact('experiment', 'Experiment', (run) => run.experiment),
    fact('target', 'Target', (run) => run.spec.target),
    fact('user', 'Submitted by', (run) => run.submitted_by || null),
  ];
  return [
    ...parameters,
    ...metrics.filter((field) => field.values.some((value) => value !== null)),
    ...facts.filter(varies),
  ];
}

/** Seconds from start to end; none while it goes on. */
function durationOf(run: Run): number | null {
  if (!run.started_at || !run.ended_at || !hasEnded(run.status)) return null;
  return Math.round(Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1000;
}
