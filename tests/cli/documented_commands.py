#!/usr/bin/env python3
"""Parses every documented `kscout ...` command with the program itself; nothing is executed.

    documented_commands.py PROGRAM FILE_OR_FOLDER...      (ctest: docs.commands)

Commands come from Markdown (indented and fenced code blocks, code spans), from shell scripts, from code spans in other sources
and from the --help of every verb. In blocks, scripts and help a command must be complete. A code span in a sentence may leave
out what is required, since it often only names a verb and the option under discussion; on a page it may also leave out `kscout`
(`sweep --remeasure DIR`). A code span of a page that starts with an option (`--keep`) must name an option that some verb has.

    $ kscout dataset head FILE        the prompt is ignored, and so is the text after #
    A=b taskset -c 0 kscout ...       so are environment variables and programs that start the command
    S="--seed 1"                      $S is replaced in the commands below, in the same file
    [--option], ..., N, FORMAT        brackets and dots are ignored, placeholders of numbers and words get a value
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys

# A placeholder that stands for a number or for one of a few words; other placeholders are file names, which need not exist.
PLACEHOLDERS = {"N": "1", "FORMAT": "ck-csv", "OP": "gemm", "DTYPE": "bf16", "LAYOUT": "rcr"}
# What a required option or argument gets that a sentence left out.
FILLERS = {"--from": "ck-csv"}
# Options and commands of other programs that our pages mention.
FOREIGN_OPTIONS = {"--build-arg", "--count-only", "--coverage", "--gpus", "--gtest_filter", "--resources"}
FOREIGN_COMMANDS = {"train --tune"}
SOURCES = (".md", ".sh", ".toml", ".h", ".cpp", ".cu", ".py")
# An option that hands the command from kscout to kscout-lab, which knows fewer options beside it.
HANDED_ON = {"--ck-build"}
SEPARATORS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>"}


class Command:
    def __init__(self, where, text, complete):
        self.where, self.text, self.complete = where, text, complete


def joined_lines(lines):
    """(number, text) of lines, continued ones (\\ at the end) joined."""
    number, text = 0, ""
    for at, line in lines:
        number = number or at
        if line.rstrip().endswith("\\"):
            text += line.rstrip()[:-1] + " "
            continue
        yield number, text + line
        number, text = 0, ""
    if text:
        yield number, text


def markdown_parts(text):
    """Splits Markdown into code lines and prose lines, each with its number."""
    code, prose = [], []
    fence, paragraph = None, False
    for at, line in enumerate(text.splitlines(), 1):
        opening = re.match(r" {0,3}(```+)", line)
        if opening and fence is None:
            fence = opening.group(1)
        elif opening and line.strip() == fence:
            fence = None
        elif fence is not None:
            code.append((at, line))
        elif line.startswith("    ") and not paragraph and line.strip():
            code.append((at, line[4:]))
        else:
            prose.append((at, line))
            # An indented line that follows a line of a paragraph or of a list belongs to it.
            paragraph = bool(line.strip())
    return code, prose


def spans(lines):
    """(number, text) of the code spans of prose; one may go on in the next line, but not in another paragraph."""
    paragraph, start = "", 0
    for at, line in [*lines, (0, "")]:
        if line.strip() and not line.lstrip().startswith("|"):
            start = start or at
            paragraph += line + "\n"
            continue
        for block, first in ((paragraph, start), (line, at)):
            for found in re.finditer(r"(?<!`)`([^`]+)`(?!`)", block):
                yield first + block[:found.start()].count("\n"), " ".join(found.group(1).split())
        paragraph, start = "", 0


def uncommented(text):
    """The lines of a source, those that are comments without their markers."""
    for at, line in enumerate(text.splitlines(), 1):
        yield at, re.sub(r"^\s*(?://[/!]?<?|#) ?", "", line)


def commands_of_line(text, variables):
    """The kscout commands of one line of shell, as lists of words."""
    for name, value in variables.items():
        text = re.sub(rf"\$(?:{name}\b|{{{name}}})|\"\${name}\"", lambda _, v=value: v, text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
    lexer.wordchars += "$*{}[]:,=%@+~^!"
    lexer.whitespace_split = False
    try:
        words = list(lexer)
    except ValueError:
        return [["kscout", f"(unbalanced quotes in: {text})"]] if re.search(r"(^|[/\s])kscout\s", text) else []
    found, current, redirected = [], [], False
    for word in [*words, ";"]:
        if word in SEPARATORS:
            found.append(current)
            current, redirected = [], False
            if word in (">", ">>", "<", "2>"):
                redirected = True
        elif not redirected:
            current.append(word)
    result = []
    for words in found:
        assigned = re.fullmatch(r"(\w+)=(.*)", words[0]) if len(words) == 1 else None
        if assigned:
            variables.setdefault(assigned.group(1), assigned.group(2))
        at = next((i for i, word in enumerate(words) if os.path.basename(word) == "kscout"), None)
        # What stands before the program is an assignment or a program that starts it; a sentence is no command.
        starters = words[:at] if at is not None else []
        if at is None or at + 1 == len(words):
            continue
        if all(re.match(r"\$$|\w+=|taskset$|time$|nice$|-\w$|[\d,i]+$", word) for word in starters):
            result.append(words[at:])
    return result


def cleaned(words):
    """Words without brackets and dots, placeholders replaced."""
    result = []
    for word in words:
        word = word.strip("[]")
        if word in ("...", "", "$@"):
            continue
        word = word.removesuffix("...")
        result.append(PLACEHOLDERS.get(word, word))
    return result


def commands_of(path, verbs):
    """All commands of a file, and the code spans of a page that start with an option: ([Command], [(where, option)])."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    commands, options = [], []
    page, script = path.endswith(".md"), path.endswith(".sh")
    code, prose = [], list(uncommented(text))
    if page:
        code, prose = markdown_parts(text)
    elif script:
        code, prose = list(enumerate(text.splitlines(), 1)), []
    variables = {"kscout": "kscout"} if script else {}
    for at, line in joined_lines(code):
        for words in commands_of_line(line, variables):
            commands.append(Command(f"{path}:{at}", words, True))
    for at, span in spans(prose):
        option = re.match(r"--[a-z][\w-]*", span)
        if page and option:
            options.append((f"{path}:{at}", option.group()))
        verb, _, rest = span.partition(" ")
        if page and verb in verbs and span not in FOREIGN_COMMANDS and (" --" in span or rest in verbs[verb]):
            span = "kscout " + span
        if re.match(r"kscout [a-z]", span):
            for words in commands_of_line(span, {}):
                commands.append(Command(f"{path}:{at}", words, False))
    return commands, options


class Program:
    def __init__(self, path):
        self.path = path
        self.done = {}  # results by words: a command says the same each time
        self.env = dict(os.environ, KSCOUT_PARSE_ONLY="1", LC_ALL="C")
        if self.start(["kscout", "hardware"]) != (0, "", ""):
            raise SystemExit(f"{path}: KSCOUT_PARSE_ONLY=1 does not keep it from executing")

    def start(self, words):
        """Exit code, stdout and stderr; the program starts once for the same words."""
        key = tuple(words)
        if key not in self.done:
            program = self.path + "-lab" if HANDED_ON & set(words) else self.path
            done = subprocess.run([program, *words[1:]], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60, check=False)
            self.done[key] = done.returncode, done.stdout, done.stderr
        return self.done[key]

    def complaint(self, command):
        """What the program says about a command, or nothing."""
        words = cleaned(command.text)
        for _ in range(16):
            code, _, complaint = self.start(words)
            if code == 0:
                return ""
            bare = re.search(r"^(--\S+): \d+ required \S+ missing", complaint, re.MULTILINE)
            if not command.complete and bare and bare.group(1) in words:
                words.remove(bare.group(1))  # an option that is only named; that its value is asked for says that it exists
                continue
            missing = re.search(r"^(\S+)(?: is required| requires (--\S+))", complaint, re.MULTILINE)
            if not command.complete and len(words) == 2 and "subcommand is required" in complaint:
                return ""
            if command.complete or not missing:
                break
            wanted = missing.group(2) or missing.group(1)
            words += [wanted, FILLERS.get(wanted, "1")] if wanted.startswith("--") else ["1"]
        return complaint.strip().splitlines()[0] if complaint.strip() else f"exit code {code}"

    def verbs(self):
        """The verbs, each with its parts."""
        return {verb: self.parts([verb]) for verb in self.parts([])}

    def parts(self, words):
        table = re.search(r"^(?:SUBCOMMAND|VERB)S:$(.*?)(?:^\S|\Z)", self.help(words), re.MULTILINE | re.DOTALL | re.IGNORECASE)
        return re.findall(r"^  ([a-z]\S*)", table.group(1), re.MULTILINE) if table else []

    def help(self, words):
        return self.start(["kscout", *words, "--help"])[1]


def files_of(arguments):
    for argument in arguments:
        if not os.path.isdir(argument):
            yield argument
        for folder, _, names in sorted(os.walk(argument)):
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(SOURCES))


def options_of_modules():
    """Options of `python -m kscout.MODULE`."""
    folder = pathlib.Path(__file__).parents[2] / "python" / "kscout"
    return {name for module in folder.glob("*.py") for name in re.findall(r'add_argument\("(--[\w-]+)"', module.read_text())}


def check(program, arguments):
    """Prints what is wrong with the commands of the files and folders, and of the program's help; the exit code."""
    verbs = program.verbs()
    commands, named_options, options = [], [], FOREIGN_OPTIONS | options_of_modules()
    for words in [[]] + [[verb] for verb in verbs] + [[verb, part] for verb in verbs for part in verbs[verb]]:
        page = program.help(words)
        options |= set(re.findall(r"--[a-z][\w-]*", page))
        lines = [(at, re.sub(r"^Examples?:", "", line).strip()) for at, line in enumerate(page.splitlines(), 1)]
        for _, line in joined_lines(lines):
            if line.startswith("kscout "):
                where = f"kscout {' '.join(words)} --help"
                commands += [Command(where, example, True) for example in commands_of_line(line, {})]
    for file in files_of(arguments):
        found, named = commands_of(file, verbs)
        commands += found
        named_options += named
    wrong = 0
    for command in commands:
        complaint = program.complaint(command)
        if complaint:
            wrong += 1
            print(f"{command.where}: {' '.join(command.text)}\n    {complaint}")
    for where, option in named_options:
        if option not in options:
            wrong += 1
            print(f"{where}: no verb has an option {option}")
    print(f"{len(commands)} commands, {len(named_options)} options, {wrong} wrong")
    return 1 if wrong or not commands else 0


if __name__ == "__main__":
    sys.exit(check(Program(os.path.abspath(sys.argv[1])), sys.argv[2:]))
