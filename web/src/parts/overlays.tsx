// Elements above the page: dialogs, menus, and short notes with an Undo.
import type { ComponentChildren } from 'preact';
import { signal } from '@preact/signals';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { asApiError } from '../lib/useResource';
import { Prose } from './prose';
import './overlays.css';

interface Note {
  id: number;
  text: string;
  isBad: boolean;
  action?: { label: string; run: () => unknown };
}

const notes = signal<readonly Note[]>([]);
let lastNote = 0;

/** Show a note for some seconds; one with an action stays longer. */
export function note(text: string, options: { isBad?: boolean; action?: Note['action'] } = {}): void {
  const id = ++lastNote;
  notes.value = [
    ...notes.value.slice(-3),
    { id, text, isBad: options.isBad ?? false, ...(options.action ? { action: options.action } : {}) },
  ];
  setTimeout(() => drop(id), options.action ? 12_000 : options.isBad ? 10_000 : 4_000);
}

/** Do something that may fail; the failure becomes a note. Returns whether it went well. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    const found = asApiError(error);
    note([found.what, found.why, found.hint].filter(Boolean).join(' '), { isBad: true });
    return false;
  }
}

const drop = (id: number): void => {
  notes.value = notes.value.filter((one) => one.id !== id);
};

export interface Question {
  title: string;
  text?: ComponentChildren;
  label: string;
  isDanger?: boolean;
  /** Ask for a text too; its answer is what `ask` gives. */
  input?: { label: string; value?: string; placeholder?: string };
}

const question = signal<{ asked: Question; answer: (value: string | null) => void } | null>(null);

/** Ask before something is done; null when the person said no, else the text ("" without an input). */
export function ask(asked: Question): Promise<string | null> {
  question.value?.answer(null);
  return new Promise((resolve) => {
    question.value = {
      asked,
      answer: (value) => {
        question.value = null;
        resolve(value);
      },
    };
  });
}

/** Drawn once, by the frame. */
export function Overlays() {
  return (
    <>
      {question.value && <Ask {...question.value} />}
      <div class="notes" role="status" aria-live="polite">
        {notes.value.map((one) => (
          <div key={one.id} class={`note${one.isBad ? ' bad' : ''}`}>
            <span>
              <Prose text={one.text} />
            </span>
            {one.action && (
              <button
                type="button"
                class="button small"
                onClick={() => {
                  drop(one.id);
                  void attempt(async () => one.action?.run());
                }}
              >
                {one.action.label}
              </button>
            )}
            <button type="button" class="button small quiet" aria-label="Close" onClick={() => drop(one.id)}>
              ×
            </button>
          </div>
        ))}
      </div>
    </>
  );
}

function Ask({ asked, answer }: { asked: Question; answer: (value: string | null) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog" aria-label={asked.title} onCancel={() => answer(null)}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          answer(input.current?.value ?? '');
        }}
      >
        <h2>{asked.title}</h2>
        {asked.text && <div class="soft">{asked.text}</div>}
        {asked.input && (
          <label class="stack small">
            {asked.input.label}
            <input
              ref={input}
              class="input"
              value={asked.input.value ?? ''}
              placeholder={asked.input.placeholder ?? ''}
            />
          </label>
        )}
        <div class="row dialog-buttons">
          <button type="button" class="button" onClick={() => answer(null)}>
            Cancel
          </button>
          <button type="submit" class={`button ${asked.isDanger ? 'danger' : 'primary'}`}>
            {asked.label}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** A button that opens a small panel below it; Escape or a click elsewhere closes it. */
export function Popover({
  label,
  title,
  children,
  align = 'left',
  isQuiet,
}: {
  label: ComponentChildren;
  title?: string;
  children: (close: () => void) => ComponentChildren;
  align?: 'left' | 'right';
  isQuiet?: boolean;
}) {
  const [isOpen, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!isOpen) return;
    const away = (event: Event): void => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    const key = (event: KeyboardEvent): void => {
      if (event.key !== 'Escape') return;
      setOpen(false);
      root.current?.querySelector('button')?.focus();
    };
    addEventListener('pointerdown', away);
    addEventListener('keydown', key);
    return () => {
      removeEventListener('pointerdown', away);
      removeEventListener('keydown', key);
    };
  }, [isOpen]);
  return (
    <div class="popover" ref={root}>
      <button
        type="button"
        class={`button${isQuiet ? ' quiet' : ''}`}
        title={title}
        aria-label={title}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {label}
      </button>
      {isOpen && <div class={`popover-panel ${align}`}>{children(() => setOpen(false))}</div>}
    </div>
  );
}

/** Entries of a menu in a Popover. */
export function MenuItem({
  children,
  onPick,
  isDanger,
}: {
  children: ComponentChildren;
  onPick: () => void;
  isDanger?: boolean;
}) {
  return (
    <button type="button" class={`menu-item${isDanger ? ' danger' : ''}`} onClick={onPick}>
      {children}
    </button>
  );
}
