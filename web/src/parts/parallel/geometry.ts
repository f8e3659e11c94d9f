// Where the lines of a parallel plot run, and which of them is nearest to the pointer.
import type { Scale } from '../fields/scale';
import type { Field } from '../fields/values';

export interface Frame {
  width: number;
  top: number;
  bottom: number;
  left: number;
  right: number;
}

export const axisX = (frame: Frame, index: number, count: number): number =>
  count === 1 ? frame.width / 2 : frame.left + (index * (frame.width - frame.left - frame.right)) / (count - 1);

const NONE = 16; // below the axis: rows without a value

/** For each row the heights of its line at the axes, one after the other. */
export function heights(
  count: number,
  fields: readonly Field[],
  scales: ReadonlyMap<string, Scale>,
  frame: Frame,
): Float32Array {
  const found = new Float32Array(count * fields.length);
  fields.forEach((field, axis) => {
    const scale = scales.get(field.id);
    for (let row = 0; row < count; row++) {
      const at = scale?.at(field.values[row] ?? null) ?? null;
      found[row * fields.length + axis] =
        at === null ? frame.bottom + NONE : frame.bottom - at * (frame.bottom - frame.top);
    }
  });
  return found;
}

/** The row whose line passes nearest to (x, y), at most `reach` away; null when none does. */
export function nearest(
  lines: Float32Array,
  axes: number,
  frame: Frame,
  x: number,
  y: number,
  options: { kept?: readonly boolean[]; reach?: number; isCurved?: boolean } = {},
): number | null {
  if (axes < 2) return null;
  const step = (frame.width - frame.left - frame.right) / (axes - 1);
  const place = (x - frame.left) / step;
  const axis = Math.min(axes - 2, Math.max(0, Math.floor(place)));
  const part = options.isCurved ? curved(place - axis) : place - axis;
  if (place < -0.1 || place > axes - 0.9) return null;
  let best: number | null = null;
  let least = options.reach ?? 10;
  for (let row = 0; row * axes < lines.length; row++) {
    if (options.kept && !options.kept[row]) continue;
    const from = lines[row * axes + axis]!;
    const away = Math.abs(from + (lines[row * axes + axis + 1]! - from) * part - y);
    if (away < least) [best, least] = [row, away];
  }
  return best;
}

/** How far up a curve is whose middle points lie at half the way, when it is `part` of the way along. */
export function curved(part: number): number {
  let [low, high] = [0, 1];
  for (let round = 0; round < 20; round++) {
    const t = (low + high) / 2;
    if (1.5 * t - 1.5 * t * t + t * t * t < part) low = t;
    else high = t;
  }
  return 3 * low * low - 2 * low * low * low;
}

/** The axes with `id` moved to stand at `index`. */
export function reordered(ids: readonly string[], id: string, index: number): string[] {
  const rest = ids.filter((one) => one !== id);
  return [...rest.slice(0, index), id, ...rest.slice(index)];
}
