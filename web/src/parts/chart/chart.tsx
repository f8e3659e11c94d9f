// A chart: lines of one or more runs, a legend with the values at the cursor, zoom with an exact re-read.
import type { ComponentChildren } from 'preact';
import { signal, type Signal } from '@preact/signals';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { readCharts, type Buckets } from '../../api/charts';
import { ApiError } from '../../api/http';
import { duration, exact, number } from '../../lib/format';
import { colorVersion, seriesColor } from '../fields/color';
import {
  clamped,
  nearest,
  place,
  scaled,
  widened,
  windowOf,
  xRange,
  yRange,
  type ChartView,
  type Placed,
  type Range,
} from './model';
import { Plot, type Scene } from './plot';
import './chart.css';

export interface Line {
  run: string;
  metric: string;
  column?: string;
  rank?: number | null;
  label: string;
  /** Which of the colours; by default the line's place. */
  color?: number;
  /** ms since 1970 where relative time begins; by default the line's first point. */
  start?: number | null;
}

export interface ChartProps {
  lines: readonly Line[];
  view: ChartView;
  title?: ComponentChildren;
  /** In px, of the plot; 300, or 164 when small. */
  height?: number;
  /** Count it up when points may have come. */
  version?: number;
  isSmall?: boolean;
  /** Fixed ends of the y axis, as 0 to 100 for percent. */
  range?: Range;
  /** Show only so many seconds before now, by the wall clock; all where it is left out. It moves with `version`. */
  lastS?: number | null;
  /** Put behind values in the legend. */
  unit?: string;
}

type Found = Buckets | ApiError;

/** A line with the points that are drawn for it. */
interface Shown {
  line: Line;
  color: string;
  placed: Placed;
  isHidden: boolean;
}

export function Chart({
  lines,
  view,
  title,
  height,
  version = 0,
  isSmall = false,
  range,
  lastS = null,
  unit = '',
}: ChartProps) {
  const root = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | undefined>(undefined);
  const [width, setWidth] = useState(0);
  const [zoom, setZoom] = useState<Range | null>(null);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const cursor = useMemo(() => signal<number | null>(null), []);
  const recent = useMemo(() => recentWindow(lastS), [lastS, version]);
  const { found, isLoading } = useCharts(lines, view, { zoom: zoom ?? recent, version, width });
  const colors = colorVersion();

  const shown = useMemo<Shown[]>(
    () =>
      lines.flatMap((line, index) => {
        const one = found[index];
        if (!one || one instanceof ApiError || !one.count.length) return [];
        const placed = place(one, view, line.start ?? one.firstMs[0]!);
        return [{ line, placed, color: seriesColor(line.color ?? index), isHidden: hidden.has(keyOf(line)) }];
      }),
    [found, view, hidden, colors],
  );
  const drawn = shown.filter((one) => !one.isHidden);
  const all = useWhole(drawn, zoom, view);
  const whole = recent ?? all;
  const window = zoom ?? whole;
  const y = yRange(
    drawn.map((one) => one.placed),
    window,
    view.isLog,
    range,
  );
  const scene: Scene = { lines: drawn, view, x: window, y, isSmall };
  const tall = height ?? (isSmall ? 164 : 300);
  const latest = useRef({ scene, whole });
  latest.current = { scene, whole };

  useLayoutEffect(() => {
    const observing = new ResizeObserver(([entry]) => setWidth(Math.round(entry!.contentRect.width)));
    observing.observe(root.current!);
    return () => {
      observing.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, []);
  useLayoutEffect(() => {
    if (!width || !root.current) return;
    plot.current ??= new Plot(
      root.current,
      scene,
      { width, height: tall },
      {
        onCursor: (x) => (cursor.value = x),
        onZoom: (next) => setZoom(clamped(next, latest.current.whole) ?? null),
        onReset: () => setZoom(null),
      },
    );
    plot.current.resize(width, tall);
    plot.current.show(scene);
  }, [shown, width, tall, zoom, view, range]);
  useLayoutEffect(() => plot.current?.repaint(), [colors]);
  useLayoutEffect(() => setZoom(null), [view.x, lastS]);

  const step = (factor: number): void => setZoom((old) => scaled(old ?? whole, factor, whole));
  const move = (part: number): void => {
    const now = cursor.value ?? window[0];
    plot.current?.moveCursor(Math.min(window[1], Math.max(window[0], now + (window[1] - window[0]) * part)));
  };
  const keys: Record<string, () => void> = {
    '+': () => step(0.5),
    '=': () => step(0.5),
    '-': () => step(2),
    '0': () => setZoom(null),
    ArrowLeft: () => move(-0.01),
    ArrowRight: () => move(0.01),
  };
  const faults = found.filter((one): one is ApiError => one instanceof ApiError);
  return (
    <figure class={`chart${isSmall ? ' small-chart' : ''}`} data-loading={isLoading}>
      <figcaption class={title ? 'chart-head' : 'chart-head untitled'}>
        <span class="chart-title grow">{title}</span>
        {isSmall ? (
          <Latest shown={drawn} cursor={cursor} unit={unit} />
        ) : (
          <span class="row chart-zoom" role="group" aria-label="Zoom">
            <button type="button" class="button small" aria-label="Zoom in" onClick={() => step(0.5)}>
              +
            </button>
            <button type="button" class="button small" aria-label="Zoom out" disabled={!zoom} onClick={() => step(2)}>
              −
            </button>
            <button type="button" class="button small" disabled={!zoom} onClick={() => setZoom(null)}>
              Reset zoom
            </button>
          </span>
        )}
      </figcaption>
      <div
        ref={root}
        class="chart-plot"
        style={{ height: `${tall}px`, opacity: drawn.length ? 1 : 0 }}
        role="img"
        aria-label={spoken(drawn) || 'Nothing is drawn yet'}
        tabIndex={isSmall ? -1 : 0}
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
          event.preventDefault();
          act();
        }}
      />
      {!drawn.length && found.length > 0 && !isLoading && (
        <p class="chart-empty soft small">
          {faults[0] ? faults[0].what : zoom ? 'There are no points in this range.' : 'There are no numbers yet.'}
        </p>
      )}
      {!isSmall && (
        <Legend
          shown={shown}
          view={view}
          cursor={cursor}
          unit={unit}
          onToggle={(line, isAlone) => setHidden(isAlone ? alone(lines, line, hidden) : toggled(hidden, keyOf(line)))}
        />
      )}
      {!isSmall &&
        drawn.length > 0 &&
        faults.map((fault, index) => (
          <p key={index} class="small soft">
            {fault.what} {fault.why}
          </p>
        ))}
    </figure>
  );
}

/** Seconds of the wall clock, as on its axis. */
function recentWindow(lastS: number | null): Range | null {
  const now = Date.now() / 1000;
  return lastS === null ? null : [now - lastS, now];
}

const keyOf = (line: Line): string => `${line.run}\n${line.metric}\n${line.column ?? ''}\n${line.rank ?? ''}`;
const isAllWhole = (found: readonly Found[]): boolean =>
  found.every((one) => one instanceof ApiError || one.count.every((count) => count === 1));

/** Read the lines, and again when `version` or the zoom changes; the old points stay until the answer arrives. */
function useCharts(
  lines: readonly Line[],
  view: ChartView,
  { zoom, version, width }: { zoom: Range | null; version: number; width: number },
) {
  const key = lines.map(keyOf).join('\0');
  const x = view.x === 'step' ? 'step' : 'time';
  const buckets = Math.min(2000, Math.ceil(width / 100) * 100);
  const [state, setState] = useState<{ key: string; found: readonly Found[] }>({ key: '', found: [] });
  const [isLoading, setLoading] = useState(true);
  const base = useRef<{ key: string; found: readonly Found[] }>({ key: '', found: [] });
  const wanted = useRef({ what: '', sent: 0, shown: 0 });

  useLayoutEffect(() => {
    if (!buckets) return;
    const asked = `${key}\0${x}`;
    const known = base.current.key === asked ? base.current.found : undefined;
    // When every single point is loaded already, zooming in needs no request.
    const window = zoom && !(known && isAllWhole(known)) ? zoom : null;
    if (!window && known) setState({ key: asked, found: known });
    const what = `${asked}\0${window}`;
    const mine = ++wanted.current.sent;
    wanted.current.what = what;
    setLoading(true);
    const starts = known?.map((one) => (one instanceof ApiError ? 0 : (one.firstMs[0] ?? 0))) ?? [];
    const wishes = lines.map((line, index) => ({
      run: line.run,
      metric: line.metric,
      ...(line.column ? { column: line.column } : {}),
      ...(line.rank === null || line.rank === undefined ? {} : { rank: line.rank }),
      ...(window ? windowOf(view, window, line.start ?? starts[index] ?? 0) : {}),
    }));
    void readCharts(wishes, { width: buckets, x }).then((found) => {
      // The answer to an outdated request, or one that arrived after a newer one.
      if (what !== wanted.current.what || mine < wanted.current.shown) return;
      wanted.current.shown = mine;
      if (!window) base.current = { key: asked, found };
      setLoading(false);
      setState({ key: asked, found });
    });
  }, [key, x, buckets, version, zoom?.[0], zoom?.[1]]);
  return { found: state.key === `${key}\0${x}` ? state.found : [], isLoading };
}

/** The range of all points: the view before the zoom. */
function useWhole(drawn: readonly Shown[], zoom: Range | null, view: ChartView): Range {
  const kept = useRef<Range>([0, 1]);
  if (!zoom) {
    const [low, high] = xRange(drawn.map((one) => one.placed)) ?? kept.current;
    kept.current = widened(low, high, 0, view.x === 'wall' ? 0.5 : undefined);
  }
  return kept.current;
}

function toggled(hidden: ReadonlySet<string>, key: string): ReadonlySet<string> {
  const next = new Set(hidden);
  if (!next.delete(key)) next.add(key);
  return next;
}

/** Show this line alone; all when it is already. */
function alone(lines: readonly Line[], line: Line, hidden: ReadonlySet<string>): ReadonlySet<string> {
  const others = lines.filter((one) => one !== line).map(keyOf);
  return others.every((key) => hidden.has(key)) ? new Set() : new Set(others);
}

/** The chart in words, for screen readers and tests: the number of points and their range. */
function spoken(drawn: readonly Shown[]): string {
  return drawn
    .map(({ line, placed }) => {
      let [count, low, high] = [0, Infinity, -Infinity];
      placed.count.forEach((one, at) => {
        count += one;
        if (placed.low[at]! < low) low = placed.low[at]!;
        if (placed.high[at]! > high) high = placed.high[at]!;
      });
      return `${line.label}: ${number(count)} points from ${number(low)} to ${number(high)}`;
    })
    .join('; ');
}

/** The last values, or those at the cursor, beside a small chart's title. */
function Latest({ shown, cursor, unit }: { shown: readonly Shown[]; cursor: Signal<number | null>; unit: string }) {
  const x = cursor.value;
  return (
    <span class="chart-latest number small">
      {shown.slice(0, 3).map(({ line, placed, color }) => (
        <span key={keyOf(line)} title={line.label}>
          {shown.length > 1 && <Swatch color={color} />}
          {number(placed.value[x === null ? placed.value.length - 1 : nearest(placed, x)])}
          {unit}
        </span>
      ))}
      {shown.length > 3 && <span class="faint">+{shown.length - 3}</span>}
    </span>
  );
}

function Legend({
  shown,
  view,
  cursor,
  unit,
  onToggle,
}: {
  shown: readonly Shown[];
  view: ChartView;
  cursor: Signal<number | null>;
  unit: string;
  onToggle: (line: Line, isAlone: boolean) => void;
}) {
  const x = cursor.value;
  return (
    <div class="chart-legend">
      <p class="small soft number chart-at">{x === null ? 'Last values' : atText(x, view)}</p>
      <ul>
        {shown.map(({ line, placed, color, isHidden }) => {
          const at = x === null ? placed.value.length - 1 : nearest(placed, x);
          const isBucket = placed.count[at]! > 1 && placed.low[at] !== placed.high[at];
          return (
            <li key={keyOf(line)}>
              <button
                type="button"
                class="legend-line"
                aria-pressed={!isHidden}
                title={`${line.label}: click to hide or show, with Shift to show alone`}
                onClick={(event) => onToggle(line, event.shiftKey)}
              >
                <Swatch color={color} />
                <span class="cut">{line.label}</span>
                <span class="number legend-value">
                  {number(view.smoothing ? placed.smooth[at] : placed.value[at])}
                  {unit}
                  {isBucket && (
                    <span class="faint">
                      {' '}
                      {number(placed.low[at])} … {number(placed.high[at])}
                    </span>
                  )}
                </span>
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

const atText = (x: number, view: ChartView): string =>
  view.x === 'step'
    ? `Step ${number(Math.round(x))}`
    : view.x === 'wall'
      ? exact(x * 1000)
      : `After ${duration(x * 1000)}`;

function Swatch({ color }: { color: string }) {
  return <span class="swatch" style={{ background: color }} aria-hidden="true" />;
}
