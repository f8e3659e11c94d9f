// The answer of `GET /runs/{id}/sweep`, and values computed from it. Pure.
import type { RunStatus, Summaries, Time } from '../../api/types';
import { duration, number, plural } from '../../lib/format';
import { asNumber, asValue, compareValues, type Field, type Row, type Value } from '../../parts/fields/values';
import { shownName } from '../../parts/filetree/names';

export interface SweepSpec {
  sampling: string;
  space: Record<string, unknown>;
  primary_metric: string;
  goal: 'MAXIMIZE' | 'MINIMIZE';
  max_total_runs: number;
  max_concurrent_runs: number;
  max_duration_s: number;
  policy: string;
  policy_properties: Record<string, unknown>;
  resume_from: string[];
}

export type CutKind = 'policy' | 'cap' | 'crash' | 'cancel';

export interface Child {
  run_id: string;
  index: number;
  parameters: Record<string, unknown>;
  status: RunStatus;
  best: number | string | null;
  best_at: Time | null;
  cut_short: { kind: CutKind; reason: string } | null;
  started_at: Time | null;
  ended_at: Time | null;
}

export interface Report {
  run_id: string;
  spec: SweepSpec;
  children: Child[];
  inherited: { run_id: string }[];
  bests: { run_id: string; value: number | string; at: Time | null }[];
  closed: string | null;
  finished: { status: string; reason: string } | null;
}

export const CUT_WORDS: Record<CutKind, string> = {
  policy: 'Stopped early',
  cap: 'Time was over',
  crash: 'Failed',
  cancel: 'Canceled',
};

/** The child with the best value; the first of equals, as the server says. */
export function bestChild({ spec, children }: Pick<Report, 'spec' | 'children'>): Child | null {
  let best: Child | null = null;
  for (const child of children) {
    const value = asNumber(child.best);
    if (value === null) continue;
    const held = best === null ? null : asNumber(best.best);
    if (held === null || (spec.goal === 'MAXIMIZE' ? value > held : value < held)) best = child;
  }
  return best;
}

export interface Dot {
  child: Child;
  /** Milliseconds since 1970. */
  at: number;
  value: number;
}

export interface Progress {
  dots: Dot[];
  /** The best so far from each time on. */
  steps: { at: number; value: number }[];
  start: number;
  end: number;
}

/** The children's best values over time, and the best of all so far; null before the first value. */
export function progressOf(report: Report, startedAt: Time, endedAt: Time | null, now: number): Progress | null {
  const dots = report.children.flatMap((child): Dot[] => {
    const value = asNumber(child.best);
    const at = child.best_at ?? child.ended_at;
    return value === null ? [] : [{ child, value, at: at ? Date.parse(at) : now }];
  });
  if (!dots.length) return null;
  const steps = report.bests.flatMap(({ value, at }) => {
    const found = asNumber(value);
    return found === null || !at ? [] : [{ at: Date.parse(at), value: found }];
  });
  // Without a policy, the best values of running children are not in `bests` yet.
  const held = steps.at(-1)?.value;
  const best = asNumber(bestChild(report)?.best);
  if (best !== null && best !== held)
    steps.push({ at: dots.find((dot) => dot.value === best)?.at ?? now, value: best });
  const times = [...dots, ...steps].map((one) => one.at);
  const start = Math.min(Date.parse(startedAt), ...times);
  const end = Math.max(endedAt ? Date.parse(endedAt) : now, ...times, start + 1);
  return { dots, steps, start, end };
}

/** A parameter's name without the dashes of its argument. */
export const parameterName = (name: string): string => shownName(name.replace(/^-+/, ''));

export const parameterNames = (report: Report): string[] => [
  ...new Set([...Object.keys(report.spec.space), ...report.children.flatMap((child) => Object.keys(child.parameters))]),
];

/** Fields that children are plotted by: parameters, best value, last values of other metrics, duration. */
export function fieldsOf(report: Report, summaries: Summaries): Field[] {
  const { children, spec } = report;
  const field = (id: string, label: string, group: Field['group'], of: (child: Child) => Value): Field => ({
    id,
    label,
    group,
    values: children.map(of),
  });
  return [
    ...parameterNames(report).map((name) =>
      field(`params.${name}`, parameterName(name), 'Parameters', (child) => asValue(child.parameters[name])),
    ),
    field('best', `best ${spec.primary_metric}`, 'Metrics', (child) => asNumber(child.best)),
    ...Object.entries(summaries)
      .filter(([name]) => name !== spec.primary_metric)
      .map(([name, found]) =>
        field(`metrics.${name}`, shownName(name), 'Metrics', (child) => asNumber(found[child.run_id]?.[0])),
      ),
    field('duration', 'Duration (s)', 'Run', lastingSeconds),
    field('number', 'Child', 'Run', (child) => child.index),
    field('status', 'Status', 'Run', (child) => (child.cut_short ? CUT_WORDS[child.cut_short.kind] : child.status)),
  ];
}

/** Ids of children are the sweep's with a number: that tells them apart. */
export const childName = (child: Pick<Child, 'index'>): string => `Child ${child.index}`;

export const rowsOf = (report: Report): Row[] =>
  report.children.map((child) => ({ id: child.run_id, label: childName(child) }));

function lastingSeconds(child: Child): number | null {
  return child.started_at && child.ended_at
    ? Math.round(Date.parse(child.ended_at) - Date.parse(child.started_at)) / 1000
    : null;
}

export interface Order {
  /** `best`, `index`, `status`, `duration`, or `params.<name>`. */
  by: string;
  isDown: boolean;
}

/** Places of children in that order; those without a value last, equals by their number. */
export function orderedBy(report: Report, order: Order): number[] {
  const sortValue = (child: Child): Value => {
    if (order.by === 'best') return asNumber(child.best);
    if (order.by === 'status') return child.cut_short ? CUT_WORDS[child.cut_short.kind] : child.status;
    if (order.by === 'duration') return lastingSeconds(child);
    if (order.by.startsWith('params.')) return asValue(child.parameters[order.by.slice(7)]);
    return child.index;
  };
  const values = report.children.map(sortValue);
  return values
    .map((_, index) => index)
    .sort((a, b) => {
      const [one, other] = [values[a]!, values[b]!];
      const both = one !== null && other !== null;
      return compareValues(one, other) * (both && order.isDown ? -1 : 1) || a - b;
    });
}

export const bestOrder = (spec: SweepSpec): Order => ({ by: 'best', isDown: spec.goal === 'MAXIMIZE' });

const SAMPLING: Record<string, string> = { GRID: 'Grid', RANDOM: 'Random', BAYESIAN: 'Bayesian' };

export const samplingText = (spec: SweepSpec): string => SAMPLING[spec.sampling.toUpperCase()] ?? spec.sampling;

export function policyText(spec: SweepSpec): string {
  if (spec.policy === 'Default') return 'None';
  const isUsual = (name: string, value: unknown): boolean =>
    (name === 'evaluation_interval' && value === 1) || (name === 'delay_evaluation' && value === 0);
  const properties = Object.entries(spec.policy_properties).filter(
    ([name, value]) => value !== null && value !== undefined && !isUsual(name, value),
  );
  const details = properties
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${typeof value === 'number' ? number(value) : String(value)}`)
    .join(', ');
  return details ? `${spec.policy} (${details})` : spec.policy;
}

/** How much of the sweep's budget is used: runs and time. */
export function budgetOf(
  report: Report,
  startedAt: Time,
  endedAt: Time | null,
  now: number,
): { text: string; part: number }[] {
  const { spec, children } = report;
  const used = (endedAt ? Date.parse(endedAt) : now) - Date.parse(startedAt);
  return [
    {
      text: `${number(children.length)} of at most ${plural(spec.max_total_runs, 'run')}`,
      part: children.length / spec.max_total_runs,
    },
    {
      text: `${duration(used)} of at most ${duration(spec.max_duration_s * 1000)}`,
      part: used / (spec.max_duration_s * 1000),
    },
  ];
}

/** How many children are in each state, in words, most telling first; none that are zero. */
export function countsOf(children: readonly Child[]): { word: string; count: number; kind: string }[] {
  const ended = new Set(['Completed', 'Failed', 'Canceled']);
  const count = (is: (child: Child) => boolean): number => children.filter(is).length;
  const cut =
    (kind: CutKind) =>
    (child: Child): boolean =>
      child.cut_short?.kind === kind && ended.has(child.status);
  return [
    {
      word: 'running',
      kind: 'busy',
      count: count((child) => !ended.has(child.status) && child.status !== 'NotStarted' && child.status !== 'Queued'),
    },
    {
      word: 'waiting',
      kind: 'idle',
      count: count((child) => child.status === 'NotStarted' || child.status === 'Queued'),
    },
    { word: 'completed', kind: 'good', count: count((child) => child.status === 'Completed') },
    { word: 'stopped by the policy', kind: 'warn', count: count(cut('policy')) },
    { word: 'ended by the time limit', kind: 'warn', count: count(cut('cap')) },
    { word: 'failed', kind: 'bad', count: count(cut('crash')) },
    { word: 'canceled', kind: 'idle', count: count(cut('cancel')) },
  ].filter((one) => one.count > 0);
}
