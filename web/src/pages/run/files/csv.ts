// Tables of text: CSV and TSV as rows of cells. Pure.

export interface Table {
  head: string[];
  rows: string[][];
  /** There are more rows than these. */
  isCut: boolean;
}

/** The separator that the first line has most of. */
export function separatorOf(text: string, name: string): string {
  if (/\.tsv$/i.test(name)) return '\t';
  const line = text.slice(0, text.search(/[\r\n]|$/));
  const count = (char: string): number => line.split(char).length;
  return [',', ';', '\t', '|'].reduce((best, char) => (count(char) > count(best) ? char : best));
}

/** Return the first line as the head and at most `most` rows after it. Quotes may hold separators, line ends and `""`. */
export function tableOf(text: string, separator: string, most: number, isWhole = true): Table {
  const rows: string[][] = [];
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  let isLast = false;
  while (at < text.length && rows.length <= most) {
    const row: string[] = [];
    for (;;) {
      const [cell, end] = cellAt(text, at, separator);
      row.push(cell);
      at = end;
      if (text[at] !== separator) break;
      at++;
    }
    isLast = at >= text.length;
    at += text.startsWith('\r\n', at) ? 2 : 1;
    if (row.length > 1 || row[0] !== '') rows.push(row);
  }
  if (!isWhole && isLast && rows.length > 1) rows.pop(); // its end was cut off
  const [head = [], ...rest] = rows;
  return { head, rows: rest, isCut: at < text.length || !isWhole };
}

function cellAt(text: string, from: number, separator: string): [string, number] {
  if (text[from] !== '"') return tail(text, from, separator, '');
  let cell = '';
  let at = from + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return [cell + text.slice(at), text.length];
    cell += text.slice(at, quote);
    if (text[quote + 1] !== '"') return tail(text, quote + 1, separator, cell);
    cell += '"';
    at = quote + 2;
  }
}

/** Text between a closing quote and the separator belongs to the cell, as in spreadsheets. */
function tail(text: string, from: number, separator: string, cell: string): [string, number] {
  let end = from;
  while (end < text.length && text[end] !== separator && text[end] !== '\n' && text[end] !== '\r') end++;
  return [cell + text.slice(from, end), end];
}

/** Whether a column holds numbers, so that it is set right. */
export const isNumeric = (rows: readonly (readonly string[])[], column: number): boolean => {
  const cells = rows
    .slice(0, 50)
    .map((row) => (row[column] ?? '').trim())
    .filter(Boolean);
  return (
    cells.length > 0 &&
    cells.every((cell) => /^[+-]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:e[+-]?\d+)?%?$|^[+-]?(?:nan|inf)$/i.test(cell))
  );
};
