// How to call a service, its figures, revisions, replicas, keys, and what was said of it.
import { useState } from 'preact/hooks';
import { sendJson } from '../../api/http';
import { useWatch } from '../../api/live';
import type { Webservice } from '../../api/services';
import type { MetricSummaries, Summaries } from '../../api/types';
import { bytes, number } from '../../lib/format';
import { query, setQuery } from '../../lib/router';
import { useResource } from '../../lib/useResource';
import { Fact, Section } from '../../parts/assets/layout';
import { Copy, When } from '../../parts/basics';
import { Chart, LazyMount, type ChartView } from '../../parts/chart';
import { curlLine, requestRate, servingOf, workersOf } from '../../parts/services/facts';
import { Keys } from './keys';
import { Replicas } from './replicas';
import { Revisions } from './revisions';
import type { TabProps } from './tab';

export function Overview({ service, description, again }: TabProps) {
  return (
    <>
      <Address service={service} sample={description.value?.sample} />
      <Figures service={service} />
      <Revisions service={service} again={again} />
      <Replicas service={service} />
      <div class="service-pair">
        <Keys service={service} />
        <About service={service} />
      </div>
    </>
  );
}

function Address({ service, sample }: { service: Webservice; sample: unknown }) {
  const curl = curlLine(service, sample);
  const { auth, token_auth } = service.settings;
  return (
    <Section title="Address">
      <dl class="facts">
        <Fact name="Scoring">
          <Copyable text={service.scoring_uri} what="the address" />
        </Fact>
        <Fact name="In a shell">
          <Copyable text={curl} what="the command" />
        </Fact>
        <Fact name="Key">
          {auth
            ? 'Each request needs one, as the header Authorization: Bearer KEY.'
            : token_auth
              ? 'Each request needs a token: service.get_token().'
              : 'None is needed.'}
        </Fact>
      </dl>
    </Section>
  );
}

function Copyable({ text, what }: { text: string; what: string }) {
  return (
    <span class="copyable">
      <code>{text}</code>
      <span class="hidden-text">{what}</span>
      <Copy text={text} />
    </span>
  );
}

interface Panel {
  title: string;
  unit?: string;
  /** Metric and label of each line, and its colour. */
  lines: readonly (readonly [string, string, number])[];
}

const PANELS: readonly Panel[] = [
  {
    title: 'Requests in ten seconds',
    lines: [
      ['requests', 'requests', 0],
      ['errors_4xx', 'errors 4xx', 4],
      ['errors_5xx', 'errors 5xx', 6],
    ],
  },
  {
    title: 'Latency',
    unit: ' ms',
    lines: [
      ['p50_ms', 'p50', 0],
      ['p95_ms', 'p95', 4],
      ['p99_ms', 'p99', 6],
    ],
  },
  {
    title: 'Wait in the queue',
    unit: ' ms',
    lines: [
      ['queue_p50_ms', 'p50', 0],
      ['queue_p95_ms', 'p95', 4],
    ],
  },
  {
    title: 'Requests in a batch',
    lines: [
      ['batch_mean', 'mean', 0],
      ['batch_max', 'largest', 5],
    ],
  },
  {
    title: 'Workers',
    lines: [
      ['workers', 'workers', 7],
      ['busy_workers', 'busy', 2],
    ],
  },
  { title: 'Memory of all workers', unit: ' MB', lines: [['memory_mb', 'memory', 3]] },
];
const HOUR_S = 3600;
const SPANS: readonly (readonly [string, string, number | null])[] = [
  ['15min', '15 min', HOUR_S / 4],
  ['hour', '1 h', HOUR_S],
  ['day', '1 day', 24 * HOUR_S],
  ['all', 'All', null],
];
const VIEW: ChartView = { x: 'wall', isLog: false, smoothing: 0 };
const HEIGHT = 150;

function Figures({ service }: { service: Webservice }) {
  const id = service.run_id;
  const [version, setVersion] = useState(0);
  const found = useResource<MetricSummaries>(
    (signal) => sendJson('POST', '/metrics/summary', { runs: [id] }, signal),
    [id],
  );
  useWatch(
    [id],
    ['metrics'],
    () => {
      found.again();
      setVersion((old) => old + 1);
    },
    1000,
  );
  const metrics = found.value?.metrics ?? {};
  const wanted = query.value.get('last');
  const [span, , seconds] = SPANS.find(([name]) => name === wanted) ?? SPANS[1]!;
  // A service that is younger has nothing to leave out: its charts are filled.
  const lastS = seconds !== null && Date.now() - Date.parse(service.created_at) > seconds * 1000 ? seconds : null;
  if (!metrics.requests) {
    return (
      <Section title="Figures">
        <p class="soft asset-none">
          The first ones come ten seconds after a worker is there, and then every ten seconds.
        </p>
      </Section>
    );
  }
  return (
    <>
      <Stats service={service} metrics={metrics} />
      <div class="row" role="group" aria-label="Time that the charts show">
        <span class="soft small">Last</span>
        {SPANS.map(([name, label]) => (
          <button
            key={name}
            type="button"
            class="button small"
            aria-pressed={span === name}
            onClick={() => setQuery({ last: name === 'hour' ? null : name })}
          >
            {label}
          </button>
        ))}
      </div>
      <div class="service-charts">
        {PANELS.map((panel) => (
          <div key={panel.title} class="card service-chart">
            <LazyMount height={HEIGHT + 90}>
              {() => (
                <Chart
                  title={panel.title}
                  view={VIEW}
                  version={version}
                  height={HEIGHT}
                  lastS={lastS}
                  unit={panel.unit ?? ''}
                  lines={panel.lines.map(([metric, label, color]) => ({ run: id, metric, label, color }))}
                />
              )}
            </LazyMount>
          </div>
        ))}
      </div>
    </>
  );
}

/** The last row of figures, in numbers. */
function Stats({ service, metrics }: { service: Webservice; metrics: Summaries }) {
  const last = (name: string): number => {
    const value = metrics[name]?.[service.run_id]?.[0];
    return typeof value === 'number' ? value : 0;
  };
  const workers = workersOf(service);
  const serving = servingOf(service);
  const rate = workers ? requestRate(metrics, service.run_id) : 0;
  const stats: [string, string][] = [
    ['requests a second', number(Math.round((rate ?? 0) * 10) / 10)],
    ['errors in ten seconds', number(workers ? last('errors_4xx') + last('errors_5xx') : 0)],
    ['p95', workers ? `${number(Number(last('p95_ms').toPrecision(3)))}\u00a0ms` : '–'],
    ['workers busy', `${service.revisions.reduce((sum, one) => sum + one.busy, 0)} of ${workers}`],
    ['memory', workers ? bytes(last('memory_mb') * 2 ** 20).replace(' ', '\u00a0') : '–'],
  ];
  return (
    <div class="stat-row" role="group" aria-label={serving ? `Now, revision ${serving.number}` : 'Now'}>
      {stats.map(([label, value]) => (
        <div key={label} class="card stat">
          <strong>{value}</strong>
          <span class="small soft">{label}</span>
        </div>
      ))}
    </div>
  );
}

function About({ service }: { service: Webservice }) {
  const { settings } = service;
  return (
    <Section title="About">
      <dl class="facts">
        <Fact name="Description">{settings.description}</Fact>
        <Fact name="Kind">{[settings.compute_type, settings.compute_name].filter(Boolean).join(', ')}</Fact>
        <Fact name="Port">{settings.port || null}</Fact>
        <Fact name="Pages that may call it">{settings.cors_origins.join(', ')}</Fact>
        <Fact name="Created">
          <When time={service.created_at} />
          {service.created_by && <span class="soft"> by {service.created_by}</span>}
        </Fact>
        {Object.entries(settings.properties).map(([key, value]) => (
          <Fact key={key} name={key}>
            {value}
          </Fact>
        ))}
      </dl>
    </Section>
  );
}
