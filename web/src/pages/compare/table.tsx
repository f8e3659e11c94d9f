// The table of what differs: a column for each run, a line for each thing that is not the same everywhere.
import { useLayoutEffect, useState } from 'preact/hooks';
import { getJson, part } from '../../api/http';
import type { Run, Summaries } from '../../api/types';
import { plural } from '../../lib/format';
import { Empty, Lasting, Status } from '../../parts/basics';
import { shortened } from '../../parts/fields/canvas';
import { shownName } from '../../parts/filetree/names';
import { query, runHref, setQuery } from '../../lib/router';
import {
  codeLines,
  sectionsOf,
  type FileChange,
  type CodeLine,
  type Line,
  type Section,
  type SnapshotDiff,
} from './differences';

interface TableProps {
  runs: readonly Run[];
  names: readonly string[];
  rowColors: readonly string[];
  base: number;
  summaries: Summaries;
}

export function Differences({ runs, names, rowColors, base, summaries }: TableProps) {
  const isAll = query.value.get('equal') === '1';
  const order = [base, ...runs.map((_, index) => index).filter((index) => index !== base)];
  const code = useCode(runs, base);
  const sections = sectionsOf(runs, summaries);
  const count =
    sections.reduce((sum, section) => sum + section.lines.filter((line) => line.differs).length, 0) + code.lines.length;
  const results = sections.find((section) => section.id === 'results')!;
  const others = sections.filter((section) => section !== results);
  return (
    <>
      <div class="row">
        <span class="soft" role="status">
          {code.isLoading ? 'Comparing code…' : count ? plural(count, 'difference') : 'No differences'}
        </span>
        <label class="row small">
          <input
            type="checkbox"
            checked={isAll}
            onChange={(event) => setQuery({ equal: event.currentTarget.checked ? '1' : null })}
          />
          Show what is equal too
        </label>
      </div>
      {!count && !isAll && !code.isLoading ? (
        <Empty title="These runs differ in nothing that was recorded">
          Parameters, tags, environment, data, git, code and results are the same.
        </Empty>
      ) : (
        <div class="card scroll-x">
          <table class="plain-table differences">
            <thead>
              <tr>
                <th scope="col" class="differences-name">
                  <span class="hidden-text">What differs</span>
                </th>
                {order.map((index) => (
                  <Head
                    key={runs[index]!.id}
                    run={runs[index]!}
                    name={names[index]!}
                    color={rowColors[index]!}
                    isBase={index === base}
                  />
                ))}
              </tr>
            </thead>
            {others.map((section) => (
              <Lines key={section.id} section={section} order={order} isAll={isAll} />
            ))}
            <Code
              lines={code.lines}
              isSame={code.isSame}
              more={code.more}
              runs={runs}
              order={order}
              base={base}
              isAll={isAll}
            />
            <Lines section={results} order={order} isAll={isAll} />
          </table>
        </div>
      )}
    </>
  );
}

function Head({ run, name, color, isBase }: { run: Run; name: string; color: string; isBase: boolean }) {
  return (
    <th scope="col">
      <span class="row differences-run">
        <span class="chosen-dot" style={{ background: color }} aria-hidden="true" />
        <a class="cut" href={runHref(run.id)} title={`${name} · ${run.id}`}>
          {shortened(name, 30)}
        </a>
      </span>
      <span class="row small">
        <Status status={run.status} />
        <Lasting since={run.started_at} until={run.ended_at} />
        {isBase && <span class="faint">baseline</span>}
      </span>
    </th>
  );
}

function Lines({ section, order, isAll }: { section: Section; order: readonly number[]; isAll: boolean }) {
  const lines = section.lines.filter((line) => isAll || line.differs);
  if (!lines.length) return null;
  return (
    <tbody data-section={section.id}>
      <Title text={section.title} span={order.length + 1} />
      {lines.map((line) => (
        <tr key={line.name} class={line.differs ? undefined : 'equal'}>
          <th scope="row" class="differences-name" title={shownName(line.name)}>
            {shownName(line.name)}
          </th>
          {order.map((index) => (
            <Cell key={index} line={line} index={index} base={order[0]!} isResult={section.id === 'results'} />
          ))}
        </tr>
      ))}
    </tbody>
  );
}

const Title = ({ text, span }: { text: string; span: number }) => (
  <tr class="differences-title">
    <th scope="colgroup" colSpan={span}>
      <span>{text}</span>
    </th>
  </tr>
);

function Cell({ line, index, base, isResult }: { line: Line; index: number; base: number; isResult: boolean }) {
  const value = line.cells[index];
  const isOther = line.differs && !isResult && value !== undefined && value !== line.cells[base];
  const isBest = line.best?.includes(index);
  return (
    <td class={isOther ? 'other' : undefined}>
      {value === undefined ? (
        <span class="faint">not known</span>
      ) : value === null ? (
        <span class="faint">–</span>
      ) : (
        <span class="differences-value" title={value.length > 40 ? value : undefined}>
          {value.split('\n').map(shownName).join('\n') || '""'}
          {isBest && (
            <span class="differences-best" title="Best of these runs">
              {' '}
              ★<span class="hidden-text"> best</span>
            </span>
          )}
        </span>
      )}
    </td>
  );
}

const WORDS: Record<FileChange, string> = {
  added: 'added',
  removed: 'removed',
  changed: 'changed',
  same: 'same',
  unknown: 'not known',
};

function Code({
  lines,
  isSame,
  more,
  runs,
  order,
  base,
  isAll,
}: {
  lines: readonly CodeLine[];
  isSame: boolean;
  more: boolean;
  runs: readonly Run[];
  order: readonly number[];
  base: number;
  isAll: boolean;
}) {
  if (!lines.length && !(isAll && isSame)) return null;
  const against = runs[base]!.id;
  return (
    <tbody data-section="code">
      <Title text="Code" span={order.length + 1} />
      {!lines.length && (
        <tr class="equal">
          <th scope="row" class="differences-name">
            All files
          </th>
          {order.map((index) => (
            <td key={index}>same</td>
          ))}
        </tr>
      )}
      {lines.map((line) => (
        <tr key={line.path}>
          <th scope="row" class="differences-name mono" title={shownName(line.path)}>
            {shownName(line.path)}
          </th>
          {order.map((index) => {
            const change = line.changes[index]!;
            if (index === base)
              return (
                <td key={index} class="faint">
                  {line.changes.includes('added') ? '–' : 'baseline'}
                </td>
              );
            if (change === 'same' || change === 'unknown')
              return (
                <td key={index} class="faint">
                  {WORDS[change]}
                </td>
              );
            return (
              <td key={index} class="other">
                <a href={runHref(runs[index]!.id, { tab: 'code', against, file: line.path })}>{WORDS[change]}</a>
              </td>
            );
          })}
        </tr>
      ))}
      {more && (
        <tr>
          <td colSpan={order.length + 1} class="soft">
            More files differ than are listed.
          </td>
        </tr>
      )}
    </tbody>
  );
}

interface CodeFound {
  lines: CodeLine[];
  isSame: boolean;
  more: boolean;
  isLoading: boolean;
}

/** The difference of each run's code to the baseline's; runs with the same snapshot share one request. */
function useCode(runs: readonly Run[], base: number): CodeFound {
  const [found, setFound] = useState<{ key: string; diffs: Map<string, SnapshotDiff> }>();
  const from = runs[base]?.snapshot_id ?? null;
  const others = [
    ...new Set(runs.map((run) => run.snapshot_id).filter((id): id is string => id !== null && id !== from)),
  ];
  const key = [from, ...others].join('\n');
  useLayoutEffect(() => {
    const abort = new AbortController();
    const diffs = new Map<string, SnapshotDiff>();
    const ask = async (id: string): Promise<void> => {
      try {
        diffs.set(id, await getJson<SnapshotDiff>(`/snapshots/${part(id)}/diff`, { with: from }, abort.signal));
      } catch {
        // A snapshot that is gone: its files are not known.
      }
    };
    void Promise.all(from === null ? [] : others.map(ask)).then(
      () => !abort.signal.aborted && setFound({ key, diffs }),
    );
    return () => abort.abort();
  }, [key]);
  const isLoading = found?.key !== key;
  const diffs = runs.map((run) =>
    run.snapshot_id === null || from === null
      ? undefined
      : run.snapshot_id === from
        ? 'same'
        : found?.diffs.get(run.snapshot_id),
  );
  const isSame = from !== null && runs.every((run) => run.snapshot_id === from);
  return {
    lines: isLoading ? [] : codeLines(diffs),
    isSame,
    isLoading,
    more: !isLoading && [...found.diffs.values()].some((diff) => diff.more),
  };
}
