// The filter box: suggestions during typing, and the server's error when the filter cannot be parsed.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ApiError } from '../../api/http';
import { useKeys } from '../../lib/keys';
import { suggest, taken, type Known, type Suggestions } from './suggest';

export function FilterBox({
  filter,
  known,
  error,
  onApply,
}: {
  filter: string;
  known: Known;
  error: ApiError | undefined;
  onApply: (filter: string) => void;
}) {
  const [text, setText] = useState(filter);
  const [found, setFound] = useState<Suggestions>();
  const [chosen, setChosen] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => setText(filter), [filter]);
  useKeys({ '/': () => input.current?.focus() });

  const look = (): Suggestions | undefined => {
    const box = input.current;
    if (!box) return undefined;
    const next = suggest(box.value, box.selectionStart ?? box.value.length, known);
    setFound(next);
    setChosen(-1);
    return next;
  };
  useLayoutEffect(() => {
    if (!input.current?.value || document.activeElement !== input.current) return;
    const kept = found?.choices[chosen]?.text;
    const next = look();
    if (kept !== undefined) setChosen(next?.choices.findIndex((choice) => choice.text === kept) ?? -1);
  }, [known.columns]);
  const close = (): void => setFound(undefined);
  const take = (at: number): void => {
    const choice = found?.choices[at];
    const box = input.current;
    if (!found || !choice || !box) return;
    const next = taken(box.value, found, choice);
    setText(next.text);
    box.value = next.text;
    box.focus();
    box.setSelectionRange(next.cursor, next.cursor);
    look();
  };
  const apply = (): void => {
    close();
    onApply(text.trim());
  };
  const press = (event: KeyboardEvent): void => {
    const choices = found?.choices.length ?? 0;
    if (event.key === 'Enter') chosen >= 0 ? take(chosen) : apply();
    else if (event.key === 'Tab' && found && chosen >= 0) take(chosen);
    else if (event.key === 'ArrowDown' && choices) setChosen((chosen + 1) % choices);
    else if (event.key === 'ArrowUp' && choices) setChosen((chosen <= 0 ? choices : chosen) - 1);
    else if (event.key === 'ArrowDown') return void look();
    else if (event.key === 'Escape' && found) close();
    else if (event.key === 'Escape') input.current?.blur();
    else return;
    event.preventDefault();
  };
  return (
    <div class="rt-filter grow">
      <input
        ref={input}
        class="input mono rt-filter-input"
        type="text"
        role="combobox"
        aria-label="Filter"
        aria-expanded={found !== undefined}
        aria-controls="filter-choices"
        aria-activedescendant={chosen >= 0 ? `filter-choice-${chosen}` : undefined}
        aria-invalid={error !== undefined}
        autocomplete="off"
        spellcheck={false}
        maxLength={4000}
        placeholder={'Filter: metrics.loss < 0.1 and tags.team = "vision"'}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          look();
        }}
        onClick={look}
        onKeyDown={press}
        onBlur={() => setTimeout(close, 120)}
      />
      {text && (
        <button
          type="button"
          class="rt-clear"
          aria-label="Clear the filter"
          onClick={() => {
            setText('');
            close();
            onApply('');
          }}
        >
          ×
        </button>
      )}
      {found && (
        <ul id="filter-choices" class="rt-choices" role="listbox">
          {found.choices.map((one, at) => (
            <li
              key={one.text}
              id={`filter-choice-${at}`}
              role="option"
              aria-selected={at === chosen}
              onPointerDown={(event) => {
                event.preventDefault();
                take(at);
              }}
            >
              <code class="cut">{one.text}</code>
              <span class="faint small">{one.note}</span>
            </li>
          ))}
        </ul>
      )}
      {error && (
        <div class="rt-refused small" role="alert">
          <strong>{error.what}</strong>
          {error.why && <pre class="mono">{error.why}</pre>}
          {error.hint && <p class="soft">{error.hint}</p>}
        </div>
      )}
    </div>
  );
}
