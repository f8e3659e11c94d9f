// The last values of the metrics, those that were logged first at the top.
import { readCharts, type Buckets } from '../../../api/charts';
import { ApiError, getJson, part } from '../../../api/http';
import { useWatch } from '../../../api/live';
import { hasEnded, type MetricInfo, type Run } from '../../../api/types';
import { number } from '../../../lib/format';
import { Empty, Fault, Loading } from '../../../parts/basics';
import { useResource } from '../../../lib/useResource';
import { runHref } from '../../../lib/router';
import { Card } from './card';
import { Spark } from './spark';

const MOST = 12;
const POINTS = 60;
const MANY = 100; // metrics: their list is long then, and read less often

interface Key {
  all: MetricInfo[];
  charts: Map<string, Buckets>;
}

export function KeyMetrics({ run }: { run: Run }) {
  const found = useResource((signal) => readKey(run.id, signal), [run.id]);
  const all = found.value?.all;
  useWatch([run.id], ['metrics', 'status'], found.again, (all?.length ?? 0) > MANY ? 3000 : 500);
  const scalars = (all ?? []).filter(isScalar);
  const more = all && all.length > 0 && (
    <a class="small" href={runHref(run.id, { tab: 'metrics' })}>
      All metrics
    </a>
  );
  return (
    <Card title="Key metrics" {...(all ? { count: all.length } : {})} more={more}>
      {found.error && <Fault error={found.error} again={found.again} />}
      {!all && !found.error && <Loading />}
      {all && !all.length && <Nothing run={run} />}
      {scalars.length > 0 && (
        <div class="scroll-x">
          <table class="plain-table">
            <thead>
              <tr>
                <th>Metric</th>
                <th class="spark-cell">
                  <span class="hidden-text">Course</span>
                </th>
                <th class="number">Last</th>
                <th class="number wide">Minimum</th>
                <th class="number wide">Maximum</th>
                <th class="number">Points</th>
              </tr>
            </thead>
            <tbody>
              {scalars.slice(0, MOST).map((one) => (
                <tr key={one.name}>
                  <td>
                    <a href={runHref(run.id, { tab: 'metrics', metric: one.name })}>{one.name}</a>
                  </td>
                  <td class="spark-cell">{one.count > 1 && <Spark buckets={found.value?.charts.get(one.name)} />}</td>
                  <td class="number strong">{number(one.last)}</td>
                  <td class="number soft wide">{one.count > 1 ? number(one.minimum) : ''}</td>
                  <td class="number soft wide">{one.count > 1 ? number(one.maximum) : ''}</td>
                  <td class="number soft">{number(one.count)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {scalars.length > MOST && (
        <p class="overview-note small soft">{scalars.length - MOST} more in the metrics tab.</p>
      )}
      {all && all.length > 0 && !scalars.length && (
        <p class="overview-note small soft">Tables and images are in the metrics tab.</p>
      )}
    </Card>
  );
}

const isScalar = (one: MetricInfo): boolean => one.kind === 'scalar';

async function readKey(id: string, signal: AbortSignal): Promise<Key> {
  const all = await getJson<MetricInfo[]>(`/runs/${part(id)}/metrics`, {}, signal);
  const drawn = all
    .filter(isScalar)
    .slice(0, MOST)
    .filter((one) => one.count > 1 && one.minimum !== null);
  const charts = await readCharts(
    drawn.map((one) => ({ run: id, metric: one.name })),
    { width: POINTS, x: 'step' },
  );
  const found = new Map<string, Buckets>();
  drawn.forEach((one, index) => {
    const chart = charts[index];
    if (chart && !(chart instanceof ApiError)) found.set(one.name, chart);
  });
  return { all, charts: found };
}

function Nothing({ run }: { run: Run }) {
  if (hasEnded(run.status)) return <p class="overview-note soft">This run logged no metrics.</p>;
  return (
    <Empty title="No metrics yet" command={'Run.get_context().log("loss", 0.5)'}>
      They appear here as soon as the script logs one.
    </Empty>
  );
}
