// The metrics of the runs, one chart each, a line for each run; a click shows one large.
import { useState } from 'preact/hooks';
import { useWatch } from '../../api/live';
import { hasEnded, type Run, type Summaries } from '../../api/types';
import { plural } from '../../lib/format';
import { Empty } from '../../parts/basics';
import { Chart, ChartControls, LazyMount, viewOf, viewQuery, type Line } from '../../parts/chart';
import { query, setQuery } from '../../lib/router';

const SMALL = 190;

export function Charts({
  runs,
  names,
  summaries,
}: {
  runs: readonly Run[];
  names: readonly string[];
  summaries: Summaries;
}) {
  const [version, setVersion] = useState(0);
  const [text, setText] = useState('');
  const live = runs.filter((run) => !hasEnded(run.status)).map((run) => run.id);
  useWatch(live, ['metrics'], () => setVersion((old) => old + 1), 1000);
  const view = viewOf(query.value);
  const all = Object.keys(summaries);
  const series = all.filter((metric) => Object.values(summaries[metric]!).some((one) => one[3] > 1 && one[1] !== null));
  const large = series.find((metric) => metric === query.value.get('metric'));
  const shown = series.filter((metric) => metric.toLowerCase().includes(text.toLowerCase()));
  const linesOf = (metric: string): Line[] =>
    runs.flatMap((run, index) =>
      summaries[metric]![run.id]
        ? [
            {
              run: run.id,
              metric,
              label: names[index]!,
              color: index,
              start: run.started_at ? Date.parse(run.started_at) : null,
            },
          ]
        : [],
    );
  if (!series.length) {
    return all.length ? (
      <Empty title="Nothing to draw">
        These runs logged {plural(all.length, 'metric')}, each with a single value: see Differences.
      </Empty>
    ) : (
      <Empty title="These runs logged no numbers" command={'run.log("loss", loss)'}>
        What a script logs by <code>run.log</code> is drawn here, a line for each run.
      </Empty>
    );
  }
  return (
    <>
      <div class="row">
        <ChartControls view={view} onChange={(next) => setQuery(viewQuery(next))} />
        {series.length > 6 && (
          <input
            class="input"
            type="search"
            placeholder="Find a metric"
            aria-label="Find a metric"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        )}
      </div>
      {large && (
        <div class="card plot-card compare-large">
          <Chart
            key={large}
            lines={linesOf(large)}
            view={view}
            version={version}
            height={420}
            title={
              <span class="row">
                {large}
                <button type="button" class="button small" onClick={() => setQuery({ metric: null })}>
                  Close
                </button>
              </span>
            }
          />
        </div>
      )}
      <div class={`compare-charts${series.length === 1 ? ' single' : ''}`}>
        {shown.map((metric) => (
          <div key={metric} class="card plot-card">
            <LazyMount height={SMALL}>
              {() => (
                <Chart
                  lines={linesOf(metric)}
                  view={view}
                  version={version}
                  isSmall={series.length > 1}
                  title={
                    <button
                      type="button"
                      class="compare-open cut"
                      title={`${metric}: show large`}
                      onClick={() => setQuery({ metric })}
                    >
                      {metric}
                    </button>
                  }
                />
              )}
            </LazyMount>
          </div>
        ))}
      </div>
      {series.length < all.length && (
        <p class="small soft">
          {plural(all.length - series.length, 'metric')} with a single value: see Differences, Results.
        </p>
      )}
    </>
  );
}
