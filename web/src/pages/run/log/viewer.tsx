// The lines that are seen, and no others: the scroll bar says where, the layer stays in place and shows the lines there.
import { useLayoutEffect, useReducer, useRef } from 'preact/hooks';
import { attempt } from '../../../parts/overlays';
import { pieces, type Piece } from './ansi';
import { marked, type Wanted } from './matches';
import type { LogModel } from './model';
import { clamp, type Frame, isScaled, lastTop, ROW, scrollOf, spaceOf, topOf, windowOf } from './scroll';

/** Methods of the view for its tab. */
export interface ViewHandle {
  goTo: (line: number) => void;
  follow: () => void;
  /** The lines that are seen now. */
  seen: () => { first: number; last: number };
  focus: () => void;
}

interface Props {
  model: LogModel;
  wrap: boolean;
  wanted: Wanted | null;
  /** Lines that are marked: those of the address, or the hit. */
  marks: { first: number; last: number } | null;
  follows: boolean;
  setFollows: (follows: boolean) => void;
  pick: (line: number, extend: boolean) => void;
  handle: { current: ViewHandle | undefined };
}

const MARGIN = 100; // lines read around those that are seen
const LEAST_HEIGHT = 280;
const BELOW = 48; // px for the line under the log

export function Viewer({ model, wrap, wanted, marks, follows, setFollows, pick, handle }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const view = useRef({
    top: 0,
    drawn: 0,
    isMoved: true,
    shape: '',
    total: 0,
    expected: -1,
    height: 400,
    widest: 0,
    revealed: 0,
  }).current;
  const [, draw] = useReducer((count: number) => count + 1, 0);
  model.version.value; // drawn again when lines come

  const total = model.total ?? 0;
  const frame: Frame = { total, height: view.height };
  // Wrapped lines have heights of their own, and a scaled bar moves too far at a time: then wheel and keys move by lines.
  const isManual = wrap || isScaled(total);
  if (follows) view.top = lastTop(frame);
  const { first, last } = windowOf(clampTop(view.top), frame);
  const isTail =
    model.total === null || (follows && total > 0 && model.line(total) === undefined && model.tail.length > 0);

  function clampTop(top: number): number {
    return wrap ? Math.max(0, Math.min(top, Math.max(0, total - 1))) : clamp(top, frame);
  }

  const moveTo = (top: number): void => {
    const isEnd = !wrap && top >= lastTop(frame);
    view.top = clampTop(top);
    view.isMoved = true;
    if (isEnd !== follows) setFollows(isEnd);
    draw(undefined);
  };

  /** Move by pixels in manual mode; speeds differ with the heights of wrapped lines, places do not. */
  const moveBy = (pixels: number): void => {
    if (follows && pixels >= 0) return;
    let height = ROW;
    if (wrap) {
      const row = rowsOf(inner.current).find((one) => one.bottom > 0);
      if (!row) return;
      height = Math.max(ROW, row.bottom - row.top);
      if (follows) view.top = row.line - 1 + Math.max(0, -row.top) / height;
    }
    moveTo(view.top + pixels / height);
  };

  useLayoutEffect(() => {
    const box = scroller.current!;
    const resize = (): void => {
      const above = box.getBoundingClientRect().top + scrollY;
      const wish = Math.max(LEAST_HEIGHT, innerHeight - above - BELOW);
      if (Math.abs(wish - box.offsetHeight) > 1) box.style.height = `${wish}px`;
      if (view.height !== box.clientHeight) {
        view.height = box.clientHeight;
        draw(undefined);
      }
    };
    resize();
    const observer = new ResizeObserver(resize);
    observer.observe(box);
    observer.observe(document.body);
    addEventListener('resize', resize);
    return () => {
      observer.disconnect();
      removeEventListener('resize', resize);
    };
  }, []);

  useLayoutEffect(() => {
    const box = scroller.current!;
    const layer = inner.current!;
    const hidden = view.top - Math.floor(view.top);
    const rows = wrap ? rowsOf(layer) : []; // measuring costs time, and other lines have one height
    const firstHeight = rows.length ? rows[0]!.bottom - rows[0]!.top : ROW;
    layer.style.transform = follows && wrap ? '' : `translateY(${-Math.round(hidden * firstHeight)}px)`;
    const end = rows[rows.length - 1];
    if (end && !follows && last === total && end.bottom - rows[0]!.top - hidden * firstHeight <= view.height)
      setFollows(true);
    const widest = wrap ? 0 : Math.max(view.widest, layer.scrollWidth);
    if (widest !== view.widest) layer.style.minWidth = widest ? `${widest}px` : '';
    view.widest = widest;
    // The bar is moved only when we moved: drawn between a person's scroll and its event, it would take that back.
    const shape = `${wrap} ${view.height} ${isScaled(total) ? total : ''}`;
    const isTaken = follows && shape === view.shape && total >= view.total && box.scrollTop < view.expected - 1;
    if (!isTaken && (follows || view.isMoved || shape !== view.shape)) {
      const wish = follows ? spaceOf(frame) - view.height : scrollOf(view.top, frame);
      if (Math.abs(box.scrollTop - wish) >= 1) box.scrollTop = wish;
      view.expected = box.scrollTop;
    }
    view.isMoved = false;
    view.shape = shape;
    view.total = total;
    view.drawn = view.top;
    reveal(box);
    if (total) model.want(first - MARGIN, last + MARGIN);
  });

  useLayoutEffect(() => {
    const box = scroller.current!;
    const wheel = (event: WheelEvent): void => {
      if (event.ctrlKey || !event.deltaY || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
      if (isManual) {
        event.preventDefault();
        moveBy(
          event.deltaMode === 1
            ? event.deltaY * ROW * 3
            : event.deltaMode === 2
              ? event.deltaY * view.height
              : event.deltaY,
        );
      } else if (event.deltaY < 0 && follows && spaceOf(frame) > view.height) leaveEnd();
    };
    let touched: number | undefined;
    const touch = (event: TouchEvent): void => {
      const at = event.touches[0]?.clientY;
      if (event.type === 'touchmove' && isManual && touched !== undefined && at !== undefined) {
        event.preventDefault();
        moveBy(touched - at);
      }
      touched = at;
    };
    box.addEventListener('wheel', wheel, { passive: false });
    box.addEventListener('touchstart', touch, { passive: true });
    box.addEventListener('touchmove', touch, { passive: false });
    return () => {
      box.removeEventListener('wheel', wheel);
      box.removeEventListener('touchstart', touch);
      box.removeEventListener('touchmove', touch);
    };
  });

  /** Once per marked line: have its match seen, should it stand far to the right. */
  function reveal(box: HTMLElement): void {
    if (
      !marks ||
      view.revealed === marks.first ||
      model.line(marks.first) === undefined ||
      marks.first < first ||
      marks.first > last
    )
      return;
    view.revealed = marks.first;
    const match = box.querySelector(`[data-line="${marks.first}"] mark`)?.getBoundingClientRect();
    const seen = box.getBoundingClientRect();
    if (match && (match.right > seen.right || match.left < seen.left + 60))
      box.scrollLeft += match.left - seen.left - seen.width / 3;
  }

  /** Stop following without a jump: new lines must not move the view of a person who scrolls up. */
  const leaveEnd = (): void => {
    view.top = Math.max(0, lastTop(frame) - 0.01);
    setFollows(false);
  };

  const scrolled = (): void => {
    const box = scroller.current; // the event may come when the page is another
    if (!box || Math.abs(box.scrollTop - view.expected) < 1) return;
    view.expected = box.scrollTop;
    const isEnd = box.scrollTop >= spaceOf(frame) - view.height - 1;
    view.top = topOf(box.scrollTop, frame);
    if (isEnd !== follows) setFollows(isEnd);
    draw(undefined);
  };

  const key = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowUp: -ROW, ArrowDown: ROW, PageUp: ROW - view.height, PageDown: view.height - ROW }[event.key];
    if (event.key === 'End') setFollows(true);
    else if (event.key === 'Home') moveTo(0);
    else if (step === undefined) return;
    else if (isManual) moveBy(step);
    else return; // the browser's own, which is smooth
    event.preventDefault();
  };

  handle.current = {
    goTo: (line) => {
      const above = wrap ? 0 : Math.max(0, view.height / ROW / 3);
      view.top = clampTop(line - 1 - above);
      view.isMoved = true;
      setFollows(false);
      draw(undefined);
    },
    follow: () => setFollows(true),
    seen: () => {
      if (view.drawn !== view.top) return windowOf(view.top, frame); // it moved and is not drawn yet
      const rows = rowsOf(inner.current).filter((row) => row.bottom > 1 && row.top < view.height - 1);
      return { first: rows[0]?.line ?? first, last: rows[rows.length - 1]?.line ?? last };
    },
    focus: () => scroller.current?.focus(),
  };

  const width = `${Math.max(3, String(total).length)}ch`;
  return (
    <div
      ref={scroller}
      class={`log-lines${wrap ? ' wrap' : ''}${isManual ? ' manual' : ''}`}
      role="log"
      aria-live="off"
      aria-label="Lines of the log"
      tabIndex={0}
      onScroll={scrolled}
      onKeyDown={key}
    >
      <div class="log-space" style={{ height: `${spaceOf(frame)}px` }}>
        <div
          class={`log-layer${(follows && wrap) || isTail ? ' from-end' : ''}`}
          style={{ height: `${view.height}px` }}
        >
          <div ref={inner} class="log-inner">
            {isTail
              ? model.tail
                  .slice(-Math.ceil(view.height / ROW))
                  .map((text, index) => <Row key={-1 - index} line={0} text={text} width={width} wanted={wanted} />)
              : range(first, last).map((line) => (
                  <Row
                    key={line}
                    line={line}
                    text={model.line(line)}
                    width={width}
                    wanted={wanted}
                    isMarked={marks !== null && line >= marks.first && line <= marks.last}
                    pick={pick}
                    more={model.isCut(line) ? () => void attempt(() => model.readWhole(line)) : undefined}
                  />
                ))}
          </div>
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  line: number;
  text: string | undefined;
  width: string;
  wanted: Wanted | null;
  isMarked?: boolean;
  pick?: (line: number, extend: boolean) => void;
  more?: (() => void) | undefined;
}

function Row({ line, text, width, wanted, isMarked, pick, more }: RowProps) {
  return (
    <div class={`log-row${isMarked ? ' marked' : ''}`} data-line={line || undefined}>
      <button
        type="button"
        class="log-number"
        tabIndex={-1}
        style={{ width: `calc(${width} + 20px)` }}
        aria-label={`Link to line ${line}`}
        onClick={(event) => pick?.(line, event.shiftKey)}
      >
        {line || ''}
      </button>
      <span class="log-text" dir="ltr">
        {text === undefined ? (
          <span class="faint">…</span>
        ) : (
          marked(known(text), wanted).map((piece, index) => drawn(piece, index))
        )}
        {more && (
          <button type="button" class="log-more" onClick={more}>
            show the rest of this line
          </button>
        )}
      </span>
    </div>
  );
}

function drawn(piece: Piece & { isMatch?: boolean }, index: number) {
  if (!piece.class && !piece.color && !piece.background && !piece.isMatch) return piece.text;
  const style = {
    ...(piece.color && { color: piece.color }),
    ...(piece.background && { backgroundColor: piece.background }),
  };
  const Tag = piece.isMatch ? 'mark' : 'span';
  return (
    <Tag key={index} class={piece.class || undefined} style={style}>
      {piece.text}
    </Tag>
  );
}

// Visible lines are drawn many times during scrolling; their colours are parsed once.
const parsed = new Map<string, readonly Piece[]>();

function known(text: string): readonly Piece[] {
  let found = parsed.get(text);
  if (!found) {
    if (parsed.size > 1000) parsed.clear();
    found = pieces(text);
    parsed.set(text, found);
  }
  return found;
}

const range = (first: number, last: number): number[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);

/** The rows in the layer and where they are, from its upper edge. */
function rowsOf(layer: HTMLElement | null): { line: number; top: number; bottom: number }[] {
  const edge = layer?.parentElement?.getBoundingClientRect().top ?? 0;
  return [...(layer?.children ?? [])].map((row) => {
    const box = row.getBoundingClientRect();
    return { line: Number((row as HTMLElement).dataset.line ?? 0), top: box.top - edge, bottom: box.bottom - edge };
  });
}
