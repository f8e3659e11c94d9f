import { expect, it } from 'vitest';
import { imageHref, notebookOf } from './notebook';

const notebook = {
  metadata: { language_info: { name: 'python' } },
  cells: [
    { cell_type: 'markdown', source: ['# Hi\n', 'there'] },
    {
      cell_type: 'code',
      execution_count: 3,
      source: 'x = 1',
      outputs: [
        { output_type: 'stream', text: ['\u001b[31mred\u001b[0m\n'] },
        { output_type: 'display_data', data: { 'image/png': 'iVBO\nRw==', 'text/plain': '<Figure>' } },
        { output_type: 'execute_result', data: { 'text/html': '<script>x</script>', 'text/plain': ['1'] } },
        { output_type: 'display_data', data: { 'text/html': '<b>only</b>' } },
        { output_type: 'error', traceback: ['\u001b[0;31mValueError\u001b[0m: no'] },
        { output_type: 'display_data', data: { 'image/png': '"><script>' } },
      ],
    },
    { cell_type: 'strange', source: 'raw' },
  ],
};

it('reads cells and outputs, and takes nothing for an image that is none', () => {
  const found = notebookOf(JSON.stringify(notebook));
  expect(found?.cells.map((cell) => [cell.kind, cell.text, cell.count])).toEqual([
    ['markdown', '# Hi\nthere', ''],
    ['code', 'x = 1', '3'],
    ['raw', 'raw', ''],
  ]);
  expect(found?.cells[1]?.outputs).toEqual([
    { kind: 'text', text: 'red\n' },
    { kind: 'image', type: 'image/png', data: 'iVBORw==' },
    { kind: 'text', text: '1' },
    { kind: 'html', text: '<b>only</b>' },
    { kind: 'error', text: 'ValueError: no\n' },
  ]);
});

it.each(['', '[]', '{}', '{"cells": 3}', 'null', '{"cells'])('%s is no notebook', (text) =>
  expect(notebookOf(text)).toBeNull(),
);

it('survives cells that are anything', () => {
  expect(
    notebookOf('{"cells": [1, null, {"cell_type": "code", "outputs": [3, {"data": 5}], "source": 7}]}')?.cells,
  ).toEqual([{ kind: 'code', text: '', count: '', outputs: [] }]);
});

it('gives images as data', () => {
  expect(imageHref('image/svg+xml', '<svg onload="x"/>')).toBe('data:image/svg+xml,%3Csvg%20onload%3D%22x%22%2F%3E');
  expect(imageHref('image/png', 'AA==')).toBe('data:image/png;base64,AA==');
});
