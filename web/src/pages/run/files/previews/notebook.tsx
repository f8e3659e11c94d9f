import type { Cell, Notebook, Output } from '../notebook';
import { imageHref } from '../notebook';
import { Code, Markdown } from './markdown';

const MOST_TEXT = 100_000;

export function NotebookView({ notebook }: { notebook: Notebook }) {
  const language = /^i?python/.test(notebook.language) ? 'python' : 'c';
  return (
    <div class="notebook">
      {notebook.cells.map((cell, at) => (
        <OneCell key={at} cell={cell} language={language} />
      ))}
      {notebook.cells.length === 0 && <p class="soft">This notebook has no cells.</p>}
    </div>
  );
}

function OneCell({ cell, language }: { cell: Cell; language: string }) {
  if (cell.kind === 'markdown')
    return (
      <div class="notebook-cell">
        <span />
        <Markdown text={cell.text} />
      </div>
    );
  return (
    <div class="notebook-cell">
      <span class="faint small mono notebook-count">{cell.kind === 'code' ? `[${cell.count || ' '}]` : ''}</span>
      <div class="stack">
        <Code text={cell.text} language={cell.kind === 'code' ? language : ''} />
        {cell.outputs.map((output, at) => (
          <OneOutput key={at} output={output} />
        ))}
      </div>
    </div>
  );
}

function OneOutput({ output }: { output: Output }) {
  if (output.kind === 'image')
    return <img class="notebook-image" src={imageHref(output.type, output.data)} alt="Output of the cell" />;
  if (output.kind === 'html') return <Code text={output.text.slice(0, MOST_TEXT)} language="markup" />;
  return <pre class={`notebook-output${output.kind === 'error' ? ' bad' : ''}`}>{output.text.slice(0, MOST_TEXT)}</pre>;
}
