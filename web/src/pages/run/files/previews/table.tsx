import { useMemo } from 'preact/hooks';
import { number } from '../../../../lib/format';
import { isNumeric, separatorOf, tableOf } from '../csv';

const MOST_ROWS = 1_000;
const MOST_COLUMNS = 100;

export function TableView({ text, name, isWhole }: { text: string; name: string; isWhole: boolean }) {
  const table = useMemo(() => tableOf(text, separatorOf(text, name), MOST_ROWS, isWhole), [text, name, isWhole]);
  const head = table.head.slice(0, MOST_COLUMNS);
  const kinds = head.map((_, column) => (isNumeric(table.rows, column) ? 'number' : undefined));
  const notes = [
    table.isCut ? `The first ${number(table.rows.length)} rows.` : '',
    table.head.length > MOST_COLUMNS ? `The first ${MOST_COLUMNS} of ${number(table.head.length)} columns.` : '',
  ].filter(Boolean);
  return (
    <>
      {notes.length > 0 && <p class="soft small shown-note">{notes.join(' ')} Download the file for the rest.</p>}
      <div class="table-view" tabIndex={0} role="region" aria-label="Table">
        <table class="plain-table">
          <thead>
            <tr>
              <th class="number faint">#</th>
              {head.map((cell, column) => (
                <th key={column} class={kinds[column]} title={cell}>
                  {cell}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row, at) => (
              <tr key={at}>
                <td class="number faint">{at + 1}</td>
                {head.map((_, column) => (
                  <td key={column} class={kinds[column]}>
                    {row[column] ?? ''}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
