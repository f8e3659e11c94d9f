// Mounts its children only while they are within 400 px of the visible part of the page: a thousand charts stay fast.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

export function LazyMount({ height, children }: { height: number; children: () => ComponentChildren }) {
  const root = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);
  useLayoutEffect(() => {
    const watching = new IntersectionObserver((entries) => setNear(entries[entries.length - 1]!.isIntersecting), {
      rootMargin: '400px',
    });
    watching.observe(root.current!);
    return () => watching.disconnect();
  }, []);
  return (
    <div ref={root} style={{ minHeight: `${height}px` }}>
      {isNear && children()}
    </div>
  );
}
