// The child runs: status, parameters and metrics of each.
import { useState } from 'preact/hooks';
import { getJson, part, sendJson } from '../../../api/http';
import { useWorkspaceWatch } from '../../../api/live';
import type { Run } from '../../../api/types';
import { number } from '../../../lib/format';
import { Empty, Fault, Lasting, Loading, Status, When } from '../../../parts/basics';
import { useResource } from '../../../lib/useResource';
import { compareHref, href, MOST_COMPARED, runHref } from '../../../lib/router';
import type { TabProps } from '../tab';
import { differing } from './columns';
import { childCounts, Counts } from './counts';

const PAGE = 100;
const MOST_METRICS = 4;

interface Found {
  runs: Run[];
  hasMore: boolean;
  metrics: Record<string, Record<string, [unknown, number | null, number | null, number]>>;
}

export default function Tab({ run }: TabProps) {
  const [pages, setPages] = useState(1);
  const found = useResource((signal) => readChildren(run, pages, signal), [run.id, pages]);
  const counts = useResource((signal) => childCounts(run, signal), [run.id]);
  const again = (): void => {
    found.again();
    counts.again();
  };
  useWorkspaceWatch(run.workspace, again, 2000);
  if (found.error) return <Fault error={found.error} again={found.again} />;
  if (!found.value) return <Loading what="Reading the runs below this one" />;
  const { runs, metrics, hasMore } = found.value;
  if (!runs.length) {
    return (
      <Empty title="No runs below this one" command="with run.child_run('fold 1') as child: child.log('loss', 0.5)">
        A script makes them with <code>run.child_run()</code>; sweeps make one for each choice of parameters.
      </Empty>
    );
  }
  const parameters = differing(runs);
  const names = Object.keys(metrics).slice(0, MOST_METRICS);
  return (
    <div class="stack">
      <div class="row">
        {counts.value && <Counts counts={counts.value} />}
        <span class="grow" />
        {run.spec.sweep && (
          <a class="button small" href={href(`/sweeps/${part(run.id)}`)}>
            Open the sweep
          </a>
        )}
        {runs.length > 1 && (
          <a class="button small" href={compareHref(runs.slice(0, MOST_COMPARED).map((one) => one.id))}>
            Compare {Math.min(runs.length, MOST_COMPARED)}
          </a>
        )}
      </div>
      <div class="card scroll-x">
        <table class="plain-table">
          <thead>
            <tr>
              <th>Run</th>
              <th>Status</th>
              {parameters.map((name) => (
                <th key={name}>{name}</th>
              ))}
              {names.map((name) => (
                <th key={name} class="number">
                  {name}
                </th>
              ))}
              <th class="number">Duration</th>
              <th>Created</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((one) => (
              <tr key={one.id}>
                <td>
                  <a href={runHref(one.id)}>{one.display_name || one.id}</a>
                </td>
                <td>
                  <Status status={one.status} />
                </td>
                {parameters.map((name) => (
                  <td key={name}>{one.parameters[name] ?? ''}</td>
                ))}
                {names.map((name) => (
                  <td key={name} class="number">
                    {number(metrics[name]?.[one.id]?.[0])}
                  </td>
                ))}
                <td class="number">
                  <Lasting since={one.started_at} until={one.ended_at} />
                </td>
                <td>
                  <When time={one.created_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {hasMore && (
        <div>
          <button type="button" class="button" onClick={() => setPages(pages + 1)}>
            Show more
          </button>
        </div>
      )}
    </div>
  );
}

async function readChildren(run: Run, pages: number, signal: AbortSignal): Promise<Found> {
  const runs: Run[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pages; page++) {
    const answer: { runs: Run[]; next: string | null } = await getJson(
      `/workspaces/${part(run.workspace)}/runs`,
      { parent: run.id, limit: PAGE, cursor, view: 'all' },
      signal,
    );
    runs.push(...answer.runs);
    cursor = answer.next;
    if (cursor === null) break;
  }
  const ids = runs.map((one) => one.id).slice(0, 1000);
  const { metrics } = ids.length
    ? await sendJson<{ metrics: Found['metrics'] }>('POST', '/metrics/summary', { runs: ids }, signal)
    : { metrics: {} };
  return { runs, hasMore: cursor !== null, metrics };
}
