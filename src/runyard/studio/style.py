"""The one style sheet, served as /style.css: pages allow no inline style."""

STYLE = """
:root {
  color-scheme: light dark;
  --line: #8884; --dim: #808080; --good: #1a7f37; --bad: #c62828; --live: #0b65c2; --warn: #b26a00;
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
a { color: inherit; }
nav { font-size: .9rem; }
table { border-collapse: collapse; width: 100%; }
th, td {
  text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere;
}
th { font-weight: 600; color: var(--dim); white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
pre {
  background: #8881; padding: .7rem; overflow: auto; max-height: 30rem;
  font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
}
.status { font-weight: 600; }
.Completed { color: var(--good); }
.Failed { color: var(--bad); }
.Canceled, .dim { color: var(--dim); }
.Running, .Starting, .Preparing, .Finalizing { color: var(--live); }
.error { border-left: 4px solid var(--bad); padding: .2rem 1rem; background: #c6282811; }
.warning { border-left: 4px solid var(--warn); padding: .2rem 1rem; }
svg { display: block; width: 240px; height: 48px; }
svg polygon { fill: var(--live); fill-opacity: .3; stroke: var(--live); stroke-width: 1; }
"""
