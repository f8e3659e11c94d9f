"""Which names of options and variables announce a secret: `--db-password`, `PGPASSWORD`, `dbPassword`, `API_KEY_2`.

A name is read word by word, so `tokenizer`, `MONKEY`, `PASSAGE` and `--key-dim` announce nothing. Where a word has
other meanings (`token`, `key`, `pass`, `auth`), the words before it and the value decide.
"""

from __future__ import annotations

import re
from functools import lru_cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LONGEST = 128
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# What may follow the word that counts: `API_KEY_2`, `DB_PASSWORD_PROD`.
_ADDITIONS = _words(
    "prod production dev test testing staging stage live old new backup primary secondary value plain raw b64 base64 "
    "env var str string"
)
_ALWAYS = _words(
    "password passwd passphrase passcode pwd secret credential authorization apikey pat dsn sas cookie "
    "connectionstring connstr"
)
_GLUED = re.compile(
    r"(?:password|passwd|passphrase|secretkey|clientsecret|api(?:key|token|secret)|(?:access|auth|refresh|bearer|sas)token"
    r"|(?:access|private|account|secret|storage|encryption|signing|master)key|connectionstring|dbpass|userpass)$"
)
_TWO = frozenset({("connection", "string"), ("conn", "string"), ("conn", "str"), ("connection", "str")})
# Words before `token` and `key` that make it one that opens something.
_OPENS = _words(
    "access account admin api app auth azure aws anthropic bearer bot client cohere comet databricks deploy encryption "
    "gcp gh gitea github gitlab google gpg groq hf hub huggingface id kaggle license login master mistral neptune npm "
    "oauth openai personal private pypi refresh registry replicate sas secret security sentry service session shared "
    "signing slack ssh storage stripe subscription telegram twilio user vault wandb webhook write"
)
_NO_TOKEN = _words(
    "bos cls eos end first forced image last mask max min new next num pad per prefix prompt sep special start stop "
    "suffix total trigger unk video vision word"
)
_NO_KEY = _words(
    "cache column config dict feature foreign group hot index join label lookup map metric object partition prefix "
    "primary public query registry routing s sort state target text"
)
_NO_PASS = _words("all backward band by first forward full high last low multi n num one second single two")
_CONSTANT = re.compile(
    r"(?:true|false|yes|no|on|off|none|null|auto|default)?|\$\{?\w+\}?|\$\(.*|\{\{.*\}\}"
    r"|(?-i:<[A-Z]+(?:_[A-Z]+)*>)",  # what stands for a secret: Hugging Face logs `<HUB_TOKEN>`
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[-+]?[0-9_]*\.?[0-9]+(?:e[-+]?[0-9]+)?", re.IGNORECASE)
_PATH = re.compile(r"(?:[~.]{0,2}/|[A-Za-z]:\\).*|[\w./-]+\.(?:json|ya?ml|toml|ini|cfg|conf|txt|pem|key|crt|pub|env)")
_MARK = re.compile(r"<.*>|\[.*\]|\|.*\||#+|\S{1,5}")  # `<pad>`, `[MASK]`, `</s>`, `##`


def is_secret(name: str, value: str, *, is_variable: bool = False) -> bool:
    """Whether an option or a variable of that name holds a secret, given its value.

    Variables are less often hyper-parameters: `X_KEY` and `X_TOKEN` count where `--x-key` may be the name of a column.
    """
    kind = _kind_of(name[-_LONGEST:])  # what is remembered should be small
    if kind is None or _CONSTANT.fullmatch(value):
        return False
    if kind == "always":
        return True
    if kind == "path":  # the secret itself, or where it lies
        return _PATH.fullmatch(value) is None
    if kind == "credentials":
        return _PATH.fullmatch(value) is None and _NUMBER.fullmatch(value) is None
    if kind == "auth":
        return ":" in value or looks_random(value)
    if _NUMBER.fullmatch(value) or _PATH.fullmatch(value):
        return False
    if kind == "token":
        return _MARK.fullmatch(value) is None or looks_random(value)
    return is_variable or looks_random(value)  # a key of some kind


def is_plural(name: str) -> bool:
    """Whether all words that follow the option are secrets: `--passwords a b`."""
    return name.lower().endswith(("passwords", "secrets"))


def looks_random(value: str) -> bool:
    """Whether a value is long, without separators, and of letters and digits mixed."""
    if len(value) < 16 or not re.fullmatch(r"[\w+=~.-]+", value):
        return False
    return bool(
        re.search(r"[0-9]", value)
        and re.search(r"[A-Za-z]", value)
        and not re.fullmatch(r"[a-z]+[-_.]?v?[0-9.]+", value)
    )


@lru_cache(maxsize=4096)
def _kind_of(name: str) -> str | None:
    words = [word.lower() for word in _WORDS.findall(name)]
    if tuple(words[-2:]) in _TWO:
        return "always"
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _ADDITIONS):
        words.pop()
    if not words:
        return None
    last, before = _singular(words[-1]), set(words[:-1])
    if last == "pwd" and not before - {"old"}:
        return "path"  # the shell's own variables name folders
    if last == "credential":
        return "credentials"
    if last in _ALWAYS or _GLUED.search(last):
        return "path" if last.endswith("key") else "always"
    if last == "pass":
        return None if before & _NO_PASS else "credentials"
    if last == "auth":
        return "auth"
    if last == "token" and words[-1] == "token":
        return None if before & _NO_TOKEN else "path" if not before or before & _OPENS else "token"
    if last == "key":
        return "path" if before & _OPENS else None if before & _NO_KEY else "key"
    return None


def _singular(word: str) -> str:
    return word[:-1] if word in ("passwords", "secrets", "credentials", "keys", "cookies") else word
