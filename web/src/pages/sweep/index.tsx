// A sweep: what it looks for, how far it is, its best so far, and all its children.
import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { ApiError, getJson, part, sendJson } from '../../api/http';
import { useWatch, useWorkspaceWatch } from '../../api/live';
import { hasEnded, type Run, type Summaries } from '../../api/types';
import { useTitle } from '../../lib/browser';
import { number } from '../../lib/format';
import { Empty, Fault, Loading, now, Status, When } from '../../parts/basics';
import { firstAxes, firstPair } from '../../parts/fields/defaults';
import { Parallel } from '../../parts/parallel';
import { ask, attempt, note } from '../../parts/overlays';
import { Scatter } from '../../parts/scatter';
import { useLastValue, useResource } from '../../lib/useResource';
import { go, href, type PageProps, query, runHref, setQuery } from '../../lib/router';
import { Children } from './children';
import { ProgressChart } from './progress';
import {
  bestChild,
  budgetOf,
  childName,
  countsOf,
  fieldsOf,
  policyText,
  progressOf,
  rowsOf,
  samplingText,
  type Report,
} from './report';
import './sweep.css';

export default function SweepPage({ name }: PageProps) {
  const run = useResource<Run>((signal) => getJson(`/runs/${part(name)}`, {}, signal), [name]);
  const report = useResource<Report>((signal) => getJson(`/runs/${part(name)}/sweep`, {}, signal), [name]);
  const again = (): void => {
    run.again();
    report.again();
  };
  const isLive = !!run.value && !hasEnded(run.value.status);
  useWatch([name], ['status', 'tags'], again, 1000);
  useTitle(`${run.value?.display_name || name} · Sweep`);
  const error = run.error ?? report.error;
  if (error && !(run.value && report.value)) {
    return (
      <div class="page">
        <Fault error={error} again={again} />
        {run.value && <a href={runHref(name)}>The run’s own page</a>}
      </div>
    );
  }
  if (!run.value || !report.value) return <Loading what="Reading the sweep" />;
  return (
    <div class="page sweep">
      {isLive && (
        <WhileLive
          workspace={run.value.workspace}
          again={again}
          everyMs={report.value.children.length > 200 ? 5000 : 2000}
        />
      )}
      <Head run={run.value} report={report.value} again={again} />
      {error && <Fault error={error} again={again} />}
      {report.value.children.length ? (
        <Results run={run.value} report={report.value} />
      ) : (
        <Empty
          title={hasEnded(run.value.status) ? 'This sweep made no children' : 'The first children are being made'}
          command={hasEnded(run.value.status) ? `runyard runs show ${name}` : undefined}
        >
          {report.value.closed ?? 'They appear here by themselves.'}
        </Empty>
      )}
    </div>
  );
}

/** Children's changes are changes of other runs: the workspace tells. */
function WhileLive({ workspace, again, everyMs }: { workspace: string; again: () => void; everyMs: number }) {
  useWorkspaceWatch(workspace, again, everyMs);
  return null;
}

function Head({ run, report, again }: { run: Run; report: Report; again: () => void }) {
  const { spec } = report;
  const best = bestChild(report);
  const isLive = !hasEnded(run.status);
  const cancel = async (): Promise<void> => {
    if (
      (await ask({
        title: 'Cancel this sweep?',
        text: 'Its children that still run are stopped, and no more are made. What they logged stays.',
        label: 'Cancel the sweep',
        isDanger: true,
      })) === null
    )
      return;
    if (await attempt(() => sendJson('POST', `/runs/${part(run.id)}/cancel`))) {
      note('The sweep ends as soon as its children have.');
      again();
    }
  };
  return (
    <>
      <div class="page-head">
        <h1 class="cut" title={run.id}>
          {run.display_name || run.id}
        </h1>
        <Status status={run.status} pill />
        <span class="soft">
          Sweep in <a href={href('/runs', { experiment: run.experiment })}>{run.experiment}</a>,{' '}
          <When time={run.created_at} />
        </span>
        <span class="grow" />
        <a class="button" href={runHref(run.id)}>
          Run page
        </a>
        {isLive && (
          <button
            type="button"
            class="button danger"
            disabled={run.status === 'CancelRequested'}
            onClick={() => void cancel()}
          >
            {run.status === 'CancelRequested' ? 'Canceling…' : 'Cancel'}
          </button>
        )}
      </div>
      {run.error?.message && (
        <Fault error={new ApiError(0, run.error.code ?? '', 'The sweep failed.', run.error.message)} />
      )}
      <div class="card sweep-facts">
        <Fact label={`Best ${spec.primary_metric}`}>
          {best ? (
            <>
              <strong class="number sweep-value">{number(best.best)}</strong>{' '}
              <a href={runHref(best.run_id)} title={best.run_id}>
                {childName(best)}
              </a>
            </>
          ) : (
            <span class="soft">None yet</span>
          )}
        </Fact>
        <Fact label="Goal">
          {spec.goal === 'MAXIMIZE' ? 'Maximize' : 'Minimize'} <code>{spec.primary_metric}</code>
        </Fact>
        <Fact label="Sampling">{samplingText(spec)}</Fact>
        <Fact label="Early stopping">{policyText(spec)}</Fact>
        <Fact label="Budget">
          {budgetOf(report, run.created_at, run.ended_at, isLive ? now.value : Date.now()).map((one) => (
            <span key={one.text} class="sweep-budget">
              <progress max={1} value={Math.min(1, one.part)} aria-label={one.text} />
              <span class="number">{one.text}</span>
            </span>
          ))}
        </Fact>
        <Fact label="Children">
          <span class="row">
            {countsOf(report.children).map((one) => (
              <span key={one.word} class={`status ${one.kind}`}>
                <span class="dot" aria-hidden="true" />
                {one.count} {one.word}
              </span>
            ))}
            {!report.children.length && <span class="soft">None yet</span>}
          </span>
        </Fact>
        {report.inherited.length > 0 && (
          <Fact label="Knows">
            {report.inherited.length} earlier trials of {spec.resume_from.join(', ')}
          </Fact>
        )}
        {report.closed && <Fact label="No more children">{report.closed}</Fact>}
      </div>
    </>
  );
}

const Fact = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <div class="sweep-fact">
    <div class="small soft">{label}</div>
    <div>{children}</div>
  </div>
);

function Results({ run, report }: { run: Run; report: Report }) {
  const [kept, setKept] = useState<readonly boolean[] | null>(null);
  const ids = report.children.map((child) => child.run_id);
  const ended = report.children.filter((child) => child.ended_at).length;
  const metrics = useResource<{ metrics: Summaries }>(
    (signal) => sendJson('POST', '/metrics/summary', { runs: ids }, signal),
    [ids.length, ended],
  );
  const rows = useMemo(() => rowsOf(report), [ids.join('\n')]);
  const summaries = useLastValue(metrics.value)?.metrics;
  const fields = useMemo(() => fieldsOf(report, summaries ?? {}), [report, summaries]);
  const best = bestChild(report)?.run_id;
  const progress = progressOf(report, run.created_at, run.ended_at, hasEnded(run.status) ? 0 : now.value);
  const first = firstPair(fields);
  const chosen = query.value.getAll('axis');
  const known = (key: string): string | undefined => fields.find((field) => field.id === query.value.get(key))?.id;
  const color = query.value.get('color') === 'none' ? '' : (known('color') ?? 'best');
  return (
    <>
      {progress ? (
        <ProgressChart progress={progress} spec={report.spec} best={best} onOpen={open} />
      ) : (
        <p class="soft card plot-card">
          No child has logged <code>{report.spec.primary_metric}</code> yet: the script does it by{' '}
          <code>{`run.log("${report.spec.primary_metric}", value)`}</code>.
        </p>
      )}
      <section class="stack" aria-label="Parallel coordinates">
        <h2>Parallel coordinates</h2>
        <Parallel
          rows={rows}
          fields={fields}
          axes={chosen.length ? chosen : firstAxes(fields, 'best')}
          onAxes={(axis) => setQuery({ axis: axis.length ? axis : ['none'] })}
          color={color}
          onColor={(id) => setQuery({ color: id || 'none' })}
          onKept={setKept}
          onOpen={open}
        />
      </section>
      <Children report={report} best={best} kept={kept} />
      <section class="stack" aria-label="Scatter plot">
        <h2>Scatter plot</h2>
        <Scatter
          rows={rows}
          fields={fields}
          x={known('sx') ?? first.x}
          y={known('sy') ?? 'best'}
          color={color}
          onPick={(change) =>
            setQuery({
              ...(change.x ? { sx: change.x } : {}),
              ...(change.y ? { sy: change.y } : {}),
              ...(change.color === undefined ? {} : { color: change.color || 'none' }),
            })
          }
          onOpen={open}
        />
      </section>
    </>
  );
}

const open = (id: string): void => go(runHref(id));
