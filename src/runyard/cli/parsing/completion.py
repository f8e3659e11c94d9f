"""Completion of command lines in bash, zsh and fish: the shells' scripts, and the answers that these ask us for.

A script calls the program with `_RUNYARD_COMPLETE` set to `<shell>_complete`, and `COMP_WORDS` to the line up to the
cursor. Loads when a shell asks, or for `runyard completion`.
"""

from __future__ import annotations

import shlex
from typing import List, Mapping, Sequence, Tuple

from runyard.cli.parsing.commands import CliCommand, CommandGroup
from runyard.cli.parsing.context import Context
from runyard.cli.parsing.parameters import CompletionItem, Option, Parameter
from runyard.cli.parsing.tokens import sort_tokens

WORD_BREAKS = "=:"  # bash completes what follows the last of them

BASH = """\
_runyard_completion() {
    local IFS=$'\\n' answer
    COMPREPLY=()
    for answer in $(COMP_WORDS="${COMP_LINE:0:COMP_POINT}" _RUNYARD_COMPLETE=bash_complete "$1" 2>/dev/null); do
        case $answer in
            dir,*) compopt -o dirnames -o filenames 2>/dev/null ;;
            file,*) compopt -o default -o filenames 2>/dev/null ;;
            *) COMPREPLY+=("${answer#*,}") ;;
        esac
    done
}
complete -o nosort -F _runyard_completion runyard 2>/dev/null || complete -F _runyard_completion runyard
"""

ZSH = """\
#compdef runyard
_runyard() {
    local kind value about
    local -a described
    while IFS= read -r kind && IFS= read -r value && IFS= read -r about; do
        case $kind in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            *) described+=("${value//:/\\\\:}${about:+:$about}") ;;
        esac
    done < <(COMP_WORDS="${(j: :)words[1,CURRENT]}" _RUNYARD_COMPLETE=zsh_complete "$words[1]" 2>/dev/null)
    (( $#described )) && _describe -V runyard described
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _runyard "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _runyard runyard
fi
"""

FISH = """\
function _runyard_completion
    for answer in (env COMP_WORDS=(commandline -cp) _RUNYARD_COMPLETE=fish_complete runyard 2>/dev/null)
        switch $answer
            case 'dir,*'
                __fish_complete_directories (commandline -ct)
            case 'file,*'
                __fish_complete_path (commandline -ct)
            case '*'
                string replace -r '^plain,' '' -- $answer
        end
    end
end
complete --no-files --keep-order --command runyard --arguments '(_runyard_completion)'
"""

SCRIPTS = {"bash": BASH, "fish": FISH, "zsh": ZSH}


def answer_shell(root: CliCommand, environ: Mapping[str, str]) -> str:
    """Return what the shell's script is waiting for."""
    shell = environ["_RUNYARD_COMPLETE"].partition("_")[0]
    words, incomplete = split_line(environ.get("COMP_WORDS", ""))
    items = complete(root, words[1:], incomplete)
    if shell == "bash":
        cut = max(incomplete.rfind(sign) for sign in WORD_BREAKS) + 1
        return "".join(f"{item.kind},{item.value[cut:]}\n" for item in items)
    if shell == "fish":
        return "".join(f"{item.kind},{item.value}{f'{chr(9)}{item.help}' if item.help else ''}\n" for item in items)
    return "".join(f"{item.kind}\n{item.value}\n{item.help}\n" for item in items)


def split_line(line: str) -> Tuple[List[str], str]:
    """Return the whole words of a line and the one at its end that is being typed, quotes left open or not."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: List[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # a quote is still open
        words.append(lexer.token)
        return words[:-1], words[-1]
    if not words or (line[-1:].isspace() and not line.endswith("\\ ")):
        return words, ""
    return words[:-1], words[-1]


def complete(root: CliCommand, words: Sequence[str], incomplete: str) -> List[CompletionItem]:
    """Return what the word being typed may become, after the whole words before it."""
    command, ctx = root, Context(root, root.name)
    found = sort_tokens(command.options, words, interspersed=command.interspersed)
    while isinstance(command, CommandGroup) and found.arguments:
        word, *rest = found.arguments
        name = command.aliases.get(word, word)
        if name not in command.list_commands():
            return []
        command = command.get_command(name)
        ctx = Context(command, name, ctx)
        found = sort_tokens(command.options, rest, interspersed=command.interspersed)
    if found.waiting is not None:
        return _values(ctx, found.waiting, incomplete)
    if incomplete.startswith("-") and not found.options_ended:
        name, equals, text = incomplete.partition("=")
        if not equals:
            return _option_names(command.options, incomplete)
        valued = [option for option in command.options if option.takes_value and name in option.opts]
        return [_behind(f"{name}=", item) for option in valued for item in _values(ctx, option, text)]
    if isinstance(command, CommandGroup):
        names = [name for name in command.list_commands() if name.startswith(incomplete)]
        return [CompletionItem(name, command.short_help_of(name)) for name in names]
    left = command.arguments[len(found.arguments) :] or [one for one in command.arguments[-1:] if one.many]
    return _values(ctx, left[0], incomplete) if left else []


def _option_names(options: Sequence[Option], incomplete: str) -> List[CompletionItem]:
    names = [(name, option.help) for option in options for name in (*option.opts, *option.secondary_opts)]
    return [CompletionItem(name, text) for name, text in names if name.startswith(incomplete)]


def _values(ctx: Context, param: Parameter, incomplete: str) -> List[CompletionItem]:
    if param.shell_complete is not None:
        return param.shell_complete(ctx, param, incomplete)
    if param.type.completes:
        return [CompletionItem(incomplete, kind=param.type.completes)]
    return [CompletionItem(choice) for choice in param.type.choices() if choice.startswith(incomplete)]


def _behind(prefix: str, item: CompletionItem) -> CompletionItem:
    return item._replace(value=prefix + item.value)
