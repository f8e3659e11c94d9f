"""`runyard users`: who may use a team's server."""

from __future__ import annotations

import click

from runyard.cli.commands.deleting import YES, ask
from runyard.cli.lazy import LazyGroup
from runyard.cli.output import moment, print_json, print_table
from runyard.cli.text import plain
from runyard.core.users import DEFAULT_LABEL, ROLES, USER, MintedToken, User, check_token_label, check_user_name
from runyard.sdk.workspaces.server import connect

ROLE = click.Choice(ROLES)
LABEL = click.option("--label", default=DEFAULT_LABEL, show_default=True, help="What the token is for.")


@click.group(cls=LazyGroup)
def users() -> None:
    """Add, list and remove users of a team's server, and change their tokens and roles.

    \b
      admin   everything
      user    submits, changes and deletes runs; no users, no compute targets, not the server
      reader  looks at everything and changes nothing
    """


@users.command()
@click.argument("name")
@click.option("--role", type=ROLE, default=USER, show_default=True, help="What the user may do.")
@LABEL
def add(name: str, role: str, label: str) -> None:
    """Make a user and print a token, which is told this once."""
    _print_token(connect().users.add(check_user_name(name), role=role, label=check_token_label(label)))


@users.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_users(as_json: bool) -> None:
    """List users with their roles, and when each token was last used."""
    found = connect().users.list()
    if as_json:
        print_json(found)
    elif found:
        rows = [row for user in found for row in _rows(user)]
        print_table(("USER", "ROLE", "TOKEN", "CREATED", "LAST USED"), rows)
    else:
        click.echo("There are no users: only the server's own token is good. `runyard users add NAME`.", err=True)


@users.command()
@click.argument("name")
@YES
def remove(name: str, yes: bool) -> None:
    """Remove a user. Tokens, signed-in browsers and open streams end within 5 s; runs stay."""
    ask(f"Remove user {check_user_name(name)} with all tokens?", yes)
    connect().users.remove(name)
    click.echo(f"User `{plain(name)}` is removed.", err=True)


@users.command()
@click.argument("name")
@LABEL
def rotate(name: str, label: str) -> None:
    """Print a new token in the place of all that a user has; those end within 5 s."""
    _print_token(connect().users.rotate(check_user_name(name), label=check_token_label(label)))


@users.command()
@click.argument("name")
@click.argument("role", type=ROLE)
def role(name: str, role: str) -> None:
    """Give a user another role."""
    changed = connect().users.set_role(check_user_name(name), role)
    click.echo(f"User `{plain(changed.name)}` has the role {plain(changed.role)} now.", err=True)


@users.command("add-token")
@click.argument("name")
@click.argument("label")
def add_token(name: str, label: str) -> None:
    """Print one more token of a user, for another machine."""
    _print_token(connect().users.add_token(check_user_name(name), check_token_label(label)))


@users.command("remove-token")
@click.argument("name")
@click.argument("label")
def remove_token(name: str, label: str) -> None:
    """End one token of a user; the others stay."""
    left = connect().users.remove_token(check_user_name(name), check_token_label(label))
    click.echo(f"Token `{plain(label)}` of user `{plain(name)}` is gone; {len(left.tokens)} left.", err=True)


def _print_token(minted: MintedToken) -> None:
    click.echo(minted.token)
    click.echo(
        f"This token of user `{plain(minted.user.name)}` ({plain(minted.user.role)}) is told only now. "
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
