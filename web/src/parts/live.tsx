// Notices about the server: it does not answer, it is newer than this page, or its disk is full or soon will be.
import { serverNotice } from '../api/http';
import { connection, newVersion } from '../api/live';
import { Prose } from './prose';
import './live.css';

export function LiveNotice() {
  if (newVersion.value !== null) {
    return (
      <p class="live-notice" role="status">
        The server is now Runyard {newVersion.value}; this page is of the version before.
        <button type="button" class="button small" onClick={() => location.reload()}>
          Reload
        </button>
      </p>
    );
  }
  if (connection.value !== 'off') {
    if (!serverNotice.value) return null;
    return (
      <p class="live-notice warn" role="status">
        <Prose text={serverNotice.value} />
      </p>
    );
  }
  return (
    <p class="live-notice warn" role="status">
      The server does not answer. What you see may be old; it is read again as soon as the server is back. Any{' '}
      <code>runyard</code> command starts a private server.
    </p>
  );
}
