// @vitest-environment happy-dom
import { render } from 'preact';
import { useState } from 'preact/hooks';
import { act } from 'preact/test-utils';
import { beforeEach, expect, it } from 'vitest';
import { ChartControls } from './controls';
import type { ChartView } from './model';

let root: HTMLElement;
let views: ChartView[];

/** The controls as a page uses them: each change is the next view. */
function Page({ first }: { first: ChartView }) {
  const [view, setView] = useState(first);
  const change = (next: ChartView): void => {
    views.push(next);
    setView(next);
  };
  return <ChartControls view={view} onChange={change} />;
}

const show = (first: ChartView): Promise<void> => act(() => render(<Page first={first} />, root));
const axis = (): HTMLSelectElement => root.querySelector('select')!;
const log = (): HTMLButtonElement => root.querySelector('button')!;
const smoothing = (): HTMLInputElement => root.querySelector('input')!;

beforeEach(() => {
  root = document.body.appendChild(document.createElement('div'));
  views = [];
  return () => {
    render(null, root);
    root.remove();
  };
});

it('shows the view that it is given', async () => {
  await show({ x: 'wall', isLog: true, smoothing: 0.6 });
  expect([...axis().options].map((one) => one.text)).toEqual(['Step', 'Relative time', 'Wall time']);
  expect([axis().value, log().getAttribute('aria-pressed'), smoothing().value]).toEqual(['wall', 'true', '0.6']);
  expect(root.querySelector('output')!.textContent).toBe('0.60');
});

it('changes the x axis and nothing else', async () => {
  await show({ x: 'step', isLog: true, smoothing: 0.3 });
  await act(() => {
    axis().value = 'relative';
    axis().dispatchEvent(new Event('change', { bubbles: true }));
  });
  expect(views).toEqual([{ x: 'relative', isLog: true, smoothing: 0.3 }]);
});

it('turns the logarithmic axis on and off', async () => {
  await show({ x: 'step', isLog: false, smoothing: 0 });
  await act(() => log().click());
  expect(log().getAttribute('aria-pressed')).toBe('true');
  await act(() => log().click());
  expect(views.map((view) => view.isLog)).toEqual([true, false]);
});

it('smooths while the slider moves, and says by how much', async () => {
  await show({ x: 'step', isLog: false, smoothing: 0 });
  expect(root.querySelector('output')!.textContent).toBe('off');
  await act(() => {
    smoothing().value = '0.95';
    smoothing().dispatchEvent(new Event('input', { bubbles: true }));
  });
  expect(views).toEqual([{ x: 'step', isLog: false, smoothing: 0.95 }]);
  expect(root.querySelector('output')!.textContent).toBe('0.95');
});
