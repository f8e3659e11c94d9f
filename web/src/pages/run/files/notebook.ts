// A Jupyter notebook as cells to draw; whatever its file holds. Pure.

export type Output = { kind: 'text' | 'error' | 'html'; text: string } | { kind: 'image'; type: string; data: string };
export interface Cell {
  kind: 'markdown' | 'code' | 'raw';
  text: string;
  count: string;
  outputs: Output[];
}
export interface Notebook {
  language: string;
  cells: Cell[];
}

type Loose = Record<string, unknown>;
const isObject = (value: unknown): value is Loose =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const list = (value: unknown): Loose[] => (Array.isArray(value) ? value.filter(isObject) : []);
/** Notebooks keep texts as lists of lines too. */
const joined = (value: unknown): string =>
  Array.isArray(value) ? value.map(String).join('') : typeof value === 'string' ? value : '';
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const ANSI = /\u001b\[[0-9;]*[A-Za-z]/g;

/** Return the cells; null when it is no notebook. */
export function notebookOf(text: string): Notebook | null {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isObject(found)) return null;
  const sheets = list(found.worksheets);
  const cells = found.cells ?? sheets[0]?.cells;
  if (!Array.isArray(cells)) return null;
  const metadata = isObject(found.metadata) ? found.metadata : {};
  const info = isObject(metadata.language_info) ? metadata.language_info : {};
  return { language: typeof info.name === 'string' ? info.name : 'python', cells: list(cells).map(cellOf) };
}

function cellOf(cell: Loose): Cell {
  const kind = cell.cell_type === 'markdown' || cell.cell_type === 'code' ? cell.cell_type : 'raw';
  return {
    kind,
    text: joined(cell.source ?? cell.input),
    count: typeof cell.execution_count === 'number' ? String(cell.execution_count) : '',
    outputs: list(cell.outputs).flatMap(outputOf),
  };
}

function outputOf(output: Loose): Output[] {
  if (output.output_type === 'stream') return [{ kind: 'text', text: joined(output.text).replace(ANSI, '') }];
  if (output.output_type === 'error') {
    const trace = joined(Array.isArray(output.traceback) ? output.traceback.map((line) => `${String(line)}\n`) : '');
    return [{ kind: 'error', text: trace.replace(ANSI, '') || `${String(output.ename)}: ${String(output.evalue)}` }];
  }
  const data = isObject(output.data) ? output.data : {};
  for (const type of IMAGES) {
    const image = joined(data[type]).replace(/\s/g, '');
    if (image && /^[A-Za-z0-9+/]+=*$/.test(image)) return [{ kind: 'image', type, data: image }];
  }
  const plain = joined(data['text/plain']);
  const html = joined(data['text/html']);
  const svg = joined(data['image/svg+xml']);
  if (svg) return [{ kind: 'image', type: 'image/svg+xml', data: svg }];
  if (plain) return [{ kind: 'text', text: plain }];
  return html ? [{ kind: 'html', text: html }] : [];
}

/** The address of an image for `<img>`: as data, so that it has no origin of ours wherever it is opened. */
export const imageHref = (type: string, data: string): string =>
  type === 'image/svg+xml' ? `data:image/svg+xml,${encodeURIComponent(data)}` : `data:${type};base64,${data}`;
