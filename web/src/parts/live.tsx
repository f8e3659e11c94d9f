// The notice that the page may be out of date: the server does not answer, or is newer than this page.
import { connection, newVersion } from '../api/live';
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
  if (connection.value !== 'off') return null;
  return (
    <p class="live-notice warn" role="status">
      The server does not answer. What you see may be old; it is read again as soon as the server is back. Any{' '}
      <code>runyard</code> command starts a private server.
    </p>
  );
}
