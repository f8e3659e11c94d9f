// The table of runs: filter, sort, group, pick columns, act on many.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { getJson, part } from '../../api/http';
import { useWorkspaceWatch } from '../../api/live';
import type { Experiment } from '../../api/types';
import { useTitle } from '../../lib/browser';
import { number } from '../../lib/format';
import { useKeys } from '../../lib/keys';
import { Empty, Fault, Tag } from '../../parts/basics';
import { attempt, note } from '../../parts/overlays';
import { useResource } from '../../lib/useResource';
import { query, setQuery, workspace } from '../../lib/router';
import { SelectionBar } from './actions';
import { asked, columnsOf, suggested, USUAL, type Row } from './fields';
import { FilterBox } from './filter';
import { Grid } from './grid';
import { Model } from './model';
import { ColumnPicker, GroupPicker, type Known } from './pickers';
import { groupSegments, lineCount, plainSegments, windowsBetween, type Group } from './segments';
import { columnsQuery, filtersOf, nextSort, viewOf, VIEWS, type View } from './view';
import './runs.css';

const MOST_SELECTED = 1000;
const STEP = 500;
const NOTHING: { columns: Known[]; of_runs: number } = { columns: [], of_runs: 0 };
const WORDS: Record<string, string> = { active: 'Active', archived: 'Archived', all: 'All', deleted: 'Deleted' };

export default function Page() {
  const here = workspace.value;
  const view = viewOf(query.value);
  const root = `/workspaces/${part(here)}`;
  useTitle(view.experiment || 'Runs');

  // Runs first: their common columns are requested once the runs are visible.
  const [isShown, setShown] = useState(false);
  const known =
    useResource(
      async (signal) =>
        isShown ? getJson<typeof NOTHING>(`${root}/columns`, { experiment: view.experiment }, signal) : NOTHING,
      [here, view.experiment, isShown],
    ).value ?? NOTHING;
  const experiments =
    useResource(
      async (signal) => (isShown ? getJson<Experiment[]>(`${root}/experiments`, {}, signal) : []),
      [here, isShown],
    ).value ?? [];
  const usual = [
    ...USUAL.filter((field) => field !== 'experiment' || !view.experiment),
    ...suggested(known.columns, known.of_runs),
  ];
  const fields = view.columns ?? usual;
  const columns = useMemo(() => columnsOf(fields), [fields.join('\n')]);
  const { model, before } = useModel(here, view, asked(columns));
  const groups = useResource(
    async (signal) =>
      view.group
        ? getJson<{ groups: Group[]; total: number }>(`${root}/groups`, { ...filtersOf(view), by: view.group }, signal)
        : undefined,
    [here, view.group, JSON.stringify(filtersOf(view))],
  );
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const anchor = useRef(-1);
  useLayoutEffect(() => select(new Set()), [here, view.experiment, view.filter, view.view, view.children]);

  const again = (): void => {
    model.refresh();
    if (view.group) groups.again();
  };
  const latest = useRef(again); // a note's Undo may be clicked when the table is another
  latest.current = again;
  useWorkspaceWatch(here, again, 2000);
  useKeys({ Escape: () => document.querySelector('.popover-panel') || select(new Set()) });

  void model.version.value;
  const total = model.total() ?? before?.total();
  const grouped = groups.value && groupSegments(groups.value.groups, view.open, (key) => model.total(key));
  const segments = view.group ? grouped : total === undefined ? undefined : plainSegments(total);
  useEffect(() => {
    if (segments) setShown(true);
  }, [segments !== undefined]);
  const count = view.group ? groups.value?.groups.reduce((sum, one) => sum + one.count, 0) : total;
  const fault = model.fault.value ?? (view.group ? groups.error : undefined);
  const isRefused = fault !== undefined && fault.status === 400 && view.filter !== '';

  const pick = (line: number, row: Row, isRange: boolean): void => {
    if (isRange && anchor.current >= 0 && segments) {
      void attempt(async () => {
        const ids = await idsBetween(model, segments, Math.min(anchor.current, line), Math.max(anchor.current, line));
        select((old) => new Set([...old, ...ids]));
      });
      return;
    }
    anchor.current = line;
    select((old) => {
      const next = new Set(old);
      if (!next.delete(row.id)) next.add(row.id);
      return next;
    });
  };
  const pickAll = (): void => {
    if (selected.size) {
      select(new Set());
      return;
    }
    void attempt(async () => {
      const ids: string[] = [];
      let all = 0;
      do {
        const found = await model.read('', ids.length, STEP);
        all = found.total;
        ids.push(...found.rows.map((row) => row.id));
        if (!found.rows.length) break;
      } while (ids.length < Math.min(all, MOST_SELECTED));
      select(new Set(ids));
      if (all > ids.length)
        note(`The first ${number(ids.length)} of ${number(all)} runs are selected; that is the most at once.`);
    });
  };
  const toggle = (group: Group): void =>
    setQuery({
      open: view.open.includes(group.filter)
        ? view.open.filter((one) => one !== group.filter)
        : [...view.open, group.filter],
    });

  return (
    <div class="page rt-page">
      <div class="page-head rt-head-line">
        <h1>Runs</h1>
        {count !== undefined && <span class="soft number rt-total">{number(count)}</span>}
        {view.experiment && (
          <Tag name="experiment" value={view.experiment} onRemove={() => setQuery({ experiment: null, open: null })} />
        )}
      </div>
      <div class="rt-tools">
        <FilterBox
          filter={view.filter}
          known={{ columns: known.columns, experiments: experiments.map((one) => one.name) }}
          error={isRefused ? fault : undefined}
          onApply={(filter) =>
            filter === view.filter ? again() : setQuery({ filter, open: null }, { replace: false })
          }
        />
        <div class="row">
          <label class="rt-flag" title="Show runs that other runs started, too">
            <input
              type="checkbox"
              checked={view.children}
              onChange={(event) => setQuery({ children: event.currentTarget.checked ? 'true' : null })}
            />{' '}
            Children
          </label>
          <select
            class="input"
            aria-label="Which runs"
            value={view.view}
            onChange={(event) =>
              setQuery({ view: event.currentTarget.value === 'active' ? null : event.currentTarget.value })
            }
          >
            {VIEWS.map((one) => (
              <option key={one} value={one}>
                {WORDS[one]}
              </option>
            ))}
          </select>
          <GroupPicker known={known.columns} group={view.group} onChange={(group) => setQuery({ group, open: null })} />
          <ColumnPicker known={known.columns} shown={fields} onChange={(next) => setQuery(columnsQuery(next))} />
        </div>
      </div>
      {fault && !isRefused && <Fault error={fault} again={again} />}
      {count === 0 && !fault && <NoRuns view={view} />}
      {count !== 0 && (!fault || segments) && (
        <Grid
          key={JSON.stringify([here, filtersOf(view), view.sort, view.descending, view.group])}
          model={model}
          before={before}
          segments={segments}
          columns={columns}
          groupLabel={view.group}
          open={view.open}
          selected={selected}
          onSort={(field) => setQuery(nextSort(view, field))}
          onSelect={pick}
          onSelectAll={pickAll}
          onToggle={toggle}
        />
      )}
      {groups.value && groups.value.total > groups.value.groups.length && (
        <p class="small soft">
          The first {number(groups.value.groups.length)} of {number(groups.value.total)} groups are shown. Filter the
          runs to see others.
        </p>
      )}
      {selected.size > 0 && (
        <SelectionBar
          ids={[...selected]}
          view={view.view}
          onClear={() => select(new Set())}
          onDone={() => {
            select(new Set());
            latest.current();
          }}
          onUndone={() => latest.current()} // not what was selected meanwhile
        />
      )}
    </div>
  );
}

/** The rows of the view, and of the view before while only its columns were others. */
function useModel(here: string, view: View, fields: readonly string[]): { model: Model; before: Model | undefined } {
  const order = JSON.stringify([here, filtersOf(view), view.sort, view.descending, view.group]);
  const kept = useRef<{ order: string; fields: string; model: Model; before: Model | undefined }>(undefined);
  const asked = fields.join('\n');
  const now = kept.current;
  if (!now || now.order !== order || now.fields !== asked) {
    now?.before?.close();
    now?.model.close();
    kept.current = {
      order,
      fields: asked,
      model: new Model(here, view, fields),
      before: now?.order === order ? now.model : undefined,
    };
  }
  useEffect(() => () => kept.current?.model.close(), []);
  return kept.current as { model: Model; before: Model | undefined };
}

async function idsBetween(
  model: Model,
  segments: NonNullable<ReturnType<typeof plainSegments>>,
  first: number,
  last: number,
): Promise<string[]> {
  const end = Math.min(last, lineCount(segments) - 1);
  const ids: string[] = [];
  for (const { key, from, to } of windowsBetween(segments, first, end)) {
    for (let at = from; at < to && ids.length < MOST_SELECTED; at += STEP) {
      const found = await model.read(key, at, Math.min(STEP, to - at, MOST_SELECTED - ids.length));
      ids.push(...found.rows.map((row) => row.id));
    }
  }
  return ids;
}

function NoRuns({ view }: { view: View }) {
  if (view.filter) {
    return (
      <Empty title="No run fits the filter">
        <button type="button" class="button" onClick={() => setQuery({ filter: null })}>
          Clear the filter
        </button>
      </Empty>
    );
  }
  if (view.view === 'archived')
    return (
      <Empty title="No archived runs" command="runyard runs archive RUN">
        Archived runs leave the list and keep everything they have.
      </Empty>
    );
  if (view.view === 'deleted')
    return <Empty title="Nothing to restore">Deleted runs stay here until their time is over.</Empty>;
  if (view.experiment)
    return <Empty title="No runs in this experiment" command={`runyard submit --name ${view.experiment} train.py`} />;
  return (
    <Empty title="No runs yet" command="runyard submit train.py">
      Submit a script, and its run appears here.
    </Empty>
  );
}
