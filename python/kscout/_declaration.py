"""Writes the declaration of a Family: the family file that the programs read (docs/formats/family.md)."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from .errors import InvalidArgument

Value = Union[int, bool, str]

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_MAX_NAME, _MAX_AXES = 40, 32  # limits of a family file

# Traits that usual axis names stand for. Axes with the name of a trait stand for it as well.
_USUAL_TRAITS = {
    **{name: "tile_m" for name in ("block_m", "block_size_m")},
    **{name: "tile_n" for name in ("block_n", "block_size_n")},
    **{name: "tile_k" for name in ("block_k", "block_size_k")},
    "num_stages": "stages",
    "num_warps": "variant",
    "num_ctas": "cluster",
    **{name: "swizzle" for name in ("group_m", "group_size_m")},
}
_TRAITS = (
    "tile_m tile_n tile_k inner_m inner_n inner_k workers workers_m workers_n threads_per_worker workers_per_core stages split_k "
    "shared_bytes register_elements vector_elements alignment packs_a packs_b kind order prefetch persistent cluster cluster_m "
    "cluster_n swizzle algorithm variant suggestion listed"
).split()
# For axes that no name assigns: what the schemas of a kind of device read as mere numbers.
_SPARE_TRAITS = {"cpu": ["prefetch", "order", "stages"], "gpu": ["variant", "algorithm", "swizzle"]}


def check_name(what: str, name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise InvalidArgument(
            f"{what} {name!r}: a name has small letters, digits and single '_', begins with a letter, and has at most {_MAX_NAME} characters"
        )
    return name


class Axis:
    """An axis: its name for callables, its name in formulas (small letters), and its values."""

    def __init__(self, name: Any, values: Any):
        self.written = name
        self.name = check_name("axis", name.lower() if isinstance(name, str) else name)
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise InvalidArgument(f"axis {name!r}: {values!r} is no list of values")
        self.values: list[Value] = list(dict.fromkeys(values))
        kinds = {type(value) for value in self.values}
        if not kinds <= {int, bool} and kinds != {str}:
            raise InvalidArgument(f"axis {name!r}: values are whole numbers, True and False, or all words; got {self.values!r}")
        self.flag = kinds == {bool}
        self.words: list[str] | None = None
        if kinds == {str}:
            self.words = [check_name(f"axis {name!r}: word", value) for value in self.values]
            if len(self.words) == 1:
                self.words.append("other")  # an axis of words has two or more
        elif not self.values:
            raise InvalidArgument(f"axis {name!r} has no values")
        elif (bad := next((v for v in self.values if not 0 <= v < 2**31), None)) is not None:
            raise InvalidArgument(f"axis {name!r}: {bad} is out of range: numbers are 0 to 2^31 - 1; scale or shift the axis")

    def number(self, value: Value) -> int:
        """The value as stored in a config."""
        if value not in self.values:
            raise InvalidArgument(f"axis {self.written!r} has no value {value!r}; it has {self.values!r}")
        return self.words.index(value) if self.words else int(value)

    def value(self, number: int) -> Value:
        if self.words:
            return self.words[number]
        return bool(number) if self.flag else number

    def text(self, value: Value) -> str:
        return json.dumps(value) if self.words else str(int(value))


def config_values(config: Any) -> dict[str, Value]:
    """A config as a dict: a mapping, or an object like triton.Config."""
    if isinstance(config, Mapping):
        return dict(config)
    if isinstance(keywords := getattr(config, "kwargs", None), Mapping):
        launch = {name: getattr(config, name) for name in ("num_warps", "num_stages") if getattr(config, name, None) is not None}
        return {**keywords, **launch}
    raise InvalidArgument(f"config {config!r}: give a dict with one value per axis, or a triton.Config")


def axes_of(axes: Any, configs: Sequence[dict[str, Value]] | None) -> list[Axis]:
    """The axes as given, or those of the list of configs."""
    if axes is None:
        if not configs:
            raise InvalidArgument("give axes (a dict of names and values), or configs (a list of dicts with the same names)")
        axes = {name: [config[name] for config in configs if name in config] for name in configs[0]}
    if not isinstance(axes, Mapping):
        raise InvalidArgument(f"axes={axes!r}: give a dict of names and lists of values")
    made = [Axis(name, values) for name, values in axes.items()]
    if not 1 <= len(made) <= _MAX_AXES:
        raise InvalidArgument(f"{len(made)} axes: a family has 1 to {_MAX_AXES}")
    names = [axis.name for axis in made]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidArgument(f"axes {', '.join(sorted(twice))} are given twice (large and small letters are equal)")
    return made


def check_config(axes: Sequence[Axis], config: dict[str, Value]) -> dict[str, Value]:
    missing = [axis.written for axis in axes if axis.written not in config]
    unknown = sorted(set(config) - {axis.written for axis in axes})
    if missing or unknown:
        what = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown)}, which are no axes"
        raise InvalidArgument(f"config {config!r} {what}; the axes are {', '.join(axis.written for axis in axes)}")
    for axis in axes:
        axis.number(config[axis.written])
    return config


def check_axis_names(axes: Sequence[Axis], what: str, formula: str) -> None:
    """Refuses `c.` with a name that is no axis: the programs would only find it when they read the family."""
    names = [axis.name for axis in axes]
    for name in re.findall(r"\bc\.([A-Za-z0-9_]+)", re.sub(r"'[^']*'", "''", formula)):
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            raise InvalidArgument(
                f"{what}: {formula!r} reads c.{name}, which is no axis; "
                + (f"did you mean c.{near[0]}? " if near else "")
                + f"(one of: {', '.join(f'c.{name}' for name in names)})"
            )


def traits_of(axes: Sequence[Axis], given: Mapping[str, str] | None, device: str) -> dict[str, str]:
    """What models read of a config. Each axis that can differ must be in a formula: models do not see others."""
    traits = dict(given or {})
    if unknown := sorted(set(traits) - set(_TRAITS)):
        raise InvalidArgument(f"traits {', '.join(unknown)} are not known; known are {', '.join(_TRAITS)}")

    for trait, formula in traits.items():
        if not isinstance(formula, str):
            raise InvalidArgument(f"trait {trait!r}: {formula!r} is no formula (a text over c., d. and s.)")
        check_axis_names(axes, f"trait {trait!r}", formula)

    def unseen() -> list[Axis]:
        read = set(re.findall(r"\bc\.([a-z0-9_]+)", " ".join(traits.values())))
        return [axis for axis in axes if axis.name not in read and len(axis.values) > 1]

    for axis in unseen():
        trait = axis.name if axis.name in _TRAITS else _USUAL_TRAITS.get(axis.name)
        if trait and trait not in traits:
            traits[trait] = f"c.{axis.name}"
    spare = [trait for trait in _SPARE_TRAITS["cpu" if device == "cpu" else "gpu"] if trait not in traits]
    for axis, trait in zip(unseen(), spare):
        traits[trait] = f"c.{axis.name}"
    if left := unseen():
        raise InvalidArgument(
            f"axis {left[0].written!r} is in no trait, so models would not see it; give traits={{'<trait>': 'c.{left[0].name}'}} with a trait "
            "that describes it (docs/formats/family.md)"
        )
    return traits


def formulas_of(axes: Sequence[Axis], formulas: Any) -> dict[str, str]:
    """The terms by name."""
    if formulas is not None and not isinstance(formulas, Mapping):
        raise InvalidArgument(f"formulas={formulas!r}: give a dict of names and formulas")
    named = dict(formulas or {})
    for name, formula in named.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise InvalidArgument(f"formula {name!r}: a name has letters, digits and '_'")
        if not isinstance(formula, str):
            raise InvalidArgument(f"formula {name!r}: {formula!r} is no formula (a text over c., d. and s.)")
        check_axis_names(axes, f"formula {name!r}", formula)
    return named


def rules_of(axes: Sequence[Axis], rules: Any) -> list[tuple[str, str, str]]:
    """(name, formula, reason) of each rule."""
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise InvalidArgument(f"rules={rules!r}: give a list of formulas, or a dict of names and formulas")
    named = rules.items() if isinstance(rules, Mapping) else ((f"rule{i + 1}", rule) for i, rule in enumerate(rules))
    made = []
    for name, rule in named:
        formula, because = rule if isinstance(rule, tuple) and len(rule) == 2 else (rule, rule)
        if not isinstance(formula, str) or not isinstance(because, str):
            raise InvalidArgument(f"rule {name!r}: {rule!r} is no formula (a text over c., d., s. and p.), nor (formula, reason)")
        check_axis_names(axes, f"rule {name!r}", formula)
        made.append((str(name), formula, because))
    return made


def _block(axes: Sequence[Axis], configs: Sequence[dict[str, Value]] | None) -> list[str]:
    lines = ["", "[[rule_set.default.block]]"]
    if configs is None:
        return lines + [f"{axis.name} = [{', '.join(axis.text(value) for value in axis.values)}]" for axis in axes]
    lines.append(f"axes = {json.dumps([axis.name for axis in axes])}")
    lines.append("configs = [")
    lines += [f"  [{', '.join(axis.text(config[axis.written]) for axis in axes)}]," for config in configs]
    return lines + ["]"]


def _quoted(text: Any) -> str:
    """A text or a list of texts in TOML, which knows no surrogates and no bare DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def declaration(
    *,
    name: str,
    op: str,
    help: str,
    device: str,
    axes: Sequence[Axis],
    configs: Sequence[dict[str, Value]] | None,
    rules: Sequence[tuple[str, str, str]],
    formulas: Mapping[str, str],
    traits: Mapping[str, str],
    default: dict[str, Value] | None,
) -> str:
    """The text of the family file."""
    quoted = _quoted
    lines = [
        f"# Written by kscout.Family of {name}.",
        f"provider = {quoted(name)}",
        f"op = {quoted(op)}",
        f"help = {quoted(help)}",
        f"runs_on = {quoted('d.kind == ' + repr('cpu' if device == 'cpu' else 'gpu'))}",
        "axis = [",
        *(f"  {{ name = {quoted(axis.name)}" + (f", words = {quoted(axis.words)}" if axis.words else "") + " }," for axis in axes),
        "]",
        "traits = { " + ", ".join(f"{trait} = {quoted(formula)}" for trait, formula in traits.items()) + " }",
    ]
    if formulas:
        lines += ["", "[formula]", *(f"{term} = {quoted(formula)}" for term, formula in formulas.items())]
    for rule, formula, because in rules:
        kind = "applicability" if re.search(r"\b[pt]\.", formula) else "legal"
        lines += ["", "[[rule]]", f"name = {quoted(rule)}", f"kind = {quoted(kind)}"]
        lines += [f"admits = {quoted(formula)}", f"because = {quoted(because)}"]
    lines += ["", "[rule_set.default]", 'help = "every config of the family"']
    if default is not None:
        formula = " and ".join(
            f"c.{axis.name} == " + (f"'{default[axis.written]}'" if axis.words else str(int(default[axis.written]))) for axis in axes
        )
        lines.append(f"default_config = {quoted(formula)}")
    return "\n".join([*lines, *_block(axes, configs)]) + "\n"
