// All metrics of a run: cards in groups, each growing while the run logs, and one of them large.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { getJson, part } from '../../../api/http';
import { useWatch } from '../../../api/live';
import { hasEnded, type MetricInfo, type Run } from '../../../api/types';
import { number, plural } from '../../../lib/format';
import { useKeys } from '../../../lib/keys';
import { Empty, Fault, Loading } from '../../../parts/basics';
import { Chart, ChartControls, LazyMount, viewOf, viewQuery, type ChartView } from '../../../parts/chart';
import { useResource } from '../../../lib/useResource';
import { query, setQuery } from '../../../lib/router';
import type { TabProps } from '../tab';
import { MetricBody } from './cards';
import { groupsOf, shapeOf, shortName, systemCharts, systemLines, type SystemChart } from './groups';
import { pins, togglePin } from './pins';
import './metrics.css';

const EVERY_MS = 1000; // a chart that grows is read again once a second
const CARD = 164; // px of a small chart
const FIRST_CARDS = 48; // of a group; the next when these were scrolled through

export default function MetricsTab({ run }: TabProps) {
  const [version, setVersion] = useState(0);
  const path = `/runs/${part(run.id)}/metrics`;
  const logged = useResource((signal) => getJson<MetricInfo[]>(path, {}, signal), [run.id]);
  const system = useResource((signal) => getJson<MetricInfo[]>(path, { system: 'true' }, signal), [run.id]);
  useWatch(
    [run.id],
    ['metrics', 'status'],
    () => {
      logged.again();
      system.again();
      setVersion((old) => old + 1);
    },
    EVERY_MS,
  );
  const view = useMemo(() => viewOf(query.value), [query.value]);
  const search = query.value.get('q') ?? '';
  const input = useRef<HTMLInputElement>(null);
  useKeys({ '/': () => input.current?.focus() });

  if (logged.error && !logged.value) return <Fault error={logged.error} again={logged.again} />;
  if (!logged.value) return <Loading what="Reading the metrics" />;
  const infos = logged.value;
  const machine = systemCharts(system.value ?? []);
  if (!infos.length && !machine.length) return <Nothing run={run} />;
  const groups = groupsOf(infos, search);
  const pinned = groups.flatMap((group) => group.items).filter((info) => pins.value.includes(info.name));
  const found = groups.reduce((sum, group) => sum + group.items.length, 0);
  const large = query.value.get('metric');
  const card = { run, view, version };
  return (
    <div class="stack metrics">
      <div class="row metrics-bar">
        <input
          ref={input}
          type="search"
          class="input metrics-search"
          placeholder="Search metrics"
          aria-label="Search metrics"
          value={search}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
        />
        <span class="small soft grow">
          {search ? `${number(found)} of ${plural(infos.length, 'metric')}` : plural(infos.length, 'metric')}
        </span>
        <ChartControls view={view} onChange={(next) => setQuery(viewQuery(next))} />
      </div>
      {!infos.length && (
        <p class="soft">
          This run has logged no metrics{hasEnded(run.status) ? '' : ' yet'}; what its machine does is below.
        </p>
      )}
      {infos.length > 0 && !found && (
        <Empty title="No metric has that name">
          <button type="button" class="button" onClick={() => setQuery({ q: null })}>
            Show all metrics
          </button>
        </Empty>
      )}
      {pinned.length > 0 && <Section title="Pinned" items={pinned} group="" {...card} />}
      {groups.map((group) => (
        <Section
          key={group.name}
          title={group.name || (groups.length > 1 ? 'Other metrics' : '')}
          items={group.items}
          group={group.name}
          {...card}
        />
      ))}
      {machine.length > 0 && !search && <System run={run} charts={machine} view={view} version={version} />}
      {large !== null && <Large name={large} infos={infos} machine={machine} {...card} />}
    </div>
  );
}

function Nothing({ run }: { run: Run }) {
  if (hasEnded(run.status))
    return (
      <Empty title="This run logged no metrics" command={'Run.get_context().log("loss", 0.5)'}>
        A script logs them with this, and they are drawn here.
      </Empty>
    );
  return (
    <Empty title="No metrics yet" command={'Run.get_context().log("loss", 0.5)'}>
      They appear here as soon as the script logs one.
    </Empty>
  );
}

interface Shared {
  run: Run;
  view: ChartView;
  version: number;
}

/** Points that came change a chart's count; of several ranks only the first is counted. */
const versionOf = (info: MetricInfo, version: number): number => (info.ranks.length > 1 ? version : info.count);

function Section({
  title,
  items,
  group,
  ...shared
}: Shared & { title: string; items: readonly MetricInfo[]; group: string }) {
  const values = items.filter((info) => shapeOf(info) === 'value');
  const rest = items.filter((info) => shapeOf(info) !== 'value');
  const [most, setMost] = useState(FIRST_CARDS);
  return (
    <section class="stack" aria-label={title || 'Metrics'}>
      {title && (
        <h2 class="metrics-title">
          {title} <span class="faint small number">{number(items.length)}</span>
        </h2>
      )}
      {values.length > 0 && (
        <dl class="metric-values card">
          {values.map((info) => (
            <div key={info.name}>
              <dt class="soft small cut" title={info.name}>
                {shortName(info, group)}
              </dt>
              <dd class="number cut" title={String(info.last)}>
                {number(info.last)}
              </dd>
            </div>
          ))}
        </dl>
      )}
      {rest.length > 0 && (
        <div class="metric-grid">
          {rest.slice(0, most).map((info) => (
            <Card
              key={info.name}
              name={info.name}
              title={shortName(info, group)}
              isPinned={pins.value.includes(info.name)}
            >
              {() => <MetricBody info={info} {...shared} version={versionOf(info, shared.version)} />}
            </Card>
          ))}
        </div>
      )}
      {rest.length > most && <End key={most} reached={() => setMost(most * 2)} />}
    </section>
  );
}

/** Stands below the last card; more cards are made when it comes into view. */
function End({ reached }: { reached: () => void }) {
  return <LazyMount height={1}>{() => <Reached act={reached} />}</LazyMount>;
}

function Reached({ act }: { act: () => void }) {
  useEffect(act, []);
  return null;
}

/** A card whose content is made when it comes into view. A click on its name opens it large. */
function Card({
  name,
  title,
  isPinned,
  children,
}: {
  name: string;
  title: string;
  isPinned?: boolean;
  children: () => ComponentChildren;
}) {
  return (
    <article class="card metric-card">
      <header class="metric-head">
        <button
          type="button"
          class="metric-name cut"
          title={`${name}: open large`}
          onClick={() => setQuery({ metric: name }, {})}
        >
          {title}
        </button>
        {isPinned !== undefined && (
          <button
            type="button"
            class="metric-pin"
            aria-pressed={isPinned}
            aria-label={isPinned ? `Unpin ${name}` : `Pin ${name} to the top`}
            onClick={() => togglePin(name)}
          >
            {isPinned ? '★' : '☆'}
          </button>
        )}
      </header>
      <LazyMount height={CARD}>{children}</LazyMount>
    </article>
  );
}

const SYSTEM = 'system:';

function System({ run, charts, view, version }: Shared & { charts: readonly SystemChart[] }) {
  return (
    <section class="stack" aria-label="System">
      <h2 class="metrics-title">
        System{' '}
        <span class="faint small">
          what the run's {charts.some((chart) => chart.metrics[0]!.info.ranks.length > 1) ? 'machines' : 'machine'} did
        </span>
      </h2>
      <div class="metric-grid">
        {charts.map((chart) => (
          <Card
            key={chart.title}
            name={SYSTEM + chart.title}
            title={`${chart.title}${chart.unit ? ` (${chart.unit.trim()})` : ''}`}
          >
            {() => <SystemBody run={run} chart={chart} view={view} version={version} />}
          </Card>
        ))}
      </div>
    </section>
  );
}

/** Machines count no steps: over time, unless the wall clock is chosen. */
function SystemBody({ run, chart, view, version, height }: Shared & { chart: SystemChart; height?: number }) {
  const overTime: ChartView = useMemo(() => ({ ...view, x: view.x === 'wall' ? 'wall' : 'relative' }), [view]);
  return (
    <Chart
      lines={systemLines(run, chart)}
      view={overTime}
      version={version}
      unit={chart.unit}
      {...(chart.range ? { range: chart.range } : {})}
      {...(height ? { height } : { isSmall: true })}
    />
  );
}

function Large({
  name,
  infos,
  machine,
  ...shared
}: Shared & { name: string; infos: readonly MetricInfo[]; machine: readonly SystemChart[] }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    dialog.current?.showModal();
    dialog.current?.querySelector<HTMLElement>('.chart-plot')?.focus();
  }, []);
  const info = infos.find((one) => one.name === name);
  const chart = machine.find((one) => SYSTEM + one.title === name);
  const names = [
    ...infos.filter((one) => shapeOf(one) !== 'value').map((one) => one.name),
    ...machine.map((one) => SYSTEM + one.title),
  ];
  const at = names.indexOf(name);
  const show = (index: number): void => {
    const next = names[index];
    if (next !== undefined) setQuery({ metric: next });
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: for the keyboard, Escape closes a dialog
    <dialog
      ref={dialog}
      class="metric-large"
      aria-label={name}
      onClose={() => setQuery({ metric: null })}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="stack">
        <header class="row">
          <h2 class="grow metric-large-name">{chart ? `${chart.title} (${chart.unit.trim()})` : name}</h2>
          <ChartControls view={shared.view} onChange={(next) => setQuery(viewQuery(next))} />
          <button
            type="button"
            class="button"
            aria-label="Previous metric"
            disabled={at <= 0}
            onClick={() => show(at - 1)}
          >
            ‹
          </button>
          <button
            type="button"
            class="button"
            aria-label="Next metric"
            disabled={at < 0 || at >= names.length - 1}
            onClick={() => show(at + 1)}
          >
            ›
          </button>
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </header>
        {info && <Facts info={info} />}
        {info && <MetricBody key={name} info={info} isLarge {...shared} version={versionOf(info, shared.version)} />}
        {chart && <SystemBody key={name} chart={chart} height={420} {...shared} />}
        {!info && !chart && <p class="soft">This run has no metric of that name.</p>}
      </div>
    </dialog>
  );
}

function Facts({ info }: { info: MetricInfo }) {
  if (info.kind !== 'scalar') return null;
  return (
    <p class="small soft number">
      Last {number(info.last)} · least {number(info.minimum)} · greatest {number(info.maximum)} ·{' '}
      {plural(info.count, 'point')}
      {info.ranks.length > 1 && ` · ${plural(info.ranks.length, 'rank')}`}
    </p>
  );
}
