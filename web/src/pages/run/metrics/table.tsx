// Tables: logged rows, words, matrices. Only text is ever put into a cell.
import { useState } from 'preact/hooks';
import { number, plural } from '../../../lib/format';
import type { Column, Drawable } from './values';

const FIRST_ROWS = 100;
const MOST_CLASSES = 60;

/** Columns side by side, the first rows of them. */
export function ColumnTable({ columns, rowName = 'Row' }: { columns: readonly Column[]; rowName?: string }) {
  const [most, setMost] = useState(FIRST_ROWS);
  const count = Math.max(0, ...columns.map((column) => column.cells.length));
  const rows = Array.from({ length: Math.min(count, most) }, (_, at) => at);
  return (
    <>
      <div class="scroll-x metric-table">
        <table class="plain-table">
          <thead>
            <tr>
              <th class="number">{rowName}</th>
              {columns.map((column) => (
                <th key={column.name} class={isNumeric(column) ? 'number' : ''}>
                  {column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((at) => (
              <tr key={at}>
                <td class="number faint">{at}</td>
                {columns.map((column) => (
                  <td key={column.name} class={isNumeric(column) ? 'number' : ''}>
                    {cellText(column.cells[at])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {count > most && (
        <p class="row small soft">
          {plural(count - most, 'more row')}
          <button type="button" class="button small" onClick={() => setMost(most * 5)}>
            Show more
          </button>
        </p>
      )}
    </>
  );
}

const isNumeric = (column: Column): boolean =>
  column.cells.slice(0, FIRST_ROWS).every((cell) => typeof cell === 'number' || cell === null);

export function cellText(cell: unknown): string {
  if (cell === null || cell === undefined) return '';
  if (typeof cell === 'number') return number(cell);
  return typeof cell === 'string' ? cell : JSON.stringify(cell);
}

/** A logged JSON document as it is meant to be seen. */
export function Document({ drawable }: { drawable: Drawable }) {
  if (drawable.kind === 'matrix') return <Matrix {...drawable} />;
  if (drawable.kind === 'accuracy') return <Accuracy {...drawable} />;
  if (drawable.kind === 'json') return <pre class="metric-json small">{drawable.text.slice(0, 20_000)}</pre>;
  return (
    <div class="stack">
      {drawable.facts.length > 0 && (
        <dl class="metric-facts">
          {drawable.facts.map(([name, value]) => (
            <div key={name}>
              <dt class="soft small">{name}</dt>
              <dd class="number">{cellText(value)}</dd>
            </div>
          ))}
        </dl>
      )}
      <ColumnTable columns={drawable.columns} />
    </div>
  );
}

/** A confusion matrix as a heat map: rows are true classes, columns predicted ones. */
function Matrix({
  labels: allLabels,
  rows: allRows,
}: {
  labels: readonly string[];
  rows: readonly (readonly number[])[];
}) {
  const labels = allLabels.slice(0, MOST_CLASSES);
  const rows = allRows.slice(0, MOST_CLASSES).map((row) => row.slice(0, MOST_CLASSES));
  const most = rows.flat().reduce((one, other) => (other > one ? other : one), 1e-12);
  return (
    <div class="scroll-x">
      {allRows.length > rows.length && (
        <p class="small soft">
          The first {MOST_CLASSES} of {allRows.length} classes.
        </p>
      )}
      <table class="heat">
        <thead>
          <tr>
            <th scope="col" class="small soft">
              True \ predicted
            </th>
            {labels.map((label, at) => (
              <th key={at} scope="col" title={label}>
                <span class="cut">{label}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              <th scope="row" title={labels[at]}>
                <span class="cut">{labels[at]}</span>
              </th>
              {row.map((value, column) => (
                <td
                  key={column}
                  class="number"
                  title={`true ${labels[at]}, predicted ${labels[column] ?? column}: ${number(value)}`}
                  style={{ '--heat': `${Math.round((Math.max(0, value) / most) * 100)}%` }}
                  data-dark={value / most > 0.55}
                >
                  {number(value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Accuracy({
  labels,
  thresholds,
  tables,
}: {
  labels: readonly string[];
  thresholds: readonly number[];
  tables: readonly (readonly (readonly number[])[])[];
}) {
  const [chosen, setChosen] = useState(0);
  const rows = tables[chosen] ?? [];
  const column = (name: string, place: number): Column => ({ name, cells: rows.map((row) => row[place]) });
  return (
    <div class="stack">
      <label class="row small">
        Class
        <select class="input" value={chosen} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
          {labels.map((label, at) => (
            <option key={at} value={at}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <ColumnTable
        columns={[
          { name: 'Threshold', cells: thresholds },
          column('True positives', 0),
          column('False positives', 1),
          column('True negatives', 2),
          column('False negatives', 3),
        ]}
      />
    </div>
  );
}
