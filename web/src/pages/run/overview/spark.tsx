// How a metric went, as small as a word.
import type { Buckets } from '../../../api/charts';

const WIDTH = 120;
const HEIGHT = 22;

export function Spark({ buckets }: { buckets: Buckets | undefined }) {
  const points = buckets ? sparkPoints(buckets.last) : '';
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      {points && (
        <polyline points={points} fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round" />
      )}
    </svg>
  );
}

/** `x,y x,y …` of the finite values, spread over the width; "" for less than two. */
export function sparkPoints(values: ArrayLike<number>): string {
  const finite = Array.from(values)
    .map((value, index) => [index, value] as const)
    .filter(([, value]) => Number.isFinite(value));
  if (finite.length < 2) return '';
  const low = Math.min(...finite.map(([, value]) => value));
  const span = Math.max(...finite.map(([, value]) => value)) - low || 1;
  const last = values.length - 1;
  return finite
    .map(
      ([index, value]) =>
        `${((index / last) * (WIDTH - 2) + 1).toFixed(1)},${((1 - (value - low) / span) * (HEIGHT - 4) + 2).toFixed(1)}`,
    )
    .join(' ');
}
