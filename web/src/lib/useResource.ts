// A value of the server in a component: loading, the value, or the error.
import { useCallback, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api/http';

export interface Resource<T> {
  value: T | undefined;
  error: ApiError | undefined;
  isLoading: boolean;
  /** Read again; the old value stays until the answer arrives. Calls during a request become one request after it. */
  again: () => void;
}

/** Read when the component is mounted and when `deps` change. The answer to an outdated request is dropped. */
export function useResource<T>(read: (signal: AbortSignal) => Promise<T>, deps: readonly unknown[]): Resource<T> {
  const [state, setState] = useState<{ value?: T; error?: ApiError; isLoading: boolean }>({ isLoading: true });
  const latest = useRef(read);
  latest.current = read;
  const current = useRef<{ abort: AbortController; isBusy: boolean; isDue: boolean }>(undefined);

  const start = useCallback(() => {
    const mine = { abort: new AbortController(), isBusy: true, isDue: false };
    current.current = mine;
    const finish = (next: { value?: T; error?: ApiError }): void => {
      if (current.current !== mine) return;
      mine.isBusy = false;
      setState((old) => ({ ...(next.error ? { value: old.value } : {}), ...next, isLoading: false }) as typeof old);
      if (mine.isDue) start();
    };
    latest.current(mine.abort.signal).then(
      (value) => finish({ value }),
      (error: unknown) => finish({ error: asApiError(error) }),
    );
  }, deps);

  const again = useCallback(() => {
    const running = current.current;
    if (running?.isBusy) running.isDue = true;
    else start();
  }, [start]);

  useLayoutEffect(() => {
    setState({ isLoading: true });
    start();
    return () => {
      current.current?.abort.abort();
      current.current = undefined;
    };
  }, [start]);

  return { value: state.value, error: state.error, isLoading: state.isLoading, again };
}

/** The last value that was not undefined: the old value stays visible while the next one is loading. */
export function useLastValue<T>(value: T | undefined): T | undefined {
  const last = useRef(value);
  if (value !== undefined) last.current = value;
  return last.current;
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(0, 'PageFault', 'The page could not show this.', String(error), 'Reload the page.');
}
