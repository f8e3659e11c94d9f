// Parallel coordinates: a line per run through an axis per field. A mark dragged on an axis keeps the runs that pass it.
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { plural } from '../../lib/format';
import { dragged, moved, passing, resized, without, type Brush, type Brushes } from '../fields/brush';
import { shortened, useDrawing, useWidth } from '../fields/canvas';
import { FieldChecks, FieldSelect, Ramp } from '../fields/pickers';
import { cssColor, colorsBy, colorVersion } from '../fields/color';
import { scaleOf, type Scale } from '../fields/scale';
import { AsTable, shown } from '../fields/table';
import { Tip } from '../fields/tip';
import type { Field, Row } from '../fields/values';
import { axisX, heights, nearest, reordered, type Frame } from './geometry';
import './parallel.css';

const HEIGHT = 380;
const TOP = 58;
const BELOW = 34;
const NARROWEST = 96; // between two axes
const MOST_CURVES = 300; // more lines are drawn straight, which is faster

export interface ParallelProps {
  rows: readonly Row[];
  /** All that can be an axis or a colour. */
  fields: readonly Field[];
  /** Ids of the axes, left to right. */
  axes: readonly string[];
  onAxes: (ids: string[]) => void;
  /** Id of the field that colours the lines; "" for the rows' own colours. */
  color: string;
  onColor: (id: string) => void;
  /** The rows' own colours. */
  rowColors?: readonly string[];
  /** Which rows lie in all marks; null while there is no mark. */
  onKept?: (kept: readonly boolean[] | null) => void;
  onOpen: (id: string) => void;
}

export function Parallel(props: ParallelProps) {
  const { rows, fields } = props;
  const axes = props.axes.flatMap((id) => fields.find((field) => field.id === id) ?? []);
  const [brushes, setBrushes] = useState<Brushes>({});
  const [logs, setLogs] = useState<Record<string, boolean>>({});
  const scales = useMemo(
    () => new Map(axes.map((field) => [field.id, scaleOf(field.values, logs[field.id])])),
    [fields, props.axes.join('\n'), logs],
  );
  const isMarked = axes.some((field) => brushes[field.id]);
  const kept = useMemo(() => passing(rows.length, axes, scales, brushes), [rows, scales, brushes]);
  const count = kept.filter(Boolean).length;
  const keptKey = isMarked ? kept.map(Number).join('') : '';
  useLayoutEffect(() => props.onKept?.(isMarked ? kept : null), [keptKey]);
  const color = fields.find((field) => field.id === props.color);

  return (
    <div class="card plot-card">
      <div class="plot-controls">
        <FieldChecks label="Axes" fields={fields} chosen={axes.map((field) => field.id)} onPick={props.onAxes} />
        <FieldSelect label="Colour" fields={fields} value={color?.id ?? ''} none="Run" onPick={props.onColor} />
        {color && <Ramp field={color} />}
        <span class="small soft" role="status">
          {isMarked ? `${count} of ${plural(rows.length, 'run')}` : plural(rows.length, 'run')}
        </span>
        {isMarked && (
          <button type="button" class="button small" onClick={() => setBrushes({})}>
            Clear marks
          </button>
        )}
      </div>
      {axes.length < 2 ? (
        <p class="soft plot-none">Choose at least two axes.</p>
      ) : (
        <Lines
          {...props}
          axisFields={axes}
          scales={scales}
          kept={kept}
          isMarked={isMarked}
          brushes={brushes}
          onBrush={setBrushes}
          logs={logs}
          onLogs={setLogs}
          colorField={color}
        />
      )}
      <AsTable rows={rows} fields={axes} kept={kept} />
    </div>
  );
}

interface LinesProps extends ParallelProps {
  axisFields: readonly Field[];
  scales: ReadonlyMap<string, Scale>;
  kept: readonly boolean[];
  isMarked: boolean;
  brushes: Brushes;
  onBrush: (brushes: Brushes) => void;
  logs: Record<string, boolean>;
  onLogs: (logs: Record<string, boolean>) => void;
  colorField: Field | undefined;
}

function Lines({
  rows,
  axisFields,
  scales,
  kept,
  isMarked,
  brushes,
  onBrush,
  onLogs,
  logs,
  onAxes,
  onOpen,
  rowColors,
  colorField,
}: LinesProps) {
  const box = useRef<HTMLDivElement>(null);
  const shownWidth = useWidth(box);
  const width = Math.max(shownWidth, axisFields.length * NARROWEST);
  const frame: Frame = {
    width,
    top: TOP,
    bottom: HEIGHT - BELOW,
    left: shownWidth > 700 ? 80 : 56,
    right: shownWidth > 700 ? 80 : 56,
  };
  const version = colorVersion();
  const lines = useMemo(() => heights(rows.length, axisFields, scales, frame), [rows, scales, width]);
  const colors = useMemo(
    () => (colorField ? colorsBy(colorField, cssColor('--idle')) : (rowColors ?? rows.map(() => cssColor('--accent')))),
    [colorField, rowColors, rows, version],
  );
  const [active, setActive] = useState<{ row: number; x: number; y: number } | null>(null);
  const isCurved = rows.length <= MOST_CURVES;

  const canvas = useDrawing(
    width,
    HEIGHT,
    (context) => {
      const count = axisFields.length;
      const trace = (row: number): void => {
        context.beginPath();
        for (let axis = 0; axis < count; axis++) {
          const [x, y] = [axisX(frame, axis, count), lines[row * count + axis]!];
          if (axis === 0) context.moveTo(x, y);
          else if (isCurved) {
            const middle = (axisX(frame, axis - 1, count) + x) / 2;
            context.bezierCurveTo(middle, lines[row * count + axis - 1]!, middle, y, x, y);
          } else context.lineTo(x, y);
        }
        context.stroke();
      };
      context.lineJoin = 'round';
      context.lineWidth = 1;
      if (isMarked) {
        context.strokeStyle = cssColor('--line');
        for (const row of rows.keys()) if (!kept[row]) trace(row);
      }
      context.globalAlpha = rows.length > 300 ? 0.4 : rows.length > 60 ? 0.6 : 0.9;
      context.lineWidth = rows.length > 60 ? 1.1 : 1.6;
      rows.forEach((_, row) => {
        if (!kept[row]) return;
        context.strokeStyle = colors[row]!;
        trace(row);
      });
      if (active) {
        context.globalAlpha = 1;
        context.lineWidth = 3;
        context.strokeStyle = colors[active.row] ?? cssColor('--accent');
        trace(active.row);
      }
    },
    [lines, kept, colors, active?.row, isMarked],
  );

  const find = (event: PointerEvent): void => {
    const area = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    const row = nearest(lines, axisFields.length, frame, x, y, { kept, isCurved });
    setActive(row === null ? null : { row, x, y });
  };
  const step = (width - frame.left - frame.right) / (axisFields.length - 1);
  const ids = axisFields.map((field) => field.id);

  return (
    <div class="plot scroll-x" ref={box}>
      <div class="parallel" style={{ width: `${width}px`, height: `${HEIGHT}px` }}>
        <canvas
          ref={canvas}
          role="img"
          aria-label={`Parallel coordinates of ${plural(rows.length, 'run')} over ${axisFields.map((field) => field.label).join(', ')}. The table below has the values.`}
          style={{ width: `${width}px`, height: `${HEIGHT}px`, cursor: active ? 'pointer' : 'default' }}
          onPointerMove={find}
          onPointerLeave={() => setActive(null)}
          onClick={() => active && onOpen(rows[active.row]!.id)}
        />
        {axisFields.map((field, index) => (
          <Axis
            key={field.id}
            field={field}
            scale={scales.get(field.id)!}
            x={axisX(frame, index, axisFields.length)}
            step={step}
            room={Math.min(
              step,
              2 * axisX(frame, index, axisFields.length),
              2 * (width - axisX(frame, index, axisFields.length)),
            )}
            isLast={index === axisFields.length - 1}
            brush={brushes[field.id]}
            onBrush={(brush) => onBrush(brush ? { ...brushes, [field.id]: brush } : without(brushes, field.id))}
            onMove={(by) => onAxes(reordered(ids, field.id, Math.min(ids.length - 1, Math.max(0, index + by))))}
            onLog={() => {
              onLogs({ ...logs, [field.id]: scales.get(field.id)!.kind !== 'log' });
              onBrush(without(brushes, field.id));
            }}
          />
        ))}
        {active && rows[active.row] && (
          <Tip row={rows[active.row]!} index={active.row} fields={axisFields} x={active.x} y={active.y} width={width} />
        )}
      </div>
    </div>
  );
}

interface AxisProps {
  field: Field;
  scale: Scale;
  x: number;
  /** To the next axis. */
  step: number;
  /** For its name, within the plot. */
  room: number;
  isLast: boolean;
  brush: Brush | undefined;
  onBrush: (brush: Brush | null) => void;
  onMove: (by: number) => void;
  onLog: () => void;
}

const LENGTH = HEIGHT - TOP - BELOW;

function Axis({ field, scale, x, step, room, isLast, brush, onBrush, onMove, onLog }: AxisProps) {
  const drag = useRef<{ from: number; mark: Brush | null }>(undefined);
  const header = useRef<number>(undefined);
  const positionOf = (event: PointerEvent): number => {
    const area = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return 1 - (event.clientY - area.top) / area.height;
  };
  const press = (event: KeyboardEvent): void => {
    const by = { ArrowUp: 0.05, ArrowDown: -0.05 }[event.key];
    if (by !== undefined) onBrush(brush ? (event.shiftKey ? resized(brush, by) : moved(brush, by)) : [0.5, 1]);
    else if (event.key === 'Enter' || event.key === ' ') onBrush(brush ? null : [0.5, 1]);
    else if (event.key === 'Escape' && brush) onBrush(null);
    else if (event.key === 'ArrowLeft') onMove(-1);
    else if (event.key === 'ArrowRight') onMove(1);
    else return;
    event.preventDefault();
  };
  const text = brush ? `${shown(scale.valueAt(brush[0]))} to ${shown(scale.valueAt(brush[1]))}` : 'no mark';
  return (
    <>
      <div
        class="axis-head"
        style={{ left: `${x - room / 2}px`, width: `${room}px` }}
        onPointerDown={(event) => {
          if ((event.target as Element).closest('button')) return;
          header.current = event.clientX;
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          if (header.current === undefined || Math.abs(event.clientX - header.current) < step * 0.6) return;
          onMove(Math.sign(event.clientX - header.current));
          header.current += step * Math.sign(event.clientX - header.current);
        }}
        onPointerUp={() => (header.current = undefined)}
      >
        <span class="axis-name cut" title={`${field.label} (drag to move the axis)`}>
          {shortened(field.label, Math.floor(room / 7))}
        </span>
        {scale.canLog && (
          <button
            type="button"
            class="axis-log"
            aria-pressed={scale.kind === 'log'}
            aria-label={`${field.label}: log scale`}
            onClick={onLog}
          >
            log
          </button>
        )}
      </div>
      <div
        class={`axis${isLast ? ' last' : ''}`}
        style={{ left: `${x}px`, top: `${TOP}px`, height: `${LENGTH}px` }}
        role="slider"
        tabIndex={0}
        aria-orientation="vertical"
        aria-label={`Mark on ${field.label}`}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round((brush?.[1] ?? 1) * 100)}
        aria-valuetext={text}
        title="Drag to keep the runs of a range. Keys: Enter, ↑ ↓ (with Shift: its length), ← → move the axis"
        onKeyDown={press}
        onPointerDown={(event) => {
          const at = positionOf(event);
          drag.current = { from: at, mark: brush && at >= brush[0] && at <= brush[1] ? brush : null };
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          if (!drag.current) return;
          const { from, mark } = drag.current;
          const at = positionOf(event);
          if (mark) onBrush(moved(mark, at - from));
          else if (dragged(from, at)) onBrush(dragged(from, at));
        }}
        onPointerUp={(event) => {
          if (drag.current && Math.abs(positionOf(event) - drag.current.from) < 0.01) onBrush(null);
          drag.current = undefined;
        }}
      >
        <span class="axis-line" />
        {scale.ticks.map((tick) => (
          <span key={tick.text} class="axis-tick" style={{ bottom: `${tick.at * 100}%` }}>
            <span class="cut">{tick.text}</span>
          </span>
        ))}
        {field.values.includes(null) && <span class="axis-tick none">none</span>}
        {brush && (
          <span class="axis-mark" style={{ bottom: `${brush[0] * 100}%`, height: `${(brush[1] - brush[0]) * 100}%` }} />
        )}
      </div>
    </>
  );
}
