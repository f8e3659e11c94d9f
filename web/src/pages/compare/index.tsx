// Two to fifty runs beside each other: overlaid charts, what differs, and plots by parameters and results.
import { useMemo } from 'preact/hooks';
import { getJson, sendJson } from '../../api/http';
import { useWatch } from '../../api/live';
import { hasEnded, type Run, type Summaries } from '../../api/types';
import { useTitle } from '../../lib/browser';
import { plural } from '../../lib/format';
import { Empty, Fault, Loading, Tabs } from '../../parts/basics';
import { colorVersion, seriesColor } from '../../parts/fields/color';
import { useLastValue, useResource } from '../../lib/useResource';
import { go, MOST_COMPARED, path, query, runHref, setQuery, workspace } from '../../lib/router';
import { Charts } from './charts';
import { AddRuns, Chosen } from './runpicker';
import { ParallelTab, ScatterTab } from './plots';
import { namesOf } from './runs';
import { Differences } from './table';
import './compare.css';

const TABS = [
  ['charts', 'Charts'],
  ['differences', 'Differences'],
  ['scatter', 'Scatter'],
  ['parallel', 'Parallel coordinates'],
] as const;

interface Found {
  runs: Run[];
  missing: string[];
}

interface Measured {
  metrics: Summaries;
  left_out: number;
}

export default function ComparePage() {
  const wanted = [...new Set(query.value.getAll('run'))];
  const ids = wanted.slice(0, MOST_COMPARED);
  const key = ids.join('\n');
  useTitle(`Compare ${ids.length > 1 ? plural(ids.length, 'run') : 'runs'}`);
  const resource = useResource<Found>(
    (signal) => (ids.length ? getJson('/runs', { id: ids }, signal) : Promise.resolve({ runs: [], missing: [] })),
    [key],
  );
  const metrics = useResource<Measured>(
    (signal) =>
      ids.length ? sendJson('POST', '/metrics/summary', { runs: ids }, signal) : Promise.resolve(NO_METRICS),
    [key],
  );
  const found = useLastValue(resource.value);
  const { metrics: summaries, left_out: leftOut } = useLastValue(metrics.value) ?? NO_METRICS;
  const live = found?.runs.filter((run) => !hasEnded(run.status)).map((run) => run.id) ?? [];
  useWatch(live, ['status', 'tags'], resource.again, 1000);
  useWatch(live, ['metrics'], metrics.again, 3000);

  const choose = (next: readonly string[]): void =>
    setQuery(
      { run: next, base: next.includes(query.value.get('base') ?? '') ? query.value.get('base') : null },
      { replace: false },
    );
  const runs = found?.runs ?? NONE;
  return (
    <div class="page compare">
      <div class="page-head">
        <h1>Compare runs</h1>
        <AddRuns
          chosen={ids}
          from={runs[0]?.workspace ?? workspace.value}
          onAdd={(more) => choose([...ids, ...more].slice(0, MOST_COMPARED))}
        />
      </div>
      {resource.error && <Fault error={resource.error} again={resource.again} />}
      {wanted.length > MOST_COMPARED && (
        <p class="soft">
          The first {MOST_COMPARED} of {wanted.length} runs are compared.
        </p>
      )}
      {!!found?.missing.length && (
        <p class="soft" role="status">
          Not there, or deleted:{' '}
          {found.missing.map((id) => (
            <code key={id}>{id} </code>
          ))}
          <button
            type="button"
            class="button small"
            onClick={() => choose(ids.filter((id) => !found.missing.includes(id)))}
          >
            Leave out
          </button>
        </p>
      )}
      {!found && resource.isLoading ? (
        <Loading what="Reading the runs" />
      ) : runs.length === 0 ? (
        <Empty title="Choose runs to compare" command="runyard runs list">
          Add two to fifty runs here, or select them in the table of runs and press Compare.
        </Empty>
      ) : (
        <>
          {metrics.error && <Fault error={metrics.error} again={metrics.again} />}
          <Comparison runs={runs} summaries={summaries} onRuns={choose} />
          {leftOut > 0 && (
            <p class="small soft">
              The hundred metrics that most of these runs have are shown, {leftOut} others are not.
            </p>
          )}
        </>
      )}
    </div>
  );
}

const NO_METRICS: Measured = { metrics: {}, left_out: 0 };
const NONE: Run[] = [];

function Comparison({
  runs,
  summaries,
  onRuns,
}: {
  runs: readonly Run[];
  summaries: Summaries;
  onRuns: (ids: string[]) => void;
}) {
  const ids = runs.map((run) => run.id);
  const names = useMemo(() => namesOf(runs), [runs]);
  const version = colorVersion();
  const rowColors = useMemo(() => runs.map((_, index) => seriesColor(index)), [ids.join('\n'), version]);
  const base = Math.max(0, ids.indexOf(query.value.get('base') ?? ''));
  const tab = TABS.find(([id]) => id === query.value.get('tab'))?.[0] ?? 'charts';
  const shared = { runs, names, rowColors, summaries };
  const tabHref = (id: string): string => {
    const next = new URLSearchParams(query.value);
    next.set('tab', id);
    return `${path.value}?${next.toString()}`;
  };
  return (
    <>
      <Chosen
        runs={runs}
        names={names}
        rowColors={rowColors}
        base={ids[base]!}
        onBase={(id) => setQuery({ base: id })}
        onRemove={(id) => onRuns(ids.filter((one) => one !== id))}
      />
      <Tabs tabs={TABS.map(([id, label]) => ({ id, label, href: tabHref(id) }))} selected={tab} />
      {runs.length === 1 && <p class="soft">One run has nothing to be compared with. Add another.</p>}
      {tab === 'charts' && <Charts {...shared} />}
      {tab === 'differences' && <Differences {...shared} base={base} />}
      {tab === 'scatter' && <ScatterTab {...shared} onOpen={open} />}
      {tab === 'parallel' && <ParallelTab {...shared} onOpen={open} />}
    </>
  );
}

const open = (id: string): void => go(runHref(id));
