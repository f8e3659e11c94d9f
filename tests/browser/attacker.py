"""Another site on this machine: its pages, what browsers asked it for, and all that it may try against ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Tries everything that a page may do to another address, and keeps what it got to see.
ATTACK = """
window.seen = [];
const note = (how, what) => window.seen.push(`${how}: ${what}`);
const within = (promise) => Promise.race([promise, new Promise((done) => setTimeout(done, window.patienceMs ?? 4000))]);

async function attack(target, reads, posts) {
  const tries = [];
  for (const path of reads) {
    for (const mode of ['cors', 'no-cors']) {
      for (const credentials of ['include', 'omit']) {
        const answer = fetch(target + path, { mode, credentials });
        tries.push(answer.then(async (found) => note('fetch', await found.text()), () => 0));
      }
    }
    tries.push(loads(new Image(), target + path, 'img'));
    tries.push(loads(document.createElement('script'), target + path, 'script'));
    tries.push(loads(Object.assign(document.createElement('link'), { rel: 'stylesheet' }), target + path, 'style'));
    tries.push(streams(target + path));
    tries.push(socket(target.replace('http', 'ws') + path));
    tries.push(frames(target + path));
  }
  for (const [path, body] of posts) {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json']) {
      for (const mode of ['cors', 'no-cors']) {
        const init = { method: 'POST', mode, credentials: 'include', body, headers: { 'Content-Type': type } };
        tries.push(fetch(target + path, init).then(async (r) => note('post', await r.text()), () => 0));
      }
    }
    navigator.sendBeacon(target + path, body);
    navigator.sendBeacon(target + path, new Blob([body], { type: 'application/json' }));
    tries.push(form(target + path, body));
  }
  await Promise.all(tries.map(within));
}

function loads(element, address, how) {
  return new Promise((done) => {
    element.onload = () => { note(how, `${address} was loaded`); done(); };
    element.onerror = done;
    if (how === 'style') element.href = address; else element.src = address;
    if (how !== 'img') document.head.append(element);
  });
}

function streams(address) {
  return new Promise((done) => {
    const source = new EventSource(address, { withCredentials: true });
    source.onopen = () => { note('events', `${address} was opened`); source.close(); done(); };
    source.onerror = () => { source.close(); done(); };
  });
}

function socket(address) {
  return new Promise((done) => {
    const one = new WebSocket(address);
    one.onopen = () => { note('socket', `${address} was opened`); done(); };
    one.onerror = done;
  });
}

function frames(address) {
  return new Promise((done) => {
    const frame = document.createElement('iframe');
    frame.onload = () => {
      try { note('frame', frame.contentDocument.documentElement.outerHTML); } catch { /* another origin */ }
      done();
    };
    frame.src = address;
    document.body.append(frame);
  });
}

// JSON by a form: the name of its one field ends in what makes the rest a string.
function form(address, body) {
  return new Promise((done) => {
    const name = `into${Math.random()}`;
    const frame = Object.assign(document.createElement('iframe'), { name });
    document.body.append(frame);
    frame.onload = done;
    const how = { method: 'POST', action: address, enctype: 'text/plain', target: name };
    const one = Object.assign(document.createElement('form'), how);
    const cut = body.lastIndexOf('}');
    one.append(Object.assign(document.createElement('input'), { name: `${body.slice(0, cut)}, "x": "`, value: '"}' }));
    document.body.append(one);
    one.submit();
  });
}
"""


class Site:
    """`pages`: path → (content type, body). `asked`: what came in, as (method, path, headers, body)."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.pages: dict[str, tuple[str, str]] = {"/": ("text/html", "<!doctype html><title>attacker</title>")}
        self.headers: dict[str, str] = {}  # of every answer
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []

    def address(self, name: str = "evil.example", path: str = "/") -> str:
        return f"http://{name}:{self.port}{path}"


@contextmanager
def attacking() -> Iterator[Site]:
    """Serve a site on loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            site.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            kind, text = site.pages.get(self.path.partition("?")[0], ("text/plain", ""))
            self.send_response(200)
            for name, value in {"Content-Type": kind, **site.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = answer

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        site = Site(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
