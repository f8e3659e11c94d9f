// @vitest-environment happy-dom
import { render } from 'preact';
import { act } from 'preact/test-utils';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ApiError } from '../api/http';
import { useLastValue, useResource, type Resource } from './useResource';

interface Call {
  of: string;
  signal: AbortSignal;
  answer: (value: string) => Promise<void>;
  refuse: (error: unknown) => Promise<void>;
}

let calls: Call[];
let shown: Resource<string>;
let root: HTMLElement;

/** Reads `of`; each call is answered by the test. */
function Reader({ of }: { of: string }) {
  shown = useResource(
    (signal) =>
      new Promise<string>((resolve, reject) => {
        calls.push({
          of,
          signal,
          answer: (value) => act(async () => resolve(value)),
          refuse: (error) => act(async () => reject(error)),
        });
      }),
    [of],
  );
  return <p>{shown.value ?? (shown.isLoading ? 'loading' : shown.error?.what)}</p>;
}

const show = (of: string): Promise<void> => act(() => render(<Reader of={of} />, root));
const again = (): Promise<void> => act(() => shown.again());

beforeEach(() => {
  calls = [];
  root = document.createElement('div');
});
afterEach(() => act(() => render(null, root)));

it('is loading, then has the value', async () => {
  await show('a');
  expect([shown.isLoading, shown.value, root.textContent]).toEqual([true, undefined, 'loading']);

  await calls[0]!.answer('A');
  expect([shown.isLoading, shown.value, root.textContent]).toEqual([false, 'A', 'A']);
});

it('keeps what is shown while it is read again', async () => {
  await show('a');
  await calls[0]!.answer('old');

  await again();
  expect([shown.isLoading, root.textContent]).toEqual([false, 'old']);
  await calls[1]!.answer('new');
  expect(root.textContent).toBe('new');
});

it('makes one call of all that come while one is under way, after its answer', async () => {
  await show('a');
  await again();
  await again();
  expect(calls).toHaveLength(1);

  await calls[0]!.answer('first');
  expect([calls.length, root.textContent]).toEqual([2, 'first']);
  await calls[1]!.answer('second');
  expect([calls.length, root.textContent]).toEqual([2, 'second']);
});

it('drops the answer for what is no longer shown, and aborts its call', async () => {
  await show('a');
  await show('b');
  expect(calls.map((call) => [call.of, call.signal.aborted])).toEqual([
    ['a', true],
    ['b', false],
  ]);

  await calls[1]!.answer('B');
  await calls[0]!.answer('A, too late');
  expect(root.textContent).toBe('B');
});

it('forgets the value of before when something else is read', async () => {
  await show('a');
  await calls[0]!.answer('A');
  await show('b');
  expect([shown.isLoading, shown.value]).toEqual([true, undefined]);
});

it('has the error beside the value that was there, and loses it with the next answer', async () => {
  await show('a');
  await calls[0]!.answer('A');
  await again();
  await calls[1]!.refuse(new ApiError(404, 'RunNotFound', 'There is no such run.'));
  expect([shown.value, shown.error?.code, shown.isLoading]).toEqual(['A', 'RunNotFound', false]);

  await again();
  await calls[2]!.answer('B');
  expect([shown.value, shown.error]).toEqual(['B', undefined]);
});

it('shows a fault of the page itself as an error too', async () => {
  await show('a');
  await calls[0]!.refuse(new TypeError('x is undefined'));
  expect([shown.error?.code, shown.error?.why]).toEqual(['PageFault', 'TypeError: x is undefined']);
});

it('aborts when the component goes', async () => {
  await show('a');
  await act(() => render(null, root));
  expect(calls[0]!.signal.aborted).toBe(true);
});

it('remembers the last value there was', async () => {
  const Last = ({ value }: { value?: string }) => <p>{useLastValue(value)}</p>;
  const texts: (string | null)[] = [];
  for (const value of [undefined, 'A', undefined, 'B']) {
    await act(() => render(<Last {...(value ? { value } : {})} />, root));
    texts.push(root.textContent);
  }
  expect(texts).toEqual(['', 'A', 'A', 'B']);
});
