import pytest

import kscout
from kscout import Config, Device, kernels


def test_the_provider_is_that_of_the_device():
    assert kernels(op="conv_fwd", rules="tiny").provider == "native"
    assert kernels("bf16", op="conv_fwd", device="gfx942", rules="tiny").provider == "ck_tile"


def test_a_family_is_a_sequence_of_configs():
    family = kernels("fp32", "rrr", rules="tiny")
    assert len(family) == len(list(family)) == len(family.names()) > 1
    assert [config.name for config in family] == family.names()
    assert family[-1] == family[len(family) - 1]
    assert family.default in list(family)
    assert family.signature["layout"] == "rrr"
    with pytest.raises(IndexError):
        family[len(family)]


def test_a_config_and_its_name_are_one():
    config = kernels(rules="tiny")[0]
    assert Config(str(config)) == config and hash(Config(config.name)) == hash(config)
    assert config["kind"] == config.as_dict()["kind"]
    assert config.provider == "native"
    with pytest.raises(kscout.InvalidArgument, match="did you mean 'kind'"):
        config["kin"]


def test_columns_hold_the_configs():
    family = kernels(rules="tiny")
    columns = family.columns()
    rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
    assert rows == [config.as_dict() for config in family]


def test_a_filter_keeps_what_it_admits():
    family = kernels(filter="c.kind == 'tiled'")
    assert 0 < len(family) < len(kernels())
    assert {config["kind"] for config in family} == {"tiled"}
    with pytest.raises(kscout.InvalidArgument):
        kernels(filter="c.knd == 'tiled'")


def test_applicable_leaves_out_what_cannot_take_the_problem():
    family = kernels()
    applicable = family.applicable("gemm:16x16x16")
    assert 0 < len(applicable) <= len(family) and set(applicable) <= set(family)


def test_devices_are_known_or_say_which_is_near():
    here = Device()
    assert here.kind == "cpu" and here.cores >= 1 and here == Device("auto")
    preset = Device(kscout.device_names()[0])
    assert preset.as_dict()["name"] == preset.name
    with pytest.raises(kscout.NotFound, match="did you mean") as caught:
        Device("h20")
    assert isinstance(caught.value, LookupError)
