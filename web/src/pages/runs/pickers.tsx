// Which columns are shown, and what the runs are grouped by.
import { useState } from 'preact/hooks';
import { number } from '../../lib/format';
import { Popover } from '../../parts/overlays';
import { BUILT_IN, isColumn, kindOf, keyOf } from './fields';

export interface Known {
  field: string;
  key: string;
  runs: number;
}

const MOST = 200;
const titleOf = (field: string): string => BUILT_IN[field]?.[0] ?? keyOf(field);
const fits = (field: string, search: string): boolean => field.toLowerCase().includes(search.trim().toLowerCase());

/** The columns to choose from: those of every run, and those found in these runs. */
function choices(
  known: readonly Known[],
  chosen: readonly string[],
  search: string,
): { field: string; runs?: number }[] {
  const found = known.map((one) => ({ field: `${one.field}.${one.key}`, runs: one.runs }));
  const all = [...Object.keys(BUILT_IN).map((field) => ({ field })), ...found];
  const unknown = chosen.filter((field) => !all.some((one) => one.field === field)).map((field) => ({ field }));
  const wanted = [...unknown, ...all].filter((one) => fits(one.field, search));
  const typed = search.trim();
  if (isColumn(typed) && !wanted.some((one) => one.field === typed)) wanted.unshift({ field: typed });
  return wanted.slice(0, MOST);
}

export function ColumnPicker({
  known,
  shown,
  onChange,
}: {
  known: readonly Known[];
  shown: readonly string[];
  onChange: (fields: readonly string[]) => void;
}) {
  const toggle = (field: string): void =>
    onChange(shown.includes(field) ? shown.filter((one) => one !== field) : [...shown, field]);
  return (
    <Popover label="Columns" title="Choose columns" align="right">
      {() => <Picker known={known} chosen={shown} kind="checkbox" onPick={toggle} />}
    </Popover>
  );
}

export function GroupPicker({
  known,
  group,
  onChange,
}: {
  known: readonly Known[];
  group: string;
  onChange: (field: string) => void;
}) {
  return (
    <Popover
      label={group ? <span class="cut rt-grouped">Group: {titleOf(group)}</span> : 'Group'}
      title={group ? `Group: ${titleOf(group)}. Group runs by a field` : 'Group runs by a field'}
      align="right"
    >
      {(close) => (
        <Picker
          known={known.filter((one) => one.field !== 'metrics')}
          chosen={group ? [group] : []}
          kind="radio"
          without={['created', 'duration', 'number']}
          onPick={(field) => {
            onChange(field === group ? '' : field);
            close();
          }}
        />
      )}
    </Popover>
  );
}

function Picker({
  known,
  chosen,
  kind,
  without = [],
  onPick,
}: {
  known: readonly Known[];
  chosen: readonly string[];
  kind: 'checkbox' | 'radio';
  without?: readonly string[];
  onPick: (field: string) => void;
}) {
  const [search, setSearch] = useState('');
  const found = choices(known, chosen, search).filter((one) => !without.includes(one.field));
  return (
    <div class="stack rt-picker">
      <input
        class="input"
        type="search"
        aria-label="Search"
        placeholder="Search, or type metrics.<name>"
        value={search}
        ref={(box) => {
          if (box && !search) box.focus();
        }}
        onInput={(event) => setSearch(event.currentTarget.value)}
      />
      <div class="rt-picks" role="group">
        {found.map(({ field, runs }) => (
          <label key={field} class="rt-pick">
            <input type="checkbox" class={kind} checked={chosen.includes(field)} onChange={() => onPick(field)} />
            <span class="cut grow" title={field}>
              {titleOf(field)}
            </span>
            <span class="faint small">
              {kindOf(field)}
              {runs === undefined ? '' : ` · ${number(runs)}`}
            </span>
          </label>
        ))}
        {!found.length && (
          <p class="soft small">
            Nothing is called so. Type <code>params.{search || 'name'}</code> to show it anyway.
          </p>
        )}
      </div>
    </div>
  );
}
