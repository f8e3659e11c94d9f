import { useRef } from 'preact/hooks';

/** The last value that there was: what is shown stays while the next is read. */
export function useLast<T>(value: T | undefined): T | undefined {
  const last = useRef(value);
  if (value !== undefined) last.current = value;
  return last.current;
}
