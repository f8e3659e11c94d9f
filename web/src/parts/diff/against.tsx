// Choose another run to set against this one: a recent one of the experiment, or any by its id.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { getJson, part } from '../../api/http';
import type { Run } from '../../api/types';
import { ago } from '../../lib/format';
import { useResource } from '../../lib/useResource';
import { runHref, setQuery } from '../../lib/router';
import { shownName } from '../filetree/names';
import { Fault } from '../basics';
import { MenuItem, Popover } from '../overlays';
import './against.css';

export const nameOf = (run: Run): string => shownName(run.display_name || run.id);

/** The bar above a comparison. The other run is in the address as `against`. */
export function Against({ run, against, tab }: { run: Run; against: string; tab: string }) {
  return (
    <div class="row against">
      {against ? (
        <>
          <span class="soft">Compared with</span>
          <a class="cut against-name" href={runHref(against, { tab })} title={shownName(against)}>
            {shownName(against)}
          </a>
          <Picker run={run} label="Another run" />
          <button type="button" class="button small quiet" onClick={() => setQuery({ against: null })}>
            Stop comparing
          </button>
        </>
      ) : (
        <Picker run={run} label="Compare with another run" />
      )}
    </div>
  );
}

function Picker({ run, label }: { run: Run; label: string }) {
  return (
    <Popover label={label} align="right">
      {(close) => (
        <Choices
          run={run}
          pick={(id) => {
            close();
            setQuery({ against: id, file: null, line: null }, {});
          }}
        />
      )}
    </Popover>
  );
}

function Choices({ run, pick }: { run: Run; pick: (id: string) => void }) {
  const [typed, setTyped] = useState('');
  const recent = useResource(
    (signal) =>
      getJson<{ runs: Run[] }>(
        `/workspaces/${part(run.workspace)}/runs`,
        { experiment: run.experiment, limit: 30, include_children: true },
        signal,
      ),
    [run.workspace, run.experiment],
  );
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), []);
  const words = typed.trim().toLowerCase();
  const others = (recent.value?.runs ?? []).filter(
    (one) => one.id !== run.id && `${one.id} ${one.display_name}`.toLowerCase().includes(words),
  );
  return (
    <form
      class="stack against-choices"
      onSubmit={(event) => {
        event.preventDefault();
        if (typed.trim()) pick(typed.trim());
      }}
    >
      <input
        class="input"
        placeholder="Filter, or paste a run's id"
        aria-label="Filter, or paste a run's id"
        ref={input}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      {recent.error && <Fault error={recent.error} />}
      <div>
        {others.map((one) => (
          <MenuItem key={one.id} onPick={() => pick(one.id)}>
            <span class="against-choice">
              <span class="cut grow">{nameOf(one)}</span>
              <span class="faint small">
                {one.status}, {ago(one.created_at)}
              </span>
            </span>
          </MenuItem>
        ))}
        {recent.value && others.length === 0 && (
          <p class="soft small">
            {typed.trim()
              ? 'Press Enter to compare with the run of this id.'
              : 'This experiment has no other run. Paste the id of any run.'}
          </p>
        )}
      </div>
    </form>
  );
}
