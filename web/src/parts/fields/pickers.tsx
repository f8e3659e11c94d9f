// Choosing what a plot shows: one field from a list, or several.
import { number } from '../../lib/format';
import { Popover } from '../overlays';
import type { Field } from './values';
import './fields.css';

const GROUPS = ['Parameters', 'Metrics', 'Run'] as const;

export function FieldSelect({
  label,
  fields,
  value,
  none,
  onPick,
}: {
  label: string;
  fields: readonly Field[];
  value: string;
  /** The words for no field, where that can be chosen. */
  none?: string;
  onPick: (id: string) => void;
}) {
  return (
    <label class="field-select small">
      <span class="soft">{label}</span>
      <select class="input" value={value} onChange={(event) => onPick(event.currentTarget.value)}>
        {none && <option value="">{none}</option>}
        {GROUPS.map((group) => {
          const inside = fields.filter((field) => field.group === group);
          return inside.length ? (
            <optgroup key={group} label={group}>
              {inside.map((field) => (
                <option key={field.id} value={field.id}>
                  {field.label}
                </option>
              ))}
            </optgroup>
          ) : null;
        })}
      </select>
    </label>
  );
}

export function FieldChecks({
  label,
  fields,
  chosen,
  onPick,
}: {
  label: string;
  fields: readonly Field[];
  chosen: readonly string[];
  onPick: (ids: string[]) => void;
}) {
  return (
    <Popover label={`${label} (${chosen.length})`}>
      {() => (
        <div class="field-checks">
          {GROUPS.map((group) => {
            const inside = fields.filter((field) => field.group === group);
            return inside.length ? (
              <fieldset key={group}>
                <legend class="small soft">{group}</legend>
                {inside.map((field) => (
                  <label key={field.id}>
                    <input
                      type="checkbox"
                      checked={chosen.includes(field.id)}
                      onChange={(event) =>
                        onPick(
                          event.currentTarget.checked ? [...chosen, field.id] : chosen.filter((id) => id !== field.id),
                        )
                      }
                    />
                    <span class="cut" title={field.label}>
                      {field.label}
                    </span>
                  </label>
                ))}
              </fieldset>
            ) : null;
          })}
        </div>
      )}
    </Popover>
  );
}

/** What the colours mean, low to high. */
export function Ramp({ field }: { field: Field }) {
  const numbers = field.values.filter((value): value is number => typeof value === 'number');
  if (!numbers.length || numbers.length !== field.values.filter((value) => value !== null).length) return null;
  const [low, high] = [numbers.reduce((a, b) => Math.min(a, b)), numbers.reduce((a, b) => Math.max(a, b))];
  return (
    <span class="ramp small soft number" title={`Colour: ${field.label}`}>
      {number(low)}
      <span class="ramp-bar" aria-hidden="true" />
      {number(high)}
    </span>
  );
}
