// A canvas that fills its box: sized in the screen's own pixels, drawn once per frame at most.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { RefObject } from 'preact';

/** The width of an element's content, as it changes. */
export function useWidth(box: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(box.current);
    setWidth(Math.floor(box.current.clientWidth));
    return () => observer.disconnect();
  }, []);
  return width;
}

/** Draw on the canvas in the next frame whenever `deps` change. */
export function useDrawing(
  width: number,
  height: number,
  draw: (context: CanvasRenderingContext2D) => void,
  deps: readonly unknown[],
): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const context = canvas.current?.getContext('2d');
      if (!canvas.current || !context || !width) return;
      const scale = devicePixelRatio || 1;
      const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
      if (canvas.current.width !== w || canvas.current.height !== h)
        Object.assign(canvas.current, { width: w, height: h });
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      draw(context);
    });
    return () => cancelAnimationFrame(frame);
  }, [width, height, ...deps]);
  return canvas;
}

/** The text, shortened in its middle until it fits. */
export function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let kept = Math.min(text.length, 80);
  while (kept > 2 && context.measureText(shortened(text, kept)).width > width) kept--;
  return shortened(text, kept);
}

/** The text with its middle left out, so that at most `most` characters stay. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - end)}…${end ? text.slice(-end) : ''}`;
}
