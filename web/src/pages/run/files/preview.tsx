// One file, drawn by its kind. Its bytes become text or the content of an `<img>`, nothing else.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { getBytes, part, pathOf } from '../../../api/http';
import type { RunFile } from '../../../api/types';
import { bytes } from '../../../lib/format';
import { Command, Fault, Loading } from '../../../parts/basics';
import { languageOf } from '../../../parts/highlight/languages';
import { Source } from '../../../parts/highlight/source';
import { useResource } from '../../../lib/useResource';
import { parseJson } from '../../../parts/json/json';
import { factsOf, hexOf, imageType, kindOf, textOf, type Kind } from './kinds';
import { notebookOf } from './notebook';
import { ImageView } from './previews/image';
import { JsonTree } from './previews/json';
import { Markdown } from './previews/markdown';
import { NotebookView } from './previews/notebook';
import { TableView } from './previews/table';
import './preview.css';

const MB = 1_000_000;
const MOST: Readonly<Record<Kind, number>> = {
  image: 50 * MB,
  notebook: 20 * MB,
  json: MB,
  table: MB,
  markdown: MB,
  text: MB,
  binary: 512,
};

interface Content {
  data: Uint8Array<ArrayBuffer>;
  size: number;
}

export function Preview({
  runId,
  file,
  line,
  lineHref,
}: {
  runId: string;
  file: RunFile;
  line: number;
  lineHref: (line: number) => string;
}) {
  const kind = kindOf(file.name);
  const version = file.kind === 'stream' ? Math.min(file.size, MB) : (file.sha256 ?? file.updated_at);
  const most = kind === 'image' || kind === 'notebook' ? (file.size <= MOST[kind] ? MOST[kind] : 512) : MOST[kind];
  const content = useResource((signal) => read(runId, file, most, signal), [runId, file.name]);
  const shown = useRef(version);
  useLayoutEffect(() => {
    if (shown.current !== version) content.again(); // the old content stays until the new is there
    shown.current = version;
  }, [version]);
  if (content.error)
    return (
      <div class="shown-note">
        <Fault error={content.error} again={content.again} />
      </div>
    );
  if (!content.value) return <Loading />;
  return <Shown runId={runId} name={file.name} kind={kind} content={content.value} line={line} lineHref={lineHref} />;
}

async function read(runId: string, file: RunFile, most: number, signal: AbortSignal): Promise<Content> {
  if (file.size === 0) return { data: new Uint8Array(), size: 0 };
  const answer = await getBytes(
    `/runs/${part(runId)}/files/${pathOf(file.name)}`,
    {},
    { signal, range: [0, most - 1] },
  );
  return {
    data: new Uint8Array(await answer.arrayBuffer()),
    size: Number(answer.headers.get('X-Runyard-Size') ?? file.size),
  };
}

function Shown({
  runId,
  name,
  kind,
  content,
  line,
  lineHref,
}: {
  runId: string;
  name: string;
  kind: Kind;
  content: Content;
  line: number;
  lineHref: (line: number) => string;
}) {
  const { data, size } = content;
  const isWhole = data.length >= size;
  const [isSource, setSource] = useState(false);
  const text = useMemo(
    () => (kind === 'image' || kind === 'binary' ? null : textOf(data, isWhole)),
    [data, kind, isWhole],
  );
  const drawn = useMemo(
    () => (text !== null && isWhole && !isSource ? drawing(kind, text, name) : null),
    [text, kind, isWhole, isSource],
  );
  if (size === 0) return <p class="soft shown-note">This file is empty.</p>;
  if (kind === 'image' && isWhole) return <ImageView data={data} type={imageType(name)} name={name} />;
  if (text === null)
    return <Binary runId={runId} name={name} data={data} size={size} isTooLarge={kind === 'image' && !isWhole} />;
  const canDraw = isSource || drawn !== null;
  return (
    <>
      {!isWhole && (
        <p class="soft small shown-note">
          The first {bytes(data.length)} of {bytes(size)}. Download the file for the rest.
        </p>
      )}
      {canDraw && (
        <p class="shown-switch">
          <button type="button" class="button small" aria-pressed={isSource} onClick={() => setSource(!isSource)}>
            As text
          </button>
        </p>
      )}
      {drawn ??
        (kind === 'table' && !isSource ? (
          <TableView text={text} name={name} isWhole={isWhole} />
        ) : (
          <Source text={text} language={languageOf(name)} chosen={line} lineHref={lineHref} label={name} />
        ))}
    </>
  );
}

/** A better preview than the plain text; null where there is none. */
function drawing(kind: Kind, text: string, name: string) {
  if (kind === 'table') return <TableView text={text} name={name} isWhole />;
  if (kind === 'markdown')
    return (
      <div class="shown-note">
        <Markdown text={text} />
      </div>
    );
  if (kind === 'json') {
    const node = parseJson(text);
    return node && (node.kind === 'object' || node.kind === 'list') ? (
      <div class="json-view">
        <JsonTree node={node} />
      </div>
    ) : null;
  }
  if (kind === 'notebook') {
    const notebook = notebookOf(text);
    return notebook && <NotebookView notebook={notebook} />;
  }
  return null;
}

function Binary({
  runId,
  name,
  data,
  size,
  isTooLarge,
}: {
  runId: string;
  name: string;
  data: Uint8Array;
  size: number;
  isTooLarge: boolean;
}) {
  const facts = factsOf(data);
  return (
    <div class="stack shown-note">
      <p>
        {isTooLarge ? 'An image too large to show here' : facts || 'Bytes, no text'},{' '}
        <span class="number">{bytes(size)}</span>.
      </p>
      <Command
        text={`runyard runs download ${runId} ${/^[\w./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`}`}
      />
      <h3 class="soft">First bytes</h3>
      <pre class="hex scroll-x" tabIndex={0}>
        {hexOf(data)}
      </pre>
    </div>
  );
}
