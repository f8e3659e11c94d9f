// A text that becomes a field when it is clicked: Enter saves, Escape leaves it as it was.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

export function Editable({
  value,
  label,
  save,
  children,
  empty,
  isLong,
  maxLength,
}: {
  value: string;
  label: string;
  /** Whether it went well; if not, the field stays. */
  save: (value: string) => Promise<boolean>;
  /** How the text is shown. */
  children?: ComponentChildren;
  /** The button's label while there is no text. */
  empty?: string;
  isLong?: boolean;
  maxLength: number;
}) {
  const [isOpen, setOpen] = useState(false);
  const field = useRef<HTMLInputElement & HTMLTextAreaElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const wasOpen = useRef(false);
  useLayoutEffect(() => {
    if (isOpen) field.current?.select();
    else if (wasOpen.current) button.current?.focus();
    wasOpen.current = isOpen;
  }, [isOpen]);

  if (!isOpen) {
    const isEmpty = empty !== undefined && !value;
    return (
      <span class={`editable${isLong ? ' long' : ''}`}>
        {!isEmpty && children}
        <button
          ref={button}
          type="button"
          class="button small quiet editable-open"
          aria-label={isEmpty ? undefined : `Change the ${label.toLowerCase()}`}
          onClick={() => setOpen(true)}
        >
          {isEmpty ? empty : <Pencil />}
        </button>
      </span>
    );
  }
  const send = async (): Promise<void> => {
    const given = field.current?.value ?? '';
    if (given === value || (await save(given))) setOpen(false);
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') setOpen(false);
    if (event.key === 'Enter' && (!isLong || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void send();
    }
  };
  const common = {
    ref: field,
    class: 'input grow',
    'aria-label': label,
    placeholder: label,
    maxLength,
    onKeyDown: press,
    defaultValue: value,
  };
  return (
    <form
      class={`row editable-form${isLong ? ' long' : ''}`}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {isLong ? <textarea {...common} rows={4} /> : <input {...common} />}
      <button type="submit" class="button small primary">
        Save
      </button>
      <button type="button" class="button small" onClick={() => setOpen(false)}>
        Cancel
      </button>
    </form>
  );
}

const Pencil = () => (
  <svg
    width="12"
    height="12"
    viewBox="0 0 12 12"
    fill="none"
    stroke="currentColor"
    stroke-width="1.2"
    aria-hidden="true"
  >
    <path d="M8.2 1.6l2.2 2.2-6.2 6.2-2.7.5.5-2.7z" />
  </svg>
);
