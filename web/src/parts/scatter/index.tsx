// A scatter plot of runs by two fields, coloured by a third.
import { useMemo, useRef, useState } from 'preact/hooks';
import { plural } from '../../lib/format';
import { fitted, useDrawing, useWidth } from '../fields/canvas';
import { FieldSelect, Ramp } from '../fields/pickers';
import { cssColor, colorsBy, colorVersion } from '../fields/color';
import { scaleOf, type Scale } from '../fields/scale';
import { AsTable, shown } from '../fields/table';
import { Tip } from '../fields/tip';
import type { Field, Row } from '../fields/values';
import { nearestPoint, placeX, placeY, pointsOf, type Area, type Point } from './geometry';
import './scatter.css';

const HEIGHT = 400;

export interface ScatterProps {
  rows: readonly Row[];
  fields: readonly Field[];
  x: string;
  y: string;
  /** "" for the rows' own colours. */
  color: string;
  onPick: (changes: { x?: string; y?: string; color?: string }) => void;
  rowColors?: readonly string[];
  onOpen: (id: string) => void;
}

export function Scatter(props: ScatterProps) {
  const { rows, fields, onPick } = props;
  const [x, y, color] = [props.x, props.y, props.color].map((id) => fields.find((field) => field.id === id));
  const chosen = [x, y, color].filter((field): field is Field => field !== undefined);
  return (
    <div class="card plot-card">
      <div class="plot-controls">
        <FieldSelect label="X" fields={fields} value={x?.id ?? ''} onPick={(id) => onPick({ x: id })} />
        <FieldSelect label="Y" fields={fields} value={y?.id ?? ''} onPick={(id) => onPick({ y: id })} />
        <FieldSelect
          label="Colour"
          fields={fields}
          value={color?.id ?? ''}
          none="Run"
          onPick={(id) => onPick({ color: id })}
        />
        {color && <Ramp field={color} />}
      </div>
      {x && y ? (
        <Points {...props} xField={x} yField={y} colorField={color} />
      ) : (
        <p class="soft plot-none">Choose what the axes show.</p>
      )}
      <AsTable rows={rows} fields={[...new Set(chosen)]} />
    </div>
  );
}

function Points({
  rows,
  rowColors,
  onOpen,
  xField,
  yField,
  colorField,
}: ScatterProps & { xField: Field; yField: Field; colorField: Field | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  const version = colorVersion();
  const [scaleX, scaleY] = useMemo(() => [scaleOf(xField.values), scaleOf(yField.values)], [xField, yField]);
  const area: Area = { left: Math.min(76, width * 0.2), right: width - 6, top: 8, bottom: HEIGHT - 46 };
  const points = useMemo(() => pointsOf(xField, yField, scaleX, scaleY, area), [xField, yField, width]);
  const colors = useMemo(
    () => (colorField ? colorsBy(colorField, cssColor('--idle')) : (rowColors ?? rows.map(() => cssColor('--accent')))),
    [colorField, rowColors, rows, version],
  );
  const [active, setActive] = useState<number | null>(null);
  const current = active === null ? undefined : points[active];

  const canvas = useDrawing(
    width,
    HEIGHT,
    (context) => {
      drawFrame(context, area, scaleX, scaleY, xField.label, yField.label);
      const radius = rows.length > 300 ? 3.5 : 5;
      const dot = (point: Point, size: number): void => {
        context.beginPath();
        context.arc(point.x, point.y, size, 0, 7);
        context.fill();
      };
      for (const point of points) {
        context.globalAlpha = 0.8;
        context.fillStyle = colors[point.row]!;
        dot(point, radius);
      }
      context.globalAlpha = 1;
      if (current) {
        context.fillStyle = cssColor('--text');
        dot(current, radius + 3);
        context.fillStyle = colors[current.row]!;
        dot(current, radius + 1);
      }
    },
    [points, colors, active, xField.label, yField.label],
  );

  const find = (event: PointerEvent): void => {
    const spot = (event.currentTarget as HTMLElement).getBoundingClientRect();
    setActive(nearestPoint(points, event.clientX - spot.left, event.clientY - spot.top));
  };
  const press = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (by && points.length)
      setActive(((((active ?? (by > 0 ? -1 : 0)) + by) % points.length) + points.length) % points.length);
    else if (event.key === 'Enter' && current) onOpen(rows[current.row]!.id);
    else if (event.key === 'Escape') setActive(null);
    else return;
    event.preventDefault();
  };
  const fields = [
    xField,
    yField,
    ...(colorField && colorField !== xField && colorField !== yField ? [colorField] : []),
  ];
  const spoken = current
    ? `${rows[current.row]!.label}: ${fields.map((field) => `${field.label} ${shown(field.values[current.row] ?? null)}`).join(', ')}`
    : '';
  return (
    <div class="plot" ref={box}>
      <canvas
        ref={canvas}
        class="scatter"
        tabIndex={0}
        role="img"
        aria-label={`Scatter plot of ${plural(points.length, 'run')}: ${yField.label} by ${xField.label}. Arrow keys go from run to run, Enter opens one; the table below has the values.`}
        style={{ height: `${HEIGHT}px`, cursor: current ? 'pointer' : 'crosshair' }}
        onPointerMove={find}
        onPointerLeave={() => setActive(null)}
        onClick={() => current && onOpen(rows[current.row]!.id)}
        onKeyDown={press}
        onBlur={() => setActive(null)}
      />
      <span class="hidden-text" aria-live="polite">
        {spoken}
      </span>
      {current && (
        <Tip row={rows[current.row]!} index={current.row} fields={fields} x={current.x} y={current.y} width={width} />
      )}
      {points.length < rows.length && (
        <p class="small soft">
          {points.length
            ? `${plural(rows.length - points.length, 'run')} without one of the values left out.`
            : 'No run has both values.'}
        </p>
      )}
    </div>
  );
}

function drawFrame(
  context: CanvasRenderingContext2D,
  area: Area,
  scaleX: Scale,
  scaleY: Scale,
  labelX: string,
  labelY: string,
): void {
  const family = getComputedStyle(document.documentElement).fontFamily;
  context.font = `11px ${family}`;
  context.lineWidth = 1;
  context.strokeStyle = cssColor('--line');
  context.fillStyle = cssColor('--text-soft');
  context.textBaseline = 'top';
  context.textAlign = 'center';
  const room = (area.right - area.left) / Math.max(1, scaleX.ticks.length) - 6;
  for (const tick of scaleX.ticks) {
    const x = Math.round(placeX(area, tick.at)) + 0.5;
    line(context, x, area.top, x, area.bottom);
    context.fillText(fitted(context, tick.text, room), x, area.bottom + 6);
  }
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  for (const tick of scaleY.ticks) {
    const y = Math.round(placeY(area, tick.at)) + 0.5;
    line(context, area.left, y, area.right, y);
    context.fillText(fitted(context, tick.text, area.left - 24), area.left - 6, y);
  }
  context.font = `560 12px ${family}`;
  context.fillStyle = cssColor('--text');
  context.textAlign = 'center';
  context.fillText(
    fitted(context, labelX + (scaleX.kind === 'log' ? ' (log)' : ''), area.right - area.left),
    (area.left + area.right) / 2,
    area.bottom + 34,
  );
  context.save();
  context.translate(8, (area.top + area.bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(fitted(context, labelY + (scaleY.kind === 'log' ? ' (log)' : ''), area.bottom - area.top), 0, 0);
  context.restore();
}

function line(context: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}
