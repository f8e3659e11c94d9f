// The differences between runs as lines of a table: a name, and one text per run. Pure.
import type { Run, Summaries } from '../../api/types';
import { number } from '../../lib/format';
import { computeOf, dataOf, environmentOf, gitOf, packagesOf, variablesOf } from '../../parts/diff/facts';
import { asNumber } from '../../parts/fields/values';

/** null: the run has none; undefined: not known (yet), which is no difference. */
export type Cell = string | null | undefined;

export interface Line {
  name: string;
  cells: readonly Cell[];
  differs: boolean;
  /** The runs with the best value, where the name tells what is good. */
  best?: readonly number[];
}

export interface Section {
  id: string;
  title: string;
  lines: readonly Line[];
}

type Facts = Record<string, unknown>;

/** Everything but code, whose differences must be asked for. */
export function sectionsOf(runs: readonly Run[], summaries: Summaries = {}): Section[] {
  const section = (id: string, title: string, facts: (run: Run) => Facts | undefined): Section => ({
    id,
    title,
    lines: linesOf(runs.map(facts)),
  });
  return [
    section('parameters', 'Parameters', parametersOf),
    section('tags', 'Tags', (run) => without(run.tags, isOwnTag)),
    section('target', 'Target and resources', computeOf),
    section('environment', 'Environment', environmentOf),
    section('packages', 'Packages', knownPackages),
    section('variables', 'Environment variables', variablesOf),
    section('data', 'Data', dataOf),
    section('git', 'Git', gitOf),
    section('properties', 'Properties', (run) => without(run.properties, isOwnProperty)),
    { id: 'results', title: 'Results', lines: resultsOf(runs, summaries) },
  ];
}

/** A line per name, in the order they first appear. A run without facts is not known, and not compared. */
export function linesOf(facts: readonly (Facts | undefined)[]): Line[] {
  const names = new Set(facts.flatMap((one) => Object.keys(one ?? {})));
  return [...names].map((name) => {
    const cells = facts.map((one) =>
      one === undefined ? undefined : textOf(Object.hasOwn(one, name) ? one[name] : null),
    );
    return { name, cells, differs: isDifferent(cells) };
  });
}

export function isDifferent(cells: readonly Cell[]): boolean {
  return new Set(cells.filter((cell) => cell !== undefined)).size > 1;
}

/** The value as one text; keys of objects in order, so that the same object is the same text. */
export function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(sorted(value));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, one]) => [key, sorted(one)]),
  );
}

function parametersOf(run: Run): Facts {
  const others = otherArguments(run.spec.arguments);
  return {
    ...run.parameters,
    ...(run.spec.script ? { '(script)': run.spec.script } : {}),
    ...(run.spec.command ? { '(command)': run.spec.command } : {}),
    ...(others.length ? { '(other arguments)': others.join(' ') } : {}),
  };
}

/** The arguments that are no `--name value`, as the server reads them. */
export function otherArguments(words: readonly string[]): string[] {
  const found: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at]!;
    if (word === '--' || !word.startsWith('--')) found.push(word);
    else if (!word.includes('=') && at + 1 < words.length && !words[at + 1]!.startsWith('--')) at++;
  }
  return found;
}

// A sweep's values are parameters already; a sweep itself has a tag for each child.
const isOwnTag = (name: string): boolean => name === 'hyperparameters' || name.startsWith('_aml_system_');
const isOwnProperty = (name: string): boolean =>
  /^_?(azureml|mlflow|runyard)\.|^(ContentSnapshotId|ProcessInfoFile|ProcessStatusFile)$/.test(name);

function without(words: Record<string, string | null>, isLeftOut: (name: string) => boolean): Facts {
  return Object.fromEntries(
    Object.entries(words).flatMap(([name, value]) => (isLeftOut(name) ? [] : [[name, value ?? '(no value)']])),
  );
}

/** Undefined until the run has reported its packages: that is no difference yet. */
function knownPackages(run: Run): Facts | undefined {
  const found = packagesOf(run);
  return Object.keys(found).length ? found : undefined;
}

function resultsOf(runs: readonly Run[], summaries: Summaries): Line[] {
  return Object.entries(summaries).map(([name, found]) => {
    const values = runs.map((run) => found[run.id]?.[0]);
    const cells = values.map((value) =>
      value === undefined ? null : typeof value === 'number' ? number(value) : textOf(value),
    );
    const best = bestOf(values.map(asNumber), goalOf(name));
    return { name, cells, differs: new Set(values).size > 1, ...(best.length ? { best } : {}) };
  });
}

/** Whether low or high values of a metric are good, guessed from its name; the part after the last `/` counts first. */
export const goalOf = (name: string): 'low' | 'high' | null =>
  goalOfWord(name.slice(name.lastIndexOf('/') + 1)) ?? goalOfWord(name);

function goalOfWord(name: string): 'low' | 'high' | null {
  const words = name.toLowerCase();
  if (/loss|err|\bmse|rmse|\bmae|mape|perplex|nll|latency|seconds|duration|(^|[_/ ])time/.test(words)) return 'low';
  return /acc|auc|auroc|f1|precision|recall|score|\br2\b|reward|bleu|rouge|\biou|\bmap\b|dice|throughput/.test(words)
    ? 'high'
    : null;
}

/** The places of the best value, when not all have it. */
export function bestOf(values: readonly (number | null)[], goal: 'low' | 'high' | null): number[] {
  const known = values.filter((value): value is number => value !== null);
  if (goal === null || new Set(known).size < 2) return [];
  const best = known.reduce((a, b) => (goal === 'low' ? Math.min(a, b) : Math.max(a, b)));
  return values.flatMap((value, index) => (value === best ? [index] : []));
}

/** The answer of `GET /snapshots/{id}/diff?with=`: the changes from the other snapshot to this one. */
export interface SnapshotDiff {
  added: readonly { path: string }[];
  removed: readonly { path: string }[];
  changed: readonly { path: string }[];
  more: boolean;
}

export type FileChange = 'added' | 'removed' | 'changed' | 'same' | 'unknown';

export interface CodeLine {
  path: string;
  /** Of each run against the baseline. */
  changes: readonly FileChange[];
}

/** The files that are not the same in all runs; `diffs` has for each run the difference to the baseline's code. */
export function codeLines(diffs: readonly (SnapshotDiff | 'same' | undefined)[]): CodeLine[] {
  const kinds = diffs.map((diff) => {
    const found = new Map<string, FileChange>();
    if (diff && diff !== 'same') {
      for (const kind of ['added', 'removed', 'changed'] as const)
        for (const file of diff[kind]) found.set(file.path, kind);
    }
    return found;
  });
  const paths = [...new Set(kinds.flatMap((found) => [...found.keys()]))].sort();
  return paths.map((path) => ({
    path,
    changes: kinds.map((found, index) => (diffs[index] === undefined ? 'unknown' : (found.get(path) ?? 'same'))),
  }));
}
