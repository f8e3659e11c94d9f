"""Secrets that are recognised by their form anywhere in a text: tokens of services, passwords in addresses.

The table states what the services publish about their tokens: prefix, alphabet, length.
`tests/engine/secrets_corpus.py` has examples, and texts that must stay readable. The texts are untrusted, so every
pattern that could scan for long before it fails has a limit.
"""

from __future__ import annotations

import re

from runyard.core.config.logins import HIDDEN, hide_passwords
from runyard.core.secret_names import is_secret

_TOKENS = (
    r"gh[pousr]_\w{20,}",  # GitHub
    r"github_pat_\w{20,}",
    r"gl(?:pat|dt|ft|soat|rt|ptt|cbt|agent|imt)-[\w-]{16,}",  # GitLab
    r"hf_[A-Za-z0-9]{16,}",  # Hugging Face
    r"sk-[\w-]{16,}",  # OpenAI, Anthropic and others
    r"gsk_[A-Za-z0-9]{20,}",  # Groq
    r"nvapi-[\w-]{20,}",  # NVIDIA
    r"r8_[A-Za-z0-9]{30,}",  # Replicate
    r"pplx-[A-Za-z0-9]{30,}",  # Perplexity
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"xox[abeoprs]-[\w-]{10,}",  # Slack
    r"xapp-[\w-]{16,}",
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",  # AWS
    r"AIza[\w-]{35}",  # Google
    r"ya29\.[\w-]{16,}",
    r"GOCSPX-[\w-]{16,}",
    r"ry[tur]_[0-9a-f]{16,}",  # ours
    r"pypi-[\w-]{16,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"dop_v1_[0-9a-f]{40,}",  # DigitalOcean
    r"dapi[0-9a-f]{32}(?:-\d)?",  # Databricks
    r"SG\.[\w-]{16,64}\.[\w-]{16,}",  # SendGrid
    r"hv[sb]\.[\w-]{20,}",  # HashiCorp Vault
    r"glsa_[A-Za-z0-9]{30,}\w*",  # Grafana
    r"tskey-[\w-]{16,}",  # Tailscale
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",  # Shopify
    r"ATATT3[\w=-]{20,}",  # Atlassian
    r"lin_api_[A-Za-z0-9]{30,}",  # Linear
    r"sntry[su]_[\w+=-]{20,}",  # Sentry
    r"sq0(?:atp|csp)-[\w-]{20,}",  # Square
    r"[\w.~-]{3}8Q~[\w.~-]{30,}",  # Entra ID client secrets
    r"AGE-SECRET-KEY-1[0-9A-Z]{50,}",
    r"\d{8,10}:AA[\w-]{32,}",  # Telegram
    r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}",  # Discord
    r"(?<!-)eyJ[\w-]{4,2048}\.eyJ[\w-]{4,}(?:\.[\w-]*)?",  # JSON Web Tokens
)
_TOKEN = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(_TOKENS)})")
_HOOK = re.compile(r"(https://(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/)[^\s'\"]+")
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----).*?(?=-----END|\Z)", re.DOTALL)
_FIELD = re.compile(
    r"((?:^|[?&;\s,'\"])(?:accountkey|sharedaccesskey|sharedsecret|(?:ssl|db|user)?_?(?:password|passwd)|pwd|client_secret|secret"
    r"|(?:access|auth|refresh|id|api|session)_?token|api_?key|x-(?:amz|goog)-(?:signature|credential|security-token))\s*=\s*)"
    r"(?!\$)(?:'[^']*'|\"[^\"]*\"|[^&;\s'\",]+)",
    re.IGNORECASE,
)
_QUERY_FIELD = re.compile(
    r"([?&](?:(?:sig|signature|password|apikey)=(?=[^&\s'\"#]{6})|(?:token|key|code|auth)=(?=[^&\s'\"#]{16})))[^&\s'\"#]+",
    re.IGNORECASE,
)
_SAS = re.compile(r"(SharedAccessSignature=)[^;\s'\"]+", re.IGNORECASE)
_HEADER = re.compile(
    r"(\b(?:proxy-)?(?:authorization|cookie|(?:[a-z]{1,20}-){0,4}(?:api-?key|token|secret))\s*:\s+)"
    r"(?!\$)((?:bearer|basic|token|apikey|negotiate)\s+)?[^\s'\"][^'\"\r\n]*",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(\b(?:bearer|basic)\s+)(?=[\w.~+/=-]*[0-9A-Z])[\w.~+/=-]{16,}", re.IGNORECASE)
_QUOTED_FIELD = re.compile(
    r"""(?P<head>\\?(?P<q>["'])(?P<name>[\w.-]{2,64})\\?(?P=q)\s*:\s*\\?(?P<r>["']))(?P<value>[^"'\\]+)"""
)
_NAMED = re.compile(r"(?<![\w.-])((?:--?)?[A-Za-z][\w.-]{1,63})(\s*[=:]\s*)([^\s'\",;&]+)")
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
_HINT = re.compile(r"[=:_@~-]|AKIA|ASIA|AIza|dapi|\.")  # no secret of a known form is without one of these


def hide_values(text: str) -> str:
    """Return the text with each secret that is known by its form hidden; of an address only the password."""
    if len(text) < 8 or _HINT.search(text) is None:
        return text
    if "://" in text:
        text = _HOOK.sub(rf"\1{HIDDEN}", hide_passwords(text, keep_user=True))
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(rf"\1 {HIDDEN} ", text)
    text = _TOKEN.sub(HIDDEN, text)
    if "=" in text:
        text = _QUERY_FIELD.sub(rf"\1{HIDDEN}", _FIELD.sub(rf"\1{HIDDEN}", _SAS.sub(rf"\1{HIDDEN}", text)))
    if ":" in text:
        text = _HEADER.sub(lambda found: f"{found[1]}{found[2] or ''}{HIDDEN}", text)
        text = _QUOTED_FIELD.sub(_hide_quoted_field, text)
    return _BEARER.sub(rf"\1{HIDDEN}", text) if " " in text else text


def hide_in_text(text: str) -> str:
    """Return some lines of a log with what looks like a secret hidden: by its form, or by the name before it."""
    return hide_values(_NAMED.sub(_hide_named, text))


class LineRedactor:
    """Hides secrets line by line, also those that go over many lines: private keys."""

    def __init__(self) -> None:
        self._is_in_key = False

    def hide(self, line: str) -> str:
        if self._is_in_key:
            self._is_in_key = "-----END" not in line
            return HIDDEN if self._is_in_key else line
        self._is_in_key = _KEY_BEGINS.search(line) is not None and "-----END" not in line
        return line if self._is_in_key else hide_in_text(line)


def _hide_named(found: re.Match[str]) -> str:
    if found[2].startswith(":") and found[3].startswith("//"):
        return found[0]
    return f"{found[1]}{found[2]}{HIDDEN}" if is_secret(found[1], found[3]) else found[0]


def _hide_quoted_field(found: re.Match[str]) -> str:
    return found["head"] + HIDDEN if is_secret(found["name"], found["value"], is_variable=True) else found[0]
