// Experiments: how their runs stand, and putting them away.
import { useState } from 'preact/hooks';
import { getJson, namePart, part, sendJson } from '../../api/http';
import { useWorkspaceWatch } from '../../api/live';
import type { Experiment } from '../../api/types';
import { useTitle } from '../../lib/browser';
import { number, plural } from '../../lib/format';
import { Empty, Fault, Loading, Status, statusWord, When } from '../../parts/basics';
import { attempt, note } from '../../parts/overlays';
import { useResource } from '../../lib/useResource';
import { href, query, runHref, setQuery, workspace } from '../../lib/router';
import { linesOf, type Line, type Tally } from './tally';
import './experiments.css';

const VIEWS = { active: 'ActiveOnly', archived: 'ArchivedOnly', all: 'All', deleted: 'DeletedOnly' } as const;
const WORDS = { active: 'Active', archived: 'Archived', all: 'All', deleted: 'Deleted' } as const;
type View = keyof typeof VIEWS;

export default function Page() {
  const here = workspace.value;
  const asked = query.value.get('view') ?? '';
  const view = (asked in VIEWS ? asked : 'active') as View;
  const [search, setSearch] = useState('');
  useTitle('Experiments');
  const found = useResource((signal) => read(here, view, signal), [here, view]);
  useWorkspaceWatch(here, found.again, 3000);
  const shown = (found.value ?? []).filter((line) =>
    `${line.experiment.title ?? ''}\n${line.experiment.name}`.toLowerCase().includes(search.trim().toLowerCase()),
  );
  return (
    <div class="page">
      <div class="page-head">
        <h1>Experiments</h1>
        {found.value && <span class="soft number">{number(found.value.length)}</span>}
        <span class="grow" />
        <input
          class="input"
          type="search"
          aria-label="Search experiments"
          placeholder="Search"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <select
          class="input"
          aria-label="Which experiments"
          value={view}
          onChange={(event) =>
            setQuery({ view: event.currentTarget.value === 'active' ? null : event.currentTarget.value })
          }
        >
          {(Object.keys(VIEWS) as View[]).map((one) => (
            <option key={one} value={one}>
              {WORDS[one]}
            </option>
          ))}
        </select>
      </div>
      {found.error && <Fault error={found.error} again={found.again} />}
      {!found.value && !found.error && <Loading what="Reading the experiments" />}
      {found.value && !found.value.length && <Nothing view={view} />}
      {found.value && found.value.length > 0 && !shown.length && (
        <Empty title="No experiment is called so">Nothing here holds “{search}”.</Empty>
      )}
      {shown.length > 0 && (
        <div class="card scroll-x">
          <table class="plain-table ex-table">
            <thead>
              <tr>
                <th>Experiment</th>
                <th class="number">Runs</th>
                <th>Status</th>
                <th>Last run</th>
                <th>Created</th>
                <th aria-label="Actions" />
              </tr>
            </thead>
            <tbody>
              {shown.map((line) => (
                <ExperimentLine key={line.experiment.id} line={line} view={view} again={found.again} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

async function read(here: string, view: View, signal: AbortSignal): Promise<Line[]> {
  const root = `/workspaces/${part(here)}`;
  const [experiments, tallies] = await Promise.all([
    getJson<Experiment[]>(`${root}/experiments`, { view: VIEWS[view] }, signal),
    getJson<Tally[]>(`${root}/tally`, { view: view === 'deleted' ? 'deleted' : 'all' }, signal),
  ]);
  return linesOf(experiments, tallies);
}

function ExperimentLine({ line, view, again }: { line: Line; view: View; again: () => void }) {
  const { experiment, last } = line;
  const runs = href('/runs', { experiment: experiment.name, view: view === 'deleted' ? 'deleted' : null });
  return (
    <tr>
      <td class="ex-name">
        <a href={runs}>{experiment.title ?? experiment.name}</a>
        {experiment.title && <span class="small soft cut">{experiment.name}</span>}
        {experiment.archived_at && view === 'all' && <span class="tag">archived</span>}
      </td>
      <td class="number">{number(line.total)}</td>
      <td>
        <Bar line={line} />
      </td>
      <td>
        {last ? (
          <span class="row ex-last">
            <Status status={last.status} />
            <a href={runHref(last.id)}>
              <When time={last.created_at} />
            </a>
          </span>
        ) : (
          <span class="faint">none yet</span>
        )}
      </td>
      <td class="soft">
        <When time={experiment.created_at} />
      </td>
      <td class="ex-actions">
        <Actions line={line} view={view} again={again} />
      </td>
    </tr>
  );
}

function Bar({ line }: { line: Line }) {
  if (!line.total) return null;
  const words = line.parts.map((one) => `${number(one.count)} ${statusWord(one.status).toLowerCase()}`).join(', ');
  return (
    <span class="ex-stand" title={words}>
      <span class="ex-bar" role="img" aria-label={words}>
        {line.parts.map((one) => (
          <span key={one.status} class={`ex-part ${one.kind}`} style={{ flexGrow: one.count }} />
        ))}
      </span>
      <span class="small soft cut">
        {line.parts.map((one) => `${number(one.count)} ${statusWord(one.status).toLowerCase()}`).join(' · ')}
      </span>
    </span>
  );
}

function Actions({ line, view, again }: { line: Line; view: View; again: () => void }) {
  const { experiment, total } = line;
  const place = `/workspaces/${part(experiment.workspace)}/experiments/${namePart(experiment.name)}`;
  const shelve = (archived: boolean): Promise<boolean> =>
    attempt(async () => {
      await sendJson('PATCH', place, { archived });
      note(`Experiment ${experiment.name} is ${archived ? 'archived' : 'active again'}.`, {
        action: { label: 'Undo', run: () => shelve(!archived) },
      });
      again();
    });
  const restore = (): Promise<boolean> =>
    attempt(async () => {
      await sendJson('POST', `${place}/restore`);
      note(`Experiment ${experiment.name} is back.`);
      again();
    });
  const remove = (): Promise<boolean> =>
    attempt(async () => {
      await sendJson('DELETE', place);
      note(`Experiment ${experiment.name}${total ? ` and ${plural(total, 'run')}` : ''} deleted.`, {
        action: { label: 'Undo', run: restore },
      });
      again();
    });
  if (view === 'deleted')
    return (
      <button type="button" class="button small" onClick={() => void restore()}>
        Restore
      </button>
    );
  return (
    <>
      <button type="button" class="button small quiet" onClick={() => void shelve(!experiment.archived_at)}>
        {experiment.archived_at ? 'Unarchive' : 'Archive'}
      </button>
      <button
        type="button"
        class="button small quiet danger"
        aria-label={`Delete ${experiment.name}`}
        onClick={() => void remove()}
      >
        Delete
      </button>
    </>
  );
}

function Nothing({ view }: { view: View }) {
  if (view === 'archived')
    return (
      <Empty title="No archived experiments">
        Archived experiments leave the list; their runs keep everything they have.
      </Empty>
    );
  if (view === 'deleted')
    return <Empty title="Nothing to restore">Deleted experiments stay here until their time is over.</Empty>;
  return (
    <Empty title="No experiments yet" command="runyard submit --name first train.py">
      An experiment is made by the first run that names it.
    </Empty>
  );
}
