// The replicas of a service: runs below the service's run, those that answer first.
import { getJson, part } from '../../api/http';
import { useWorkspaceWatch } from '../../api/live';
import type { Webservice } from '../../api/services';
import { hasEnded, type Run } from '../../api/types';
import { href, runHref } from '../../lib/router';
import { useResource } from '../../lib/useResource';
import { Section, Shown } from '../../parts/assets/layout';
import { Lasting, Status } from '../../parts/basics';
import { Prose } from '../../parts/prose';

const MOST = 50;

/** The newest replicas, also those of revisions that are over. */
export async function replicaRuns(service: Webservice, signal: AbortSignal): Promise<Run[]> {
  const path = `/workspaces/${part(service.workspace)}/runs`;
  return (await getJson<{ runs: Run[] }>(path, { parent: service.run_id, limit: MOST, view: 'all' }, signal)).runs;
}

export function Replicas({ service }: { service: Webservice }) {
  const resource = useResource((signal) => replicaRuns(service, signal), [service.run_id]);
  useWorkspaceWatch(service.workspace, resource.again, 1_000);
  const runs = resource.value ?? [];
  const live = runs.filter((run) => !hasEnded(run.status));
  const shown = [...live, ...runs.filter((run) => hasEnded(run.status))];
  return (
    <Section
      title="Replicas"
      count={live.length}
      aside={<a href={runHref(service.run_id, { tab: 'children' })}>All that there ever were</a>}
    >
      <Shown resource={resource} what="the replicas">
        {() =>
          !shown.length ? (
            <p class="soft asset-none">There are none yet.</p>
          ) : (
            <div class="scroll-x">
              <table class="plain-table">
                <thead>
                  <tr>
                    <th class="tight">Replica</th>
                    <th class="tight">Revision</th>
                    <th>Status</th>
                    <th class="wide">Target</th>
                    <th class="number wide">For</th>
                    <th>Log</th>
                  </tr>
                </thead>
                <tbody>
                  {shown.map((run) => (
                    <tr key={run.id}>
                      <td>
                        <a href={runHref(run.id)} title={run.id}>
                          {run.properties['runyard.replica'] ?? run.number}
                        </a>
                      </td>
                      <td>{run.properties['runyard.revision']}</td>
                      <td>
                        <Status status={run.status} />
                        {!hasEnded(run.status) && run.waits_for && (
                          <div class="small soft">
                            <Prose text={run.waits_for} />
                          </div>
                        )}
                        {run.error?.message && (
                          <div class="small service-cause">
                            <Prose text={run.error.message.split('\n')[0]!} />
                          </div>
                        )}
                      </td>
                      <td class="wide">
                        <a href={href(`/compute/${part(run.spec.target)}`)}>{run.spec.target}</a>
                      </td>
                      <td class="number wide">
                        <Lasting since={run.started_at} until={run.ended_at} />
                      </td>
                      <td>
                        <a
                          href={runHref(run.id, { tab: 'log' })}
                          aria-label={`Log of replica ${run.properties['runyard.replica'] ?? run.number}`}
                        >
                          Log
                        </a>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
    </Section>
  );
}
