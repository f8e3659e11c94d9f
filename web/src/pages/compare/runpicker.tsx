// The compared runs as chips, to remove one or make it the baseline, and a search box to add more.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { getJson, part } from '../../api/http';
import type { Run } from '../../api/types';
import { Fault, Loading, Status } from '../../parts/basics';
import { shortened } from '../../parts/fields/canvas';
import { shownName } from '../../parts/filetree/names';
import { Popover } from '../../parts/overlays';
import { useResource } from '../../lib/useResource';
import { MOST_COMPARED, runHref } from '../../lib/router';
import { idsIn } from './runs';

const FEW = 12; // with more, their states are in the table

export function Chosen({
  runs,
  names,
  rowColors,
  base,
  onBase,
  onRemove,
}: {
  runs: readonly Run[];
  names: readonly string[];
  rowColors: readonly string[];
  base: string;
  onBase: (id: string) => void;
  onRemove: (id: string) => void;
}) {
  return (
    <ul class="chosen" aria-label="Runs compared">
      {runs.map((run, index) => (
        <li key={run.id} class="chosen-run">
          <span class="chosen-dot" style={{ background: rowColors[index] }} aria-hidden="true" />
          <a class="cut" href={runHref(run.id)} title={`${names[index]} · ${run.id} · ${run.experiment}`}>
            {shortened(names[index]!, 28)}
          </a>
          {runs.length <= FEW && <Status status={run.status} />}
          <button
            type="button"
            class="chosen-base"
            aria-pressed={run.id === base}
            title="Compare the others with this one"
            onClick={() => onBase(run.id)}
          >
            baseline
          </button>
          <button
            type="button"
            class="tag-remove"
            aria-label={`Remove ${names[index]}`}
            onClick={() => onRemove(run.id)}
          >
            ×
          </button>
        </li>
      ))}
    </ul>
  );
}

interface AddProps {
  chosen: readonly string[];
  /** The workspace whose recent runs are offered. */
  from: string;
  onAdd: (ids: string[]) => void;
}

export function AddRuns(props: AddProps) {
  return <Popover label="Add runs">{(close) => <Finder {...props} close={close} />}</Popover>;
}

const SHOWN = 30;

function Finder({ chosen, from, onAdd, close }: AddProps & { close: () => void }) {
  const [text, setText] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const recent = useResource(
    (signal) =>
      getJson<{ runs: Run[] }>(`/workspaces/${part(from)}/runs`, { limit: 200, include_children: true }, signal),
    [from],
  );
  useLayoutEffect(() => input.current?.focus(), []);
  const room = MOST_COMPARED - chosen.length;
  if (room <= 0) return <p class="small soft finder">{MOST_COMPARED} runs are the most. Remove one first.</p>;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = (recent.value?.runs ?? []).filter((run) => {
    const known = `${run.id} ${run.display_name} ${run.experiment} ${run.status}`.toLowerCase();
    return !chosen.includes(run.id) && words.every((word) => known.includes(word));
  });
  const pasted = idsIn(text).filter((id) => !chosen.includes(id));
  const enter = (event: Event): void => {
    event.preventDefault();
    const [first] = found;
    if (first && words.length) onAdd([first.id]);
    else if (pasted.length) onAdd(pasted.slice(0, room));
    else return;
    close();
  };
  return (
    <form class="finder stack" onSubmit={enter}>
      <input
        ref={input}
        class="input"
        value={text}
        placeholder="Name, experiment, or paste ids"
        aria-label="Find runs by name, experiment or id"
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {recent.error && <Fault error={recent.error} again={recent.again} />}
      {recent.isLoading && !recent.value && <Loading />}
      <div class="finder-runs">
        {found.slice(0, SHOWN).map((run) => (
          <button key={run.id} type="button" class="menu-item" onClick={() => onAdd([run.id])}>
            <span class="cut grow" title={run.id}>
              {shortened(shownName(run.display_name || run.id), 34)}
            </span>
            <span class="faint cut finder-experiment">{run.experiment}</span>
            <Status status={run.status} />
          </button>
        ))}
      </div>
      {recent.value && !found.length && (
        <p class="small soft">
          {pasted.length
            ? `Press Enter to add ${pasted.slice(0, 3).join(', ')}${pasted.length > 3 ? '…' : ''}.`
            : text
              ? 'No recent run fits.'
              : 'There are no other recent runs.'}
        </p>
      )}
      {found.length > SHOWN && <p class="small faint">{found.length - SHOWN} more: type a part of their name.</p>}
    </form>
  );
}
