// How the runs below this one stand.
import { getJson, part } from '../../../api/http';
import { hasEnded, type Run } from '../../../api/types';
import { number } from '../../../lib/format';
import { useResource } from '../../../lib/useResource';
import { href, runHref } from '../../../lib/router';
import { childCounts, Counts, type StatusCount } from '../children/counts';
import { Follow } from '../follow';
import { Card } from './card';

interface Sweep {
  spec: Record<string, unknown>;
  best: string | null;
  bests: { run_id: string; value: number }[];
}

export function ChildrenCard({ run }: { run: Run }) {
  const counts = useResource<StatusCount[]>((signal) => childCounts(run, signal), [run.id]);
  const follow = (counts.value?.length || !hasEnded(run.status)) && (
    <Follow workspace={run.workspace} act={counts.again} />
  );
  if (!counts.value?.length) return follow || null;
  const total = counts.value.reduce((sum, one) => sum + one.count, 0);
  return (
    <Card
      title="Children"
      count={total}
      more={
        <a class="small" href={runHref(run.id, { tab: 'children' })}>
          All children
        </a>
      }
    >
      {follow}
      <div class="overview-note row">
        <Counts counts={counts.value} />
        {run.spec.sweep && <Best run={run} progress={JSON.stringify(counts.value)} />}
      </div>
    </Card>
  );
}

function Best({ run, progress }: { run: Run; progress: string }) {
  const found = useResource(
    (signal) => getJson<Sweep>(`/runs/${part(run.id)}/sweep`, {}, signal),
    [run.id, run.status, progress],
  );
  const best = found.value?.bests.at(-1);
  if (!found.value) return null;
  return (
    <span>
      {best && (
        <>
          best <strong class="number">{number(best.value)}</strong> by{' '}
          <a class="mono" href={runHref(best.run_id)}>
            {best.run_id}
          </a>{' '}
          ·{' '}
        </>
      )}
      <a href={href(`/sweeps/${part(run.id)}`)}>Open the sweep</a>
    </span>
  );
}
