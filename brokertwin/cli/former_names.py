"""Former names of commands and options, accepted with a warning for one release."""

from collections.abc import Sequence

COMMANDS = {"report": "replication"}

OPTIONS = {
    "audit": {"--every": "--interval"},
    "capture": {"--advertise": "--advertise-host", "--broker": ""},
    "check": {"--from": "--from-offset", "--to": "--to-offset"},
    "exam": {"--json": "--out"},
    "exam-client": {"--broker": "--bootstrap"},
    "explore": {"--checkpoint": "--progress"},
    "gateway": {"--answer-timeout": "--response-timeout"},
    "offsets": {"--csv": "--out", "--every": "--interval", "--only": "--change"},
    "proxy": {"--advertise": "--advertise-host", "--broker": "", "--control": "--control-listen"},
    "query": {"--as-of": "--at"},
    "replay": {"--only": "--api", "--until": "--at"},
    "replay diff": {"--state": "--kind"},
    "replay state": {"--until": "--at"},
    "replication": {"--partition": "--topic-partition"},
    "state": {"--as-of": "--at", "--batch": "--at"},
    "streams": {"--from": "--from-key", "--to": "--to-key"},
}
"""By command: former name of an option to its name; empty: its value is the first argument."""

SUBCOMMANDS = {"--diff": ("diff", 2), "--records": ("records", 1), "--state": ("state", 1)}
"""Former options of `replay` to the subcommand, and the number of values, its first arguments."""


def renamed(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return a command line with today's names, and a notice for each former name."""
    notices = []
    command, *rest = words or [""]
    if command in COMMANDS:
        notices.append(f"`{command}` is now `{COMMANDS[command]}`")
        command = COMMANDS[command]
    for option, (below, count) in SUBCOMMANDS.items() if command == "replay" else ():
        if option in rest:
            at = rest.index(option)
            rest = [*rest[at + 1 : at + 1 + count], *rest[:at], *rest[at + 1 + count :]]
            rest = [each for each in rest if (below, each) != ("records", "--job")]
            command = f"replay {below}"
            notices.append(f"`replay {option}` is now `{command}`")
            break
    former = OPTIONS.get(command) or OPTIONS.get(" ".join([command, *rest[:1]]), {})
    found: list[str] = []
    remaining = iter(rest)
    for word in remaining:
        name, equals, value = word.partition("=")
        if word == "--":
            found += [word, *remaining]
        elif name not in former:
            found.append(word)
        elif former[name]:
            found.append(former[name] + equals + value)
            notices.append(f"{name} is now {former[name]}")
        else:
            found.insert(0, value if equals else next(remaining, ""))
            notices.append(f"the value of {name} is now the first argument, without {name}")
    return [*command.split(), *found] if words else [], notices
