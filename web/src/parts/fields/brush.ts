// Ranges marked on axes: which rows lie in all of them, and how keys move them.
import type { Scale } from './scale';
import type { Field } from './values';

/** Part of an axis, 0 to 1, low end first. */
export type Brush = readonly [number, number];
/** By the field's id. */
export type Brushes = Readonly<Record<string, Brush>>;

const SMALLEST = 0.02;
const SNAP = 0.03; // the ends of an axis are hard to hit
const EDGE = 1e-9; // a value exactly at a mark's end lies in it

/** For each row whether it lies in every mark; a row without a value does not. */
export function passing(
  count: number,
  fields: readonly Field[],
  scales: ReadonlyMap<string, Scale>,
  brushes: Brushes,
): boolean[] {
  const marks = fields.filter((field) => brushes[field.id]);
  return Array.from({ length: count }, (_, row) =>
    marks.every((field) => {
      const [low, high] = brushes[field.id]!;
      const at = scales.get(field.id)?.at(field.values[row] ?? null);
      return at !== null && at !== undefined && at >= low - EDGE && at <= high + EDGE;
    }),
  );
}

/** From one end of a drag to the other, whose ends snap to the axis's; null when it was no drag but a click. */
export function dragged(from: number, to: number): Brush | null {
  const [low, high] = [clamp(Math.min(from, to)), clamp(Math.max(from, to))];
  return high - low < SMALLEST ? null : [low < SNAP ? 0 : low, high > 1 - SNAP ? 1 : high];
}

/** The mark moved by `by`, kept on its axis with its length. */
export function moved([low, high]: Brush, by: number): Brush {
  const shift = Math.min(Math.max(by, -low), 1 - high);
  return [low + shift, high + shift];
}

/** The mark with its upper end moved by `by`. */
export const resized = ([low, high]: Brush, by: number): Brush => [low, clamp(Math.max(low + SMALLEST, high + by))];

export function without(brushes: Brushes, id: string): Brushes {
  const { [id]: _gone, ...rest } = brushes;
  return rest;
}

const clamp = (value: number): number => Math.min(1, Math.max(0, value));
