// The two keys of a service: read when somebody asks to see them, and never kept.
import { useState } from 'preact/hooks';
import { getJson, sendJson } from '../../api/http';
import type { ServiceKeys, Webservice } from '../../api/services';
import { Section } from '../../parts/assets/layout';
import { Copy } from '../../parts/basics';
import { ask, attempt, note } from '../../parts/overlays';
import { apiOf } from './tab';

const NAMES = [
  ['Primary', 'primary'],
  ['Secondary', 'secondary'],
] as const;

export function Keys({ service }: { service: Webservice }) {
  const [keys, setKeys] = useState<ServiceKeys | null>(null);
  const path = `${apiOf(service)}/keys`;
  const read = (): Promise<boolean> => attempt(async () => setKeys(await getJson<ServiceKeys>(path)));
  const renew = async (name: 'Primary' | 'Secondary'): Promise<void> => {
    const title = `Make a new ${name.toLowerCase()} key?`;
    const text = 'The old one is refused at once; the other key goes on to work.';
    if ((await ask({ title, text, label: 'Make a new key', isDanger: true })) === null) return;
    if (await attempt(() => sendJson('POST', path, { key: name }))) {
      note(`There is a new ${name.toLowerCase()} key.`);
      if (keys) await read();
    }
  };
  return (
    <Section
      title="Keys"
      aside={
        <button
          type="button"
          class="button small"
          aria-expanded={keys !== null}
          onClick={() => (keys ? setKeys(null) : void read())}
        >
          {keys ? 'Hide keys' : 'Show keys'}
        </button>
      }
    >
      {!service.settings.auth && (
        <p class="soft small asset-none">
          Requests to this service need no key now; these are used once it asks for one.
        </p>
      )}
      <table class="plain-table">
        <tbody>
          {NAMES.map(([name, field]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>
                {keys ? (
                  <span class="copyable">
                    <code>{keys[field]}</code>
                    <Copy text={keys[field]} />
                  </span>
                ) : (
                  <span class="faint">
                    <span aria-hidden="true">••••••••••••</span>
                    <span class="hidden-text">hidden</span>
                  </span>
                )}
              </td>
              <td class="number">
                <button
                  type="button"
                  class="button small"
                  aria-label={`New key in place of the ${field} one`}
                  onClick={() => void renew(name)}
                >
                  New key
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}
