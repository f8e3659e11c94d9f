// The difference of two texts: side by side where there is room, else one below the other.
import { useEffect, useLayoutEffect, useMemo, useState } from 'preact/hooks';
import { plural } from '../../lib/format';
import { Tokens } from '../highlight/source';
import { colour, splitLines, type Line } from '../highlight/tokens';
import type { Part } from './lines';
import { changedWithin, countsOf, rowsOf, unified, type Row } from './rows';
import './diff.css';

const WIDE = '(min-width: 1100px)';
const MOST_ROWS = 500;

export function useIsWide(): boolean {
  const [isWide, setWide] = useState(() => matchMedia(WIDE).matches);
  useEffect(() => {
    const media = matchMedia(WIDE);
    const change = (): void => setWide(media.matches);
    media.addEventListener('change', change);
    return () => media.removeEventListener('change', change);
  }, []);
  return isWide;
}

/** How many lines came and went. */
export function Counted({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="small number">
      <span class="diff-plus">+{added}</span> <span class="diff-minus">−{removed}</span>
    </span>
  );
}

/** `parts` are those of the two texts. */
export function Diff({
  before,
  after,
  parts,
  language,
  label,
}: {
  before: string;
  after: string;
  parts: readonly Part[];
  language: string;
  label: string;
}) {
  const isWide = useIsWide();
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const [most, setMost] = useState(MOST_ROWS);
  const sides = useMemo(
    () => ({
      texts: [splitLines(before), splitLines(after)] as const,
      colours: [colour(before, language), colour(after, language)] as const,
    }),
    [before, after, language],
  );
  useLayoutEffect(() => {
    setOpened(new Set());
    setMost(MOST_ROWS);
  }, [sides]);
  const rows = rowsOf(
    parts,
    opened,
    (old, fresh) => changedWithin(sides.texts[0][old] ?? '', sides.texts[1][fresh] ?? '') !== null,
  );
  const drawn = isWide ? rows : unified(rows);
  const counts = countsOf(parts);
  if (counts.added + counts.removed === 0)
    return (
      <p class="soft diff-note">The lines are the same{before === after ? '' : '; only their ends differ (CR, LF)'}.</p>
    );
  const open = (row: Row): void => setOpened(new Set(opened).add(row.before));
  return (
    <div class="diff" role="region" aria-label={label} tabIndex={0}>
      <table class={`diff-table${isWide ? ' wide' : ''}`}>
        <colgroup>
          {(isWide ? ['n', '', 'n', ''] : ['n', 'n', '']).map((kind, at) => (
            <col key={at} class={kind === 'n' ? 'diff-numbers' : undefined} />
          ))}
        </colgroup>
        <tbody>
          {drawn.slice(0, most).map((row) =>
            row.kind === 'fold' ? (
              <tr key={`f${row.before}`} class="diff-fold">
                <td colSpan={isWide ? 4 : 3}>
                  <button type="button" class="button small quiet" onClick={() => open(row)}>
                    ⋯ {plural(row.count, 'equal line')}
                  </button>
                </td>
              </tr>
            ) : isWide ? (
              <tr key={`${row.before}:${row.after}`}>
                <Side row={row} side={0} {...sides} />
                <Side row={row} side={1} {...sides} />
              </tr>
            ) : (
              <tr key={`${row.before}:${row.after}`}>
                <td class="diff-number">{row.before >= 0 ? row.before + 1 : ''}</td>
                <td class="diff-number">{row.after >= 0 ? row.after + 1 : ''}</td>
                <Cell row={row} side={row.before >= 0 ? 0 : 1} {...sides} />
              </tr>
            ),
          )}
        </tbody>
      </table>
      {drawn.length > most && (
        <p class="diff-note">
          <button type="button" class="button small" onClick={() => setMost(most + 5 * MOST_ROWS)}>
            Show more of the {plural(drawn.length - most, 'line')} that follow
          </button>
        </p>
      )}
    </div>
  );
}

interface Sides {
  texts: readonly [string[], string[]];
  colours: readonly [Line[], Line[]];
}

function Side({ row, side, texts, colours }: { row: Row; side: 0 | 1 } & Sides) {
  const line = side === 0 ? row.before : row.after;
  return (
    <>
      <td class="diff-number">{line >= 0 ? line + 1 : ''}</td>
      <Cell row={row} side={side} texts={texts} colours={colours} />
    </>
  );
}

function Cell({ row, side, texts, colours }: { row: Row; side: 0 | 1 } & Sides) {
  const line = side === 0 ? row.before : row.after;
  if (line < 0) return <td class="diff-none" />;
  const isChanged = row.kind === 'changed';
  const within =
    isChanged && row.before >= 0 && row.after >= 0
      ? changedWithin(texts[0][row.before] ?? '', texts[1][row.after] ?? '')
      : null;
  const span = within && (side === 0 ? within.before : within.after);
  return (
    <td class={isChanged ? (side === 0 ? 'diff-removed' : 'diff-added') : undefined}>
      <span class="hidden-text">{isChanged ? (side === 0 ? 'removed: ' : 'added: ') : ''}</span>
      {span && span[1] > span[0] ? (
        <Marked line={colours[side][line] ?? []} from={span[0]} to={span[1]} />
      ) : (
        <Tokens line={colours[side][line] ?? []} />
      )}
    </td>
  );
}

/** A line in its colours with [from, to) marked. */
function Marked({ line, from, to }: { line: Line; from: number; to: number }) {
  return (
    <>
      <Tokens line={cut(line, 0, from)} />
      <mark>
        <Tokens line={cut(line, from, to)} />
      </mark>
      <Tokens line={cut(line, to, Infinity)} />
    </>
  );
}

function cut(line: Line, from: number, to: number): Line {
  let at = 0;
  return line.flatMap((token) => {
    const start = Math.max(0, from - at);
    const end = Math.min(token.text.length, to - at);
    at += token.text.length;
    return start < end ? [{ kind: token.kind, text: token.text.slice(start, end) }] : [];
  });
}
