// A part of the overview, with a title and a way to more of it.
import type { ComponentChildren } from 'preact';

export function Card({
  title,
  count,
  more,
  children,
  isFolded,
  tone,
}: {
  title: string;
  count?: number;
  /** A link at the right of the title. */
  more?: ComponentChildren;
  children: ComponentChildren;
  /** It can be opened, and is closed at first. */
  isFolded?: boolean;
  tone?: 'warn';
}) {
  const head = (
    <>
      <h2>{title}</h2>
      {count !== undefined && <span class="soft number">{count}</span>}
      <span class="grow" />
      {more}
    </>
  );
  if (isFolded) {
    return (
      <details class="card overview-card">
        <summary class="overview-head">{head}</summary>
        {children}
      </details>
    );
  }
  return (
    <section class={`card overview-card${tone ? ` ${tone}` : ''}`} aria-label={title}>
      <div class="overview-head">{head}</div>
      {children}
    </section>
  );
}
