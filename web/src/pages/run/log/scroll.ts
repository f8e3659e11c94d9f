// Where the scroll bar stands and which line that is. A browser's element has at most 17 to 33 million pixels: beyond
// that the bar is a scale, and wheel and keys move by lines.

export const ROW = 19; // px: the height of a line in log.css
export const MOST_SPACE = 8_000_000;

export interface Frame {
  total: number; // lines
  height: number; // px that are seen
}

export const isScaled = (total: number): boolean => total * ROW > MOST_SPACE;
export const spaceOf = ({ total, height }: Frame): number => Math.max(height, Math.min(total * ROW, MOST_SPACE));
/** The greatest first line (from 0, with its hidden part): then the last line is the lowest. */
export const lastTop = ({ total, height }: Frame): number => Math.max(0, total - height / ROW);

export function topOf(scrollTop: number, frame: Frame): number {
  const range = spaceOf(frame) - frame.height;
  if (range <= 0) return 0;
  const top = isScaled(frame.total) ? (scrollTop / range) * lastTop(frame) : scrollTop / ROW;
  return clamp(top, frame);
}

export function scrollOf(top: number, frame: Frame): number {
  const range = spaceOf(frame) - frame.height;
  const most = lastTop(frame);
  if (range <= 0 || most <= 0) return 0;
  return Math.min(range, isScaled(frame.total) ? (top / most) * range : top * ROW);
}

export const clamp = (top: number, frame: Frame): number => Math.max(0, Math.min(top, lastTop(frame)));

/** The lines (from 1) that are seen when `top` is the first one, and how many. */
export function windowOf(top: number, { total, height }: Frame): { first: number; last: number } {
  const first = Math.min(Math.floor(top) + 1, Math.max(1, total));
  return { first, last: Math.min(total, first + Math.ceil(height / ROW) + 1) };
}
