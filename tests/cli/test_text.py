from __future__ import annotations

import io

import pytest

from runyard.cli.text import LogPrinter, plain, plain_block

RED = "\x1b[31mred\x1b[0m"
TITLE = "\x1b]0;owned\x07"


class Terminal(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        self.flush()
        data = self.buffer.getvalue()  # type: ignore[attr-defined]  # a BytesIO
        return str(data.decode())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("train-é-模型", "train-é-模型"),
        (TITLE, "\\x1b]0;owned\\x07"),
        ("two\nlines\tand a tab", "two\\nlines and a tab"),
        ("exe\u202egpj.py", "exe\\u202egpj.py"),
        ("\x9b31m", "\\x9b31m"),
        ("a\x00b\x7f", "a\\x00b\\x7f"),
        ("not utf-8 \udcff", "not utf-8 \\udcff"),
    ],
)
def test_names_are_one_harmless_line(value: str, expected: str) -> None:
    assert plain(value) == expected


def test_a_block_keeps_its_lines_and_nothing_else() -> None:
    assert plain_block(f"one\r\n{RED}\ttwo\rthree") == "one\n\\x1b[31mred\\x1b[0m\ttwo\\x0dthree"


def test_logs_on_a_terminal_keep_colours_and_progress_bars_but_no_other_sequence() -> None:
    terminal = Terminal()

    LogPrinter(terminal).write(f"{RED} 10%\r 20%\n{TITLE}\x1b[2J\x1b[8;3Hx".encode())

    assert terminal.shown == f"{RED} 10%\r 20%\n\\x1b]0;owned\\x07\\x1b[2J\\x1b[8;3Hx"


def test_a_sequence_cut_in_two_by_the_network_is_judged_whole() -> None:
    terminal = Terminal()
    printer = LogPrinter(terminal)

    for byte in f"é{RED}\x1b[2J".encode():
        printer.write(bytes([byte]))

    assert terminal.shown == f"é{RED}\\x1b[2J"


def test_logs_into_a_pipe_are_byte_for_byte() -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    data = bytes(range(256)) + TITLE.encode()

    LogPrinter(pipe).write(data)

    assert pipe.buffer.getvalue() == data  # type: ignore[attr-defined]  # a BytesIO


def test_secrets_of_a_log_are_hidden_line_by_line_wherever_its_parts_end() -> None:
    log = (
        b"epoch 1 loss=0.5 tokens=512\n"
        b"connecting to postgres://ada:Hunter2@db/x\n"
        b"api_key: Hunter2-horse\n"
        b"-----BEGIN PRIVATE KEY-----\nHunter2\nHunter2\n-----END PRIVATE KEY-----\n"
        b"password=Hunter2"
    )
    for size in (1, 7, len(log)):
        pipe = io.TextIOWrapper(io.BytesIO())
        printer = LogPrinter(pipe, redact=True)
        for start in range(0, len(log), size):
            printer.write(log[start : start + size])
        printer.finish()
        shown = pipe.buffer.getvalue().decode()

        assert "Hunter2" not in shown and shown.count("********") == 5
        assert shown.startswith("epoch 1 loss=0.5 tokens=512\nconnecting to postgres://ada:********@db/x\n")
