// What the service says of itself: its operations, and the whole OpenAPI document.
import { useMemo } from 'preact/hooks';
import { part } from '../../api/http';
import { href } from '../../lib/router';
import { Section, Shown } from '../../parts/assets/layout';
import { Copy, Empty } from '../../parts/basics';
import { Source } from '../../parts/highlight/source';
import { operationsOf } from './openapi';
import type { TabProps } from './tab';

export function Document({ service, description }: TabProps) {
  return (
    <Shown resource={description} what="the OpenAPI document">
      {({ document, sample }) =>
        document ? (
          <>
            <Section title="Operations">
              <div class="scroll-x">
                <table class="plain-table">
                  <thead>
                    <tr>
                      <th>Request</th>
                      <th>What it does</th>
                      <th>
                        <span class="hidden-text">Try it</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {operationsOf(document, sample).map(({ method, path, summary }) => (
                      <tr key={`${method} ${path}`}>
                        <td>
                          <code>
                            {method} /{path}
                          </code>
                        </td>
                        <td class="soft">{summary}</td>
                        <td class="number">
                          <a
                            class="button small"
                            href={href(`/services/${part(service.name)}`, { tab: 'try', method, path: path || '/' })}
                            aria-label={`Try ${method} /${path}`}
                          >
                            Try it
                          </a>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            </Section>
            <Text document={document} />
          </>
        ) : (
          <Empty title="The service has no OpenAPI document yet">
            It comes with the first worker that is ready; a script that answers raw requests has none.
          </Empty>
        )
      }
    </Shown>
  );
}

function Text({ document }: { document: Record<string, unknown> }) {
  const text = useMemo(() => JSON.stringify(document, null, 2), [document]);
  return (
    <Section title="OpenAPI document" aside={<Copy text={text} />}>
      <Source text={text} language="json" label="The OpenAPI document" />
    </Section>
  );
}
