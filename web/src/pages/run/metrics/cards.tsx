// One metric in the grid: a small chart, a table, an image, or words; and the same large.
import { useEffect, useRef, useState } from 'preact/hooks';
import { getBytes, getFrames, part, pathOf } from '../../../api/http';
import type { MetricInfo, Run } from '../../../api/types';
import { number, plural } from '../../../lib/format';
import { Fault, Loading } from '../../../parts/basics';
import { Chart, type ChartView, type Line } from '../../../parts/chart';
import { useResource } from '../../../lib/useResource';
import { linesOf, MOST_LINES, shapeOf, startOf } from './groups';
import { ColumnTable, Document } from './table';
import { columnOf, drawableOf, imageType, type Drawable } from './values';

const MOST_CELLS = 20_000; // of a table or of words, that a page reads
const MOST_BYTES = 20_000_000;

export interface MetricProps {
  run: Run;
  info: MetricInfo;
  view: ChartView;
  version: number;
  isLarge?: boolean;
}

/** A metric, drawn by its kind. */
export function MetricBody({ run, info, view, version, isLarge = false }: MetricProps) {
  switch (shapeOf(info)) {
    case 'chart':
      return (
        <>
          <Chart
            lines={linesOf(run, info)}
            view={view}
            version={version}
            {...(isLarge ? { height: 420 } : { isSmall: true })}
          />
          {info.ranks.length > MOST_LINES && (
            <p class="small soft">
              The first {MOST_LINES} of {info.ranks.length} ranks.
            </p>
          )}
        </>
      );
    case 'table':
      return <LoggedTable run={run} info={info} view={view} version={version} isLarge={isLarge} />;
    case 'file':
      return <LoggedFile run={run} info={info} isLarge={isLarge} />;
    case 'text':
      return <Words run={run} info={info} version={version} />;
    case 'value':
      return <p class="metric-one number">{number(info.last)}</p>;
  }
}

/** Read again when the version changes; the old value stays meanwhile. */
function useAgain(again: () => void, version: number): void {
  const known = useRef(version);
  useEffect(() => {
    if (known.current !== version) again();
    known.current = version;
  }, [version]);
}

function LoggedTable({ run, info, view, version, isLarge = false }: MetricProps) {
  const [isChart, setChart] = useState(false);
  const isLong = info.count * info.columns.length > MOST_CELLS;
  const found = useResource(
    async (signal) =>
      isLong
        ? null
        : (await getFrames(`/runs/${part(run.id)}/metrics/values`, { name: info.name }, signal)).map(columnOf),
    [run.id, info.name, isLong],
  );
  useAgain(found.again, version);
  const lines: Line[] = info.columns
    .slice(0, MOST_LINES)
    .map((column, color) => ({ run: run.id, metric: info.name, column, label: column, color, start: startOf(run) }));
  if (found.error) return <Fault error={found.error} again={found.again} />;
  if (!isLong && !found.value) return <Loading what="Reading the table" />;
  return (
    <div class="stack">
      {isLarge && !isLong && (
        <div class="row" role="group" aria-label="Show as">
          <button type="button" class="button small" aria-pressed={!isChart} onClick={() => setChart(false)}>
            Table
          </button>
          <button type="button" class="button small" aria-pressed={isChart} onClick={() => setChart(true)}>
            Chart
          </button>
        </div>
      )}
      {isLong && (
        <p class="small soft">
          {plural(info.count, 'row')} are drawn, not listed: <code>run.get_metrics({JSON.stringify(info.name)})</code>{' '}
          gives them all.
        </p>
      )}
      {isChart || isLong ? (
        <Chart
          lines={lines}
          view={{ ...view, x: 'step' }}
          version={version}
          {...(isLarge ? { height: 380 } : { isSmall: true })}
        />
      ) : (
        <ColumnTable columns={found.value ?? []} />
      )}
    </div>
  );
}

/** Values of which some are no numbers, with their steps. */
function Words({ run, info, version }: { run: Run; info: MetricInfo; version: number }) {
  const isLong = info.count > MOST_CELLS;
  const found = useResource(
    async (signal) =>
      isLong
        ? []
        : (await getFrames(`/runs/${part(run.id)}/metrics/series`, { name: info.name }, signal))
            .map(columnOf)
            .filter((column) => column.name !== 'times'),
    [run.id, info.name, isLong],
  );
  useAgain(found.again, version);
  if (found.error) return <Fault error={found.error} again={found.again} />;
  if (isLong)
    return (
      <p class="soft">
        {plural(info.count, 'value')}, too many to list here: <code>run.get_metrics({JSON.stringify(info.name)})</code>{' '}
        gives them all.
      </p>
    );
  if (!found.value) return <Loading what="Reading the values" />;
  return <ColumnTable columns={found.value} rowName="#" />;
}

type Opened =
  | { kind: 'image'; url: string }
  | { kind: 'document'; drawable: Drawable }
  | { kind: 'other'; size: number };

/** An image as a blob, in which no script runs; JSON as the chart that it describes. */
function LoggedFile({ run, info, isLarge }: { run: Run; info: MetricInfo; isLarge: boolean }) {
  const file = info.artifact ?? '';
  const path = `/runs/${part(run.id)}/files/${pathOf(file)}`;
  const found = useResource((signal) => open(path, signal), [path, info.count]);
  const opened = found.value;
  useEffect(
    () => () => {
      if (opened?.kind === 'image') URL.revokeObjectURL(opened.url);
    },
    [opened],
  );
  if (found.error)
    return found.error.status === 404 ? (
      <p class="small soft">The file {file} is not here yet.</p>
    ) : (
      <Fault error={found.error} again={found.again} />
    );
  if (!opened) return <Loading what="Reading the file" />;
  const download = (
    <a class="small" href={`/api/v1${path}`} download>
      Download {file}
    </a>
  );
  if (opened.kind === 'image') {
    return (
      <figure class={`metric-image${isLarge ? ' large' : ''}`}>
        <img src={opened.url} alt={info.name} />
        <figcaption>{download}</figcaption>
      </figure>
    );
  }
  return (
    <div class="stack">
      {opened.kind === 'document' ? (
        <Document drawable={opened.drawable} />
      ) : (
        <p class="soft">This file is neither an image nor JSON.</p>
      )}
      {download}
    </div>
  );
}

async function open(path: string, signal: AbortSignal): Promise<Opened> {
  const response = await getBytes(path, {}, { signal, range: [0, MOST_BYTES - 1] });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const type = imageType(bytes);
  if (type) return { kind: 'image', url: URL.createObjectURL(new Blob([bytes], { type })) };
  const start = new TextDecoder().decode(bytes.subarray(0, 100)).trimStart();
  if (!/^[[{]/.test(start)) return { kind: 'other', size: bytes.length };
  return { kind: 'document', drawable: drawableOf(new TextDecoder().decode(bytes)) };
}
