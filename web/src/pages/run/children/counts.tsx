// How many runs below a run have which status.
import { getJson, part } from '../../../api/http';
import type { Run, RunStatus } from '../../../api/types';
import { number } from '../../../lib/format';
import { Status } from '../../../parts/basics';

export interface StatusCount {
  status: RunStatus;
  count: number;
}

export async function childCounts(run: Run, signal: AbortSignal): Promise<StatusCount[]> {
  const path = `/workspaces/${part(run.workspace)}/groups`;
  const { groups } = await getJson<{ groups: { value: string; count: number }[] }>(
    path,
    { by: 'status', parent: run.id },
    signal,
  );
  return groups.map((one) => ({ status: one.value as RunStatus, count: one.count }));
}

export function Counts({ counts }: { counts: readonly StatusCount[] }) {
  return (
    <>
      {counts.map((one) => (
        <span key={one.status} class="row">
          <strong class="number">{number(one.count)}</strong> <Status status={one.status} />
        </span>
      ))}
    </>
  );
}
