# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads bench/adapters/NAME: how to start a pooler that bench/compare does not know by itself.

Lines `key = value`, # begins a comment; then, for each file that the pooler wants, a line
`--- NAME` and its text up to the next such line or the end.

	label     what to call it in tables
	program   what must be in PATH; without it the pooler is left out with a word
	command   how to start it, in the foreground; words are separated by spaces
	version   a command that prints its version (optional)
	workers   how many CPUs it can use (1)
	root      yes: it is started as root and changes to @USER@ by itself; else it is started as
	          that user

In command, version and files these are replaced: @PORT@ to listen on at 127.0.0.1, @SERVER_HOST@
(with a / in front: the folder of a unix socket) and @SERVER_PORT@, @POOL_SIZE@ server connections,
@CLIENTS@ at most, @WORKERS@, @FOLDER@ in which the files lie, @USER@.  Database and user are `bench`,
without a password.
"""
import collections
import re
import shlex

NEEDED = ("label", "program", "command")


class Adapter(collections.namedtuple("Adapter", "fields files")):
    """A file that was read."""

    def command(self, key, values):
        return [fill(word, values) for word in shlex.split(self.fields[key])]


def fill(text, values):
    def value(found):
        return str(values.get(found[1], found[0]))
    return re.sub(r"@([A-Z_]+)@", value, text)


def parse(lines):
    fields, files, name = {}, {}, None
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        heading = re.fullmatch(r"--- ([\w.-]+)", line)
        if heading:
            name = heading[1]
            files[name] = ""
        elif name:
            files[name] += line + "\n"
        elif line.strip() and not line.startswith("#"):
            key, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"line {number}: neither `key = value` nor `--- NAME`")
            fields[key.strip()] = value.strip()
    lacking = [key for key in NEEDED if key not in fields]
    if lacking:
        raise ValueError(f"no {', '.join(lacking)}")
    return Adapter(fields, files)


def read(path):
    with open(path, encoding="utf-8") as file:
        return parse(file)
