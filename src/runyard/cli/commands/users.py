"""`runyard login`, `runyard logout`, `runyard users` and `runyard mlflow`: who uses a server, and with which token.

`login` stores the server's address, the certificate to trust, and the token. `mlflow env` tells MLflow's clients what
they need to reach the same server.
"""

from __future__ import annotations

import sys
from shlex import quote

from runyard import cli
from runyard.cli.commands.experiments import YES, ask
from runyard.cli.output import moment, print_json, print_table
from runyard.cli.text import plain
from runyard.core.config.logins import find_login, remove_login, store_login
from runyard.core.config.settings import read_settings
from runyard.core.errors import InvalidArgument, NotTrusted
from runyard.core.users import DEFAULT_LABEL, ROLES, USER, MintedToken, User, check_token_label, check_user_name
from runyard.sdk.workspaces.server import Address, connect
from runyard.sdk.workspaces.server import login as at_server
from runyard.sdk.workspaces.tracking import client_variables
from runyard.sdk.workspaces.workspace import Workspace

ROLE = cli.Choice(ROLES)
LABEL = cli.option("--label", default=DEFAULT_LABEL, show_default=True, help="A label that says what the token is for.")


@cli.command()
@cli.argument("url")
@cli.option("--fingerprint", help="SHA-256 fingerprint of the certificate to trust, instead of asking.")
@cli.option("--token-stdin", is_flag=True, help="Read the token from stdin instead of asking for it.")
def login(url: str, fingerprint: str | None, token_stdin: bool) -> None:
    """Use the team server at URL from now on: `https://HOST:PORT`, or HOST:PORT.

    \b
      runyard login team.example:8787
      runyard login https://10.0.0.5:8787 --fingerprint 1f3a… --token-stdin < token

    The token is the one that `runyard users add` printed. It is kept in <home>/login.json, which only you can read.
    """
    address = at_server.server_address(url)
    pin = _trusted(address, at_server.pin_of(address, fingerprint), can_ask=not token_stdin) if address.tls else ""
    if not address.tls:
        cli.echo(f"{plain(address)} is plain HTTP: whoever is on the way reads your token.", err=True)
    token = _read_token(token_stdin)
    found, info, me = at_server.try_token(address, pin, token)
    store_login(read_settings().home, found)
    name = f" as {plain(me.name)} ({plain(me.role)})" if me.name else " as its owner" if me.role == "owner" else ""
    cli.echo(
        f"Logged in to {plain(found.url)} (Runyard {plain(info.version)}){name}. Calls go there from now on; "
        "`runyard studio` opens its page.",
        err=True,
    )


@cli.command()
@cli.argument("url", required=False)
def logout(url: str | None) -> None:
    """Forget the team server at URL (default: the current one) and use your private server again."""
    home = read_settings().home
    wanted = str(at_server.server_address(url)) if url else None
    gone = remove_login(home, wanted)
    if gone is None:
        cli.echo(f"You were not logged in{f' to {plain(wanted)}' if wanted else ''}.", err=True)
        return
    left = find_login(home)
    goes_to = left.url if left else "your private server"
    cli.echo(f"Logged out of {plain(gone.url)}. Calls go to {plain(goes_to)} from now on.", err=True)


def _trusted(address: Address, pin: str, *, can_ask: bool) -> str:
    """Return the fingerprint to pin; "" where an authority vouches for the certificate."""
    found = at_server.look_at(address)
    if pin:
        return at_server.check_pin(address, pin, found)
    if found.is_vouched:
        return ""
    cli.echo(f"No authority vouches for the certificate of {plain(address)}. Its SHA-256 fingerprint is", err=True)
    cli.echo(f"  {found.fingerprint}", err=True)
    cli.echo("Compare it with `runyard server status` on the server's machine.", err=True)
    if not can_ask or not sys.stdin.isatty():
        raise NotTrusted(
            "Nobody said that this certificate can be trusted.",
            why="There is no terminal to ask at.",
            hint=f"runyard login {address} --fingerprint {found.fingerprint}, when it is the server's.",
        )
    cli.confirm("Is it the same?", abort=True, err=True)
    return found.fingerprint


def _read_token(from_stdin: bool) -> str:
    text = sys.stdin.readline() if from_stdin else cli.prompt("Token", hide_input=True, err=True)
    token = str(text).strip()
    if not token or not all(33 <= ord(char) <= 126 for char in token):
        raise InvalidArgument(
            "That is not a token.",
            why="A token is one word, such as `runyard users add NAME` prints on the server's machine.",
            hint="Have its first line ready on stdin, or type it when asked." if from_stdin else "Type it again.",
        )
    return token


@cli.group()
def users() -> None:
    """Add, list and remove users of a team's server, and change their tokens and roles.

    \b
      admin   everything
      user    submits, changes and deletes runs; no users, no compute targets, not the server
      reader  looks at everything and changes nothing
    """


@users.command()
@cli.argument("name")
@cli.option("--role", type=ROLE, default=USER, show_default=True, help="What the user may do.")
@LABEL
def add(name: str, role: str, label: str) -> None:
    """Create a user and print its token. It is shown only once."""
    _print_token(connect().users.add(check_user_name(name), role=role, label=check_token_label(label)))


@users.command("list")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_users(as_json: bool) -> None:
    """List users with their roles, and when each token was last used."""
    found = connect().users.list()
    if as_json:
        print_json(found)
    elif found:
        rows = [row for user in found for row in _rows(user)]
        print_table(("USER", "ROLE", "TOKEN", "CREATED", "LAST USED"), rows)
    else:
        cli.echo("There are no users: only the server's own token is good. `runyard users add NAME`.", err=True)


@users.command()
@cli.argument("name")
@YES
def remove(name: str, yes: bool) -> None:
    """Remove a user. Tokens, signed-in browsers and open streams end within 5 s; runs stay."""
    ask(f"Remove user {check_user_name(name)} with all tokens?", yes)
    connect().users.remove(name)
    cli.echo(f"User `{plain(name)}` is removed.", err=True)


@users.command()
@cli.argument("name")
@LABEL
def rotate(name: str, label: str) -> None:
    """Replace all tokens of a user with a new one and print it. The old ones stop working within 5 s."""
    _print_token(connect().users.rotate(check_user_name(name), label=check_token_label(label)))


@users.command()
@cli.argument("name")
@cli.argument("role", type=ROLE)
def role(name: str, role: str) -> None:
    """Give a user another role."""
    changed = connect().users.set_role(check_user_name(name), role)
    cli.echo(f"User `{plain(changed.name)}` has the role {plain(changed.role)} now.", err=True)


@users.command("add-token")
@cli.argument("name")
@cli.argument("label")
def add_token(name: str, label: str) -> None:
    """Create one more token for a user, for another machine, and print it."""
    _print_token(connect().users.add_token(check_user_name(name), check_token_label(label)))


@users.command("remove-token")
@cli.argument("name")
@cli.argument("label")
def remove_token(name: str, label: str) -> None:
    """Revoke one token of a user; the others stay valid."""
    left = connect().users.remove_token(check_user_name(name), check_token_label(label))
    cli.echo(f"Token `{plain(label)}` of user `{plain(name)}` is gone; {len(left.tokens)} left.", err=True)


def _print_token(minted: MintedToken) -> None:
    cli.echo(minted.token)
    cli.echo(
        f"This token of user `{plain(minted.user.name)}` ({plain(minted.user.role)}) is shown only now. "
        "With it, `runyard login URL` signs a machine in.",
        err=True,
    )


def _rows(user: User) -> list[tuple[str, str, str, str, str]]:
    if not user.tokens:
        return [(user.name, user.role, "(none)", moment(user.created_at), "")]
    return [
        (user.name, user.role, token.label, moment(token.created_at), moment(token.seen_at) or "never")
        for token in user.tokens
    ]


@cli.group()
def mlflow() -> None:
    """Lead MLflow's clients to this workspace."""


@mlflow.command("env")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def print_variables(as_json: bool) -> None:
    """Print the variables that MLflow's clients read, in any language: the workspace's address and your token.

    \b
      eval "$(runyard mlflow env)"
      mlflow runs list --experiment-id 0
    """
    workspace = Workspace.from_config()
    found = client_variables(workspace._client.address, workspace.name)
    if as_json:
        return print_json(found)
    for name, value in found.items():
        cli.echo(f"export {name}={quote(value)}")
    return None
