// Charts from the server: buckets of a series with exact minima and maxima. Requests of many charts are sent together.
import type { Frame } from './frames';
import { ApiError, sendFrames } from './http';

export interface SeriesRequest {
  run: string;
  metric: string;
  column?: string;
  rank?: number | null;
  /** Steps, or ns of the wall clock, both included. */
  first?: number;
  last?: number;
}

/** Columns of one length. `last` is the last value of each bucket, in the order of logging. */
export interface Buckets {
  firstStep: Float64Array;
  lastStep: Float64Array;
  firstMs: Float64Array;
  lastMs: Float64Array;
  minimum: Float64Array;
  maximum: Float64Array;
  last: Float64Array;
  count: Float64Array;
}

interface Waiting {
  series: SeriesRequest;
  resolve: (found: Buckets | ApiError) => void;
}

const MOST = 200;
const waiting = new Map<string, Waiting[]>();

/** Read these series, each with at most `width` buckets; one that fails gives its error in its place. */
export function readCharts(
  requests: readonly SeriesRequest[],
  options: { width: number; x: 'step' | 'time' },
): Promise<(Buckets | ApiError)[]> {
  const key = `${options.x} ${options.width}`;
  return Promise.all(
    requests.map(
      (series) =>
        new Promise<Buckets | ApiError>((resolve) => {
          const queue = waiting.get(key);
          if (queue) queue.push({ series, resolve });
          else {
            waiting.set(key, [{ series, resolve }]);
            setTimeout(() => void flush(key, options), 5); // charts that appear together ask together
          }
        }),
    ),
  );
}

async function flush(key: string, options: { width: number; x: string }): Promise<void> {
  const all = waiting.get(key) ?? [];
  waiting.delete(key);
  for (let at = 0; at < all.length; at += MOST) await send(all.slice(at, at + MOST), options);
}

async function send(batch: readonly Waiting[], options: { width: number; x: string }): Promise<void> {
  try {
    const frames = await sendFrames('/charts', { ...options, series: batch.map((one) => one.series) });
    for (const [index, one] of batch.entries()) one.resolve(bucketsOf(frames[index]));
  } catch (error) {
    const fault =
      error instanceof ApiError ? error : new ApiError(0, 'Unreadable', 'A chart could not be read.', String(error));
    for (const one of batch) one.resolve(fault);
  }
}

export function bucketsOf(frame: Frame | undefined): Buckets | ApiError {
  const error = frame?.head.error as { code: string; what: string; why?: string; hint?: string } | undefined;
  if (!frame || error)
    return new ApiError(
      0,
      error?.code ?? 'Missing',
      error?.what ?? 'The server left a chart out.',
      error?.why,
      error?.hint,
    );
  const count = Number(frame.head.count);
  const numbers = new Float64Array(frame.body.slice().buffer); // bodies are not aligned to 8 bytes
  const column = (index: number): Float64Array => numbers.subarray(index * count, (index + 1) * count);
  return {
    firstStep: column(0),
    lastStep: column(1),
    firstMs: column(2),
    lastMs: column(3),
    minimum: column(4),
    maximum: column(5),
    last: column(6),
    count: column(7),
  };
}
