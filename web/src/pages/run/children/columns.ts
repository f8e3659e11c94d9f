// Which parameters tell children apart.
import type { Run } from '../../../api/types';

const MOST = 6;

/** Names of parameters whose values are not all the same, at most six. */
export function differing(runs: readonly Pick<Run, 'parameters'>[]): string[] {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.parameters)))];
  return names.filter((name) => new Set(runs.map((run) => run.parameters[name])).size > 1).slice(0, MOST);
}
