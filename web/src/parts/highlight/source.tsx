// A source file with colours, line numbers and a link to each line; quick for a megabyte.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { colour, type Line } from './tokens';
import './source.css';

const BLOCK = 60;
const LINE_HEIGHT = 20; // as in source.css

type Watch = (element: Element, tell: (isSeen: boolean) => void) => () => void;

/** `chosen`: the line that the address names, from 1; it is shown and marked. */
export function Source({
  text,
  language,
  chosen = 0,
  lineHref,
  label,
}: {
  text: string;
  language: string;
  chosen?: number;
  lineHref?: (line: number) => string;
  label: string;
}) {
  const lines = useMemo(() => colour(text, language), [text, language]);
  const root = useRef<HTMLDivElement>(null);
  const watch = useMemo(() => watcher(root), [lines]);
  useLayoutEffect(() => {
    if (root.current && chosen > 0) root.current.scrollTop = Math.max(0, (chosen - 6) * LINE_HEIGHT);
  }, [lines]);
  const blocks = Array.from({ length: Math.ceil(lines.length / BLOCK) }, (_, at) => at);
  return (
    <div class="source" ref={root} tabIndex={0} role="region" aria-label={label}>
      <div class="source-lines" style={{ '--digits': `${String(lines.length).length}ch` }}>
        {chosen > 0 && chosen <= lines.length && (
          <div class="source-chosen" style={{ top: `${(chosen - 1) * LINE_HEIGHT}px` }} />
        )}
        {blocks.map((block) => (
          <Block key={block} first={block * BLOCK} lines={lines} watch={watch} lineHref={lineHref} chosen={chosen} />
        ))}
      </div>
    </div>
  );
}

/** One observer for all blocks, with a callback for each, so that only blocks that appear or disappear are drawn again. */
function watcher(root: { current: Element | null }): Watch {
  let observer: IntersectionObserver | undefined;
  const tells = new WeakMap<Element, (isSeen: boolean) => void>();
  return (element, tell) => {
    observer ??= new IntersectionObserver(
      (entries) => {
        for (const entry of entries) tells.get(entry.target)?.(entry.isIntersecting);
      },
      { root: root.current, rootMargin: '600px 0px' },
    );
    tells.set(element, tell);
    observer.observe(element);
    return () => observer?.unobserve(element);
  };
}

/** Some lines: one text while they are out of sight (the browser's own search finds them there), coloured when seen. */
function Block({
  first,
  lines,
  watch,
  lineHref,
  chosen,
}: {
  first: number;
  lines: readonly Line[];
  watch: Watch;
  lineHref: ((line: number) => string) | undefined;
  chosen: number;
}) {
  const element = useRef<HTMLDivElement>(null);
  const [isSeen, setSeen] = useState(first === 0);
  useLayoutEffect(() => (element.current ? watch(element.current, setSeen) : undefined), [watch]);
  const own = lines.slice(first, first + BLOCK);
  const numbers = own.map((_, at) => first + at + 1);
  return (
    <div class="source-block" ref={element}>
      <pre class="source-numbers" aria-hidden={lineHref ? undefined : 'true'}>
        {isSeen && lineHref
          ? numbers.map((line) => (
              <a
                key={line}
                href={lineHref(line)}
                tabIndex={line === chosen || (line === 1 && !chosen) ? 0 : -1}
                aria-label={`Line ${line}`}
              >
                {line}
              </a>
            ))
          : numbers.join('\n')}
      </pre>
      <pre class="source-text">
        {isSeen
          ? own.map((line, at) => (
              <span key={at} class="source-line">
                <Tokens line={line} />
                {'\n'}
              </span>
            ))
          : own.map((line) => line.map((token) => token.text).join('')).join('\n')}
      </pre>
    </div>
  );
}

/** Lines of code with colours, for the inside of a `<pre>`. */
export function ColouredLines({ text, language }: { text: string; language: string }) {
  return (
    <>
      {colour(text, language).map((line, at) => (
        <span key={at}>
          <Tokens line={line} />
          {'\n'}
        </span>
      ))}
    </>
  );
}

export function Tokens({ line }: { line: Line }) {
  return (
    <>
      {line.map((token, at) =>
        token.kind ? (
          <span key={at} class={`code-${token.kind}`}>
            {token.text}
          </span>
        ) : (
          token.text
        ),
      )}
    </>
  );
}
