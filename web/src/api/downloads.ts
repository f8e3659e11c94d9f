// Links to files of the API: the browser asks for them by itself, without our headers, so each gets a ticket first.
import { address, sendJson } from './http';

/** Make clicks on links to the API download the file; `attempt` shows the error when one fails. */
export function followDownloads(attempt: (work: () => Promise<unknown>) => unknown): void {
  document.addEventListener('click', (event) => {
    const link = (event.target as Element | null)?.closest?.('a');
    if (event.defaultPrevented || !link || !needsTicket(link)) return;
    event.preventDefault();
    attempt(() => follow(link));
  });
}

const needsTicket = (link: HTMLAnchorElement): boolean =>
  link.origin === location.origin &&
  link.pathname.startsWith('/api/') &&
  !new URLSearchParams(link.search).has('ticket');

async function follow(link: HTMLAnchorElement): Promise<void> {
  const { ticket } = await sendJson<{ ticket: string }>('POST', '/download-tickets', { path: link.pathname });
  const led = document.createElement('a');
  led.href = address(link.pathname, { ...Object.fromEntries(new URLSearchParams(link.search)), ticket });
  led.download = link.download;
  document.body.append(led);
  led.click();
  led.remove();
}
