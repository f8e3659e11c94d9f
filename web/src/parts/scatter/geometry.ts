// Where the points of a scatter plot lie, and which is next to the pointer or to the last one.
import type { Scale } from '../fields/scale';
import type { Field } from '../fields/values';

export interface Area {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export interface Point {
  row: number;
  x: number;
  y: number;
}

const INSET = 10; // so that no point lies on the frame

/** The rows that have both values, from left to right. */
export function pointsOf(x: Field, y: Field, scaleX: Scale, scaleY: Scale, area: Area): Point[] {
  const found: Point[] = [];
  x.values.forEach((value, row) => {
    const [atX, atY] = [scaleX.at(value), scaleY.at(y.values[row] ?? null)];
    if (atX !== null && atY !== null) found.push({ row, x: placeX(area, atX), y: placeY(area, atY) });
  });
  return found.sort((a, b) => a.x - b.x || b.y - a.y);
}

export const placeX = (area: Area, at: number): number => area.left + INSET + at * (area.right - area.left - 2 * INSET);
export const placeY = (area: Area, at: number): number =>
  area.bottom - INSET - at * (area.bottom - area.top - 2 * INSET);

export function nearestPoint(points: readonly Point[], x: number, y: number, reach = 18): number | null {
  let best: number | null = null;
  let least = reach * reach;
  points.forEach((point, index) => {
    const away = (point.x - x) ** 2 + (point.y - y) ** 2;
    if (away <= least) [best, least] = [index, away];
  });
  return best;
}
