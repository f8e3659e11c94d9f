// The search box: hits come while the search goes on; Enter and Shift+Enter step through them.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { getJson } from '../../../api/http';
import { number } from '../../../lib/format';
import type { Wanted } from './matches';
import { MOST_HITS, Search, type SearchAnswer } from './search';

export interface SearchState {
  wanted: Wanted | null;
  search: Search | null;
  text: string;
  options: { case: boolean; word: boolean };
  input: { current: HTMLInputElement | null };
  set: (text: string, options?: Partial<{ case: boolean; word: boolean }>) => void;
  clear: () => void;
  focus: () => void;
  refresh: () => void;
  /** The hit at or after a line, or before it, as soon as the search came there. */
  go: (line: number, step: 1 | -1) => Promise<number | undefined>;
}

export function useSearch(at: string, file: string): SearchState {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState('');
  const [options, setOptions] = useState({ case: false, word: false });
  const [search, setSearch] = useState<Search | null>(null);
  const latest = useRef<Search | null>(null);
  const wanted: Wanted | null = text ? { text, ...options } : null;

  /** Begin, unless this very search is under way. */
  const start = (): Search | null => {
    const running = latest.current;
    if (
      !wanted ||
      (running &&
        running.wanted.text === text &&
        running.wanted.case === options.case &&
        running.wanted.word === options.word)
    )
      return running;
    running?.stop();
    const ask = (
      query: Wanted & { after: number; offset: number | null },
      signal: AbortSignal,
    ): Promise<SearchAnswer> => getJson<SearchAnswer>(`${at}/search`, { file, limit: 5000, ...query }, signal);
    const search = new Search(wanted, ask);
    latest.current = search;
    setSearch(search);
    return search;
  };
  useLayoutEffect(() => {
    if (text) {
      const later = setTimeout(start, 180);
      return () => clearTimeout(later);
    }
    latest.current?.stop();
    latest.current = null;
    setSearch(null);
    return undefined;
  }, [text, options]);
  useLayoutEffect(() => () => latest.current?.stop(), []);
  return {
    wanted,
    search,
    text,
    options,
    input,
    set: (next, change) => {
      setText(next.slice(0, 500));
      if (change) setOptions({ ...options, ...change });
    },
    clear: () => setText(''),
    focus: () => {
      input.current?.focus();
      input.current?.select();
    },
    refresh: () => latest.current?.refresh(),
    go: async (line, step) => start()?.reach(line, step),
  };
}

export function SearchBox({
  search,
  step,
  leave,
  current,
}: {
  search: SearchState;
  step: (direction: 1 | -1) => void;
  leave: () => void;
  current: number | undefined;
}) {
  const { text, options, set } = search;
  const key = (event: KeyboardEvent): void => {
    if (event.key === 'Enter') step(event.shiftKey ? -1 : 1);
    else if (event.key === 'Escape') {
      if (text) search.clear();
      else leave();
    } else return;
    event.preventDefault();
  };
  return (
    <div class="log-search" role="search">
      <input
        ref={search.input}
        type="text"
        value={text}
        placeholder="Search the whole log"
        aria-label="Search the whole log"
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => set(event.currentTarget.value)}
        onKeyDown={key}
      />
      <Count search={search.search} current={current} />
      {text && (
        <>
          <button
            type="button"
            class="button small quiet"
            aria-label="Previous match"
            title="Previous (Shift+Enter, N)"
            onClick={() => step(-1)}
          >
            ↑
          </button>
          <button
            type="button"
            class="button small quiet"
            aria-label="Next match"
            title="Next (Enter, n)"
            onClick={() => step(1)}
          >
            ↓
          </button>
        </>
      )}
      <button
        type="button"
        class="button small quiet"
        aria-pressed={options.case}
        title="Upper and lower case as written"
        aria-label="Match case: Aa"
        onClick={() => set(text, { case: !options.case })}
      >
        Aa
      </button>
      <button
        type="button"
        class="button small quiet"
        aria-pressed={options.word}
        title="Whole words"
        aria-label="Whole words: “ab”"
        onClick={() => set(text, { word: !options.word })}
      >
        “ab”
      </button>
    </div>
  );
}

function Count({ search, current }: { search: Search | null; current: number | undefined }) {
  if (!search) return null;
  search.version.value;
  const count = search.hits.length;
  const place = current === undefined ? -1 : search.hits.indexOf(current);
  const words = search.error
    ? 'failed'
    : !count && search.isDone
      ? 'no match'
      : `${place >= 0 ? `${number(place + 1)} / ` : ''}${number(count)}${count >= MOST_HITS ? '+' : ''}${count === 1 && place < 0 ? ' line' : place < 0 ? ' lines' : ''}`;
  return (
    <span
      class="log-count small soft number"
      role="status"
      title={search.error ? `${search.error.what} ${search.error.hint}` : 'Lines that hold the text'}
    >
      {words}
      {!search.isDone && !search.isFull && !search.error && ` · ${Math.floor(search.part * 100)} %`}
    </span>
  );
}
