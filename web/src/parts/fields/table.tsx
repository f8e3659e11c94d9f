// The values of a plot as a table: for screen readers, and for exact figures.
import { useState } from 'preact/hooks';
import { number } from '../../lib/format';
import { runHref } from '../../lib/router';
import { compareValues, isNumeric, type Field, type Row, type Value } from './values';
import './fields.css';

const MOST = 1000;

export const shown = (value: Value): string => (typeof value === 'number' ? number(value) : (value ?? '–'));

/** Closed at first. `kept`: the rows to list; all by default. */
export function AsTable({
  rows,
  fields,
  kept,
}: {
  rows: readonly Row[];
  fields: readonly Field[];
  kept?: readonly boolean[];
}) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="as-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="small soft">Show as a table</summary>
      {isOpen && <FieldTable rows={rows} fields={fields} kept={kept} />}
    </details>
  );
}

function FieldTable({
  rows,
  fields,
  kept,
}: {
  rows: readonly Row[];
  fields: readonly Field[];
  kept: readonly boolean[] | undefined;
}) {
  const [order, setOrder] = useState<{ id: string; isDown: boolean }>();
  const by = fields.find((field) => field.id === order?.id);
  const listed = rows.map((_, index) => index).filter((index) => kept?.[index] ?? true);
  if (by)
    listed.sort(
      (a, b) =>
        compareValues(by.values[a] ?? null, by.values[b] ?? null) *
        (order?.isDown && by.values[a] !== null && by.values[b] !== null ? -1 : 1),
    );
  return (
    <div class="scroll-x card">
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">Run</th>
            {fields.map((field) => (
              <SortHead
                key={field.id}
                label={field.label}
                isNumber={isNumeric(field.values)}
                isDown={order?.id === field.id ? order.isDown : undefined}
                onSort={(isDown) => setOrder({ id: field.id, isDown })}
              />
            ))}
          </tr>
        </thead>
        <tbody>
          {listed.slice(0, MOST).map((index) => (
            <tr key={rows[index]!.id}>
              <td>
                <a href={runHref(rows[index]!.id)}>{rows[index]!.label}</a>
              </td>
              {fields.map((field) => (
                <td key={field.id} class={typeof field.values[index] === 'number' ? 'number' : undefined}>
                  {shown(field.values[index] ?? null)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The head of a column by whose button the table is sorted; `isDown` undefined: it is not sorted by this one. */
export function SortHead({
  label,
  title,
  isDown,
  isNumber,
  onSort,
}: {
  label: string;
  title?: string;
  isDown: boolean | undefined;
  isNumber?: boolean;
  onSort: (isDown: boolean) => void;
}) {
  return (
    <th
      scope="col"
      class={isNumber ? 'number' : undefined}
      aria-sort={isDown === undefined ? undefined : isDown ? 'descending' : 'ascending'}
    >
      <button type="button" class="sort" title={title ?? label} onClick={() => onSort(isDown === false)}>
        <span class="cut">{label}</span>
        <span class="sort-mark" aria-hidden="true">
          {isDown === undefined ? '' : isDown ? '↓' : '↑'}
        </span>
      </button>
    </th>
  );
}
