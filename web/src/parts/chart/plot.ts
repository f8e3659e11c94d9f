// One uPlot: axes, cursor and selection are its own; lines and bands we draw, because each line has its own x.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { duration, number } from '../../lib/format';
import { cssColor } from '../fields/color';
import { magnitudes, niceNumbers } from '../fields/scale';
import { clock, type ChartView, type Placed, type Range } from './model';

export interface Drawn {
  placed: Placed;
  color: string;
}

export interface Scene {
  lines: readonly Drawn[];
  view: ChartView;
  x: Range;
  y: Range;
  isSmall: boolean;
}

export interface PlotEvents {
  onCursor: (x: number | null) => void;
  onZoom: (window: Range) => void;
  onReset: () => void;
}

const WHOLE = Array.from({ length: 18 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat(); // there are no halves of steps
const SECONDS = [
  0.001, 0.01, 0.1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400,
  172_800, 432_000, 864_000, 8_640_000,
];
const DOTS = 80; // as many points as this are drawn as points too

export class Plot {
  private plot: uPlot;
  private made = '';
  private scene: Scene;

  constructor(
    private readonly root: HTMLElement,
    scene: Scene,
    private size: { width: number; height: number },
    private readonly events: PlotEvents,
  ) {
    this.scene = scene;
    this.plot = this.make();
  }

  show(scene: Scene): void {
    this.scene = scene;
    if (this.made !== kindOf(scene)) {
      this.plot.destroy();
      this.plot = this.make();
      return;
    }
    this.plot.batch(() => {
      this.plot.setScale('x', { min: scene.x[0], max: scene.x[1] });
      this.plot.setScale('y', { min: scene.y[0], max: scene.y[1] });
    });
    this.plot.redraw(false, true);
  }

  resize(width: number, height: number): void {
    if (width === this.size.width && height === this.size.height) return;
    this.size = { width, height };
    this.plot.setSize(this.size);
  }

  /** Colours have changed. */
  repaint(): void {
    this.plot.destroy();
    this.plot = this.make();
  }

  moveCursor(x: number | null): void {
    this.plot.setCursor({ left: x === null ? -10 : this.plot.valToPos(x, 'x'), top: x === null ? -10 : 0 });
  }

  destroy(): void {
    this.plot.destroy();
  }

  private make(): uPlot {
    const { view, isSmall } = this.scene;
    this.made = kindOf(this.scene);
    const style = getComputedStyle(this.root);
    const font = `${isSmall ? 10.5 : 11.5}px ${style.fontFamily}`;
    const axis = {
      font,
      stroke: cssColor('--text-faint'),
      grid: { stroke: cssColor('--line'), width: 1 },
      ticks: { show: false },
      gap: 4,
    };
    const options: uPlot.Options = {
      ...this.size,
      padding: [8, 12, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
        bind: {
          dblclick: () => () => {
            this.events.onReset();
            return null;
          },
        },
        ...(isSmall
          ? { sync: { key: `charts-${view.x}`, setSeries: false, scales: ['x', null] as [string, null] } }
          : {}),
      },
      scales: {
        x: { time: view.x === 'wall', range: () => [...this.scene.x] as [number, number] },
        y: { distr: view.isLog ? 3 : 1, range: () => [...this.scene.y] as [number, number] },
      },
      axes: [
        {
          ...axis,
          size: 26,
          space: (isSmall ? 60 : 80) + (view.x === 'wall' ? 20 : 0),
          ...(view.x === 'wall'
            ? {
                values: (_: uPlot, splits: number[], __: number, ___: number, apart: number) =>
                  splits.map((one) => clock(one, apart)),
              }
            : {
                incrs: view.x === 'step' ? WHOLE : SECONDS,
                values: (_: uPlot, splits: number[]) => splits.map(view.x === 'step' ? step : passed),
              }),
        },
        {
          ...axis,
          // Its own search for round numbers never ends where doubles are far apart or below 1e-16.
          splits: (u: uPlot, _: number, low: number, high: number) =>
            view.isLog
              ? magnitudes(low, high)
              : niceNumbers(low, high, Math.max(2, Math.round(u.bbox.height / devicePixelRatio / (isSmall ? 34 : 46)))),
          filter: (_: uPlot, splits: number[]) => splits,
          size: (_: uPlot, values: string[] | null) =>
            Math.max(34, 12 + 6.4 * Math.max(0, ...(values ?? []).map((one) => one?.length ?? 0))),
          values: (_: uPlot, splits: (number | null)[]) => splits.map((one) => (one === null ? '' : number(one))),
        },
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: {
        draw: [(u) => this.draw(u)],
        setCursor: [(u) => this.events.onCursor((u.cursor.left ?? -1) < 0 ? null : u.posToVal(u.cursor.left!, 'x'))],
        setSelect: [(u) => this.select(u)],
      },
    };
    return new uPlot(options, [[...this.scene.x], [null, null]], this.root);
  }

  private select(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 4) return;
    const window: Range = [u.posToVal(left, 'x'), u.posToVal(left + width, 'x')];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.events.onZoom(window);
  }

  private draw(u: uPlot): void {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    const air = 4 * (devicePixelRatio || 1); // dots at the edges are whole
    ctx.rect(left - air, top - air, width + 2 * air, height + 2 * air);
    ctx.clip();
    for (const line of this.scene.lines) drawLine(u, line, this.scene);
    ctx.restore();
  }
}

const kindOf = ({ view, isSmall }: Scene): string => `${view.x} ${view.isLog} ${isSmall}`;
const step = (value: number): string =>
  Number.isInteger(value) ? (Math.abs(value) >= 1e6 ? `${number(value / 1e6)}M` : number(value)) : '';
const passed = (value: number): string =>
  value === 0 ? '0' : value < 0 ? `−${duration(-value * 1000)}` : duration(value * 1000);

function drawLine(u: uPlot, { placed, color }: Drawn, { view, x, y }: Scene): void {
  const { ctx, bbox } = u;
  const scale = devicePixelRatio || 1;
  const xs = (value: number): number => bbox.left + ((value - x[0]) / (x[1] - x[0])) * bbox.width;
  const [bottom, top] = view.isLog ? [Math.log(y[0]), Math.log(y[1])] : y;
  const ys = (value: number): number => {
    const at = view.isLog ? (value > 0 ? Math.log(value) : -Infinity) : value;
    return Math.max(-1e5, Math.min(1e5, bbox.top + (1 - (at - bottom) / (top - bottom)) * bbox.height));
  };
  const { from, to, low, high } = placed;
  const [first, last] = inView(placed, x);
  const isSmooth = view.smoothing > 0;
  ctx.strokeStyle = ctx.fillStyle = color;
  ctx.lineJoin = 'round';

  // What lies between the least and the greatest value of a bucket; those far taller than the others stand out.
  let sum = 0;
  for (let at = first; at < last; at++) if (high[at]! > low[at]!) sum += Math.min(1e300, high[at]! - low[at]!);
  const tall = (sum / (last - first)) * 6;
  for (const isTall of [false, true]) {
    ctx.globalAlpha = isTall ? 0.75 : isSmooth ? 0.14 : 0.26;
    ctx.beginPath();
    for (let at = first; at < last; at++) {
      const size = high[at]! - low[at]!;
      if (!(size > 0) || size > tall !== isTall) continue;
      const left = xs(from[at]!);
      const above = ys(high[at]!);
      ctx.rect(left, above, Math.max(scale, xs(to[at]!) - left), Math.max(scale, ys(low[at]!) - above));
    }
    ctx.fill();
  }

  const path = (values: Float64Array): void => {
    ctx.beginPath();
    let isDown = false;
    for (let at = first; at < last; at++) {
      const value = values[at]!;
      if (!Number.isFinite(value) || (view.isLog && value <= 0)) {
        isDown = false;
        continue;
      }
      const place = xs((from[at]! + to[at]!) / 2);
      if (isDown && from[at]! < from[at - 1]!) isDown = false; // a second attempt is a line of its own
      if (isDown) ctx.lineTo(place, ys(value));
      else ctx.moveTo(place, ys(value));
      isDown = true;
    }
    ctx.stroke();
  };
  ctx.lineWidth = (isSmooth ? 1 : 1.5) * scale;
  ctx.globalAlpha = isSmooth ? 0.3 : 1;
  path(placed.value);
  if (isSmooth) {
    ctx.globalAlpha = 1;
    ctx.lineWidth = 2 * scale;
    path(placed.smooth);
  } else if (last - first <= DOTS) {
    for (let at = first; at < last; at++) dot(placed.value[at]!, xs((from[at]! + to[at]!) / 2));
  }
  ctx.globalAlpha = 1;

  function dot(value: number, place: number): void {
    if (!Number.isFinite(value) || (view.isLog && value <= 0)) return;
    ctx.beginPath();
    ctx.arc(place, ys(value), (last - first === 1 ? 3 : 2) * scale, 0, 7);
    ctx.fill();
  }
}

/** Buckets in view, and one more on each side so that lines go on to the edges. */
function inView({ from, to, order }: Placed, x: Range): [number, number] {
  if (order) return [0, from.length];
  let first = 0;
  let last = from.length;
  while (first + 1 < last && to[first + 1]! < x[0]) first++;
  while (last - 1 > first && from[last - 2]! > x[1]) last--;
  return [first, last];
}
