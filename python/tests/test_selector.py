import threading

import pytest

import kscout
from kscout import Gemm, Selector

PROBLEM = Gemm(48, 100, 60)


def test_ranked_configs_come_best_first(model):
    selector = Selector.load(model)
    assert selector.model_path == model
    ranked = selector.rank(PROBLEM, 4)
    assert len(ranked) == 4
    assert [choice.score for choice in ranked] == sorted((choice.score for choice in ranked), reverse=True)
    assert ranked[0].decided_by == "model" and ranked[0].time_us > 0
    best = selector.select(str(PROBLEM))
    assert (best.name, best.config, best.score) == (ranked[0].name, ranked[0].config, ranked[0].score)
    assert kscout.Config(best.name) == best.config


def test_without_a_model_the_analytic_cost_answers():
    selector = Selector.analytic()
    assert selector.model_path is None
    choice = selector.select(PROBLEM)
    assert choice.decided_by == "analytic" and choice.confidence is None
    assert choice.config in kscout.kernels().applicable(PROBLEM)


def test_the_models_of_the_package_are_on_the_search_path(model, models):
    assert Selector.find("fp32", device=Selector.load(model).device).model_path.parent == models


def test_rank_kernels_is_rank_of_the_selector(model):
    names = [choice.name for choice in kscout.rank_kernels(PROBLEM, 3, model=model)]
    assert names == [choice.name for choice in Selector.load(model).rank(PROBLEM, 3)]
    assert len(kscout.rank_kernels(str(PROBLEM), top=2)) == 2


def test_refusals_are_of_their_class(model, tmp_path):
    selector = Selector.load(model)
    with pytest.raises(kscout.InvalidArgument, match="did you mean 'latency'"):
        selector.select(PROBLEM, by="latncy")
    with pytest.raises(kscout.NotFound):
        Selector.load(tmp_path / "none")
    (tmp_path / "model.ksf").write_bytes(b"not a model at all")
    with pytest.raises(kscout.CorruptData):
        Selector.load(tmp_path / "model.ksf")
    with pytest.raises(kscout.Unsupported):
        Selector.analytic().select(Gemm(16, 16, 16, "bf16"))


def test_decisions_are_remembered_and_counted(model):
    selector = Selector.load(model)
    first, again = selector.select(PROBLEM), selector.select(PROBLEM)
    assert first.source == "model" and again.source == "cache" and again.config == first.config
    counts = selector.cache_statistics
    assert (counts.hits, counts.misses, counts.evictions) == (1, 1, 0)
    for forget in selector.clear_cache, selector.reload, selector.refresh:
        forget()
        assert selector.select(PROBLEM).source == "model"
        assert selector.select(PROBLEM).source == "cache"


def test_a_model_that_is_replaced_is_read_again(model, tmp_path):
    ours = tmp_path / "model.ksf"
    ours.write_bytes((model / "model.ksf").read_bytes())
    selector = Selector.load(ours)
    before = selector.select(PROBLEM)
    ours.write_bytes(b"half of a model")
    with pytest.raises(kscout.CorruptData):
        selector.reload()
    assert selector.select(PROBLEM).config == before.config  # the old one stays
    ours.write_bytes((model / "model.ksf").read_bytes())
    selector.reload()
    assert selector.select(PROBLEM).source == "model"


def test_models_of_other_devices_answer_by_policy(model):
    assert Selector.load(model).warnings == []
    with pytest.raises(kscout.Unsupported, match="cannot answer for 'xeon-8480'"):
        Selector.load(model, device="xeon-8480")
    selector = Selector.load(model, device="xeon-8480", devices="any")
    assert "xeon-8480" in selector.warnings[0] and selector.device.name == "xeon-8480"
    with pytest.raises(kscout.InvalidArgument, match="unknown device policy 'all'"):
        Selector.load(model, device="xeon-8480", devices="all")


def test_threads_share_a_selector():
    selector = Selector.analytic()
    problems = [Gemm(m, 64, 32) for m in range(1, 40)]
    expected = [selector.select(p).name for p in problems]
    results = {}

    def work(i):
        results[i] = [selector.select(p).name for p in problems]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(results[i] == expected for i in range(4))


def test_load_keeps_the_models_provider_and_obeys_rules_and_devices(model, models, tmp_path):
    conv = models / "conv_fwd_bf16_gfx950"
    other = kscout.Conv(8, 64, 64, 28, 28, 3, 3, "fp16", pad=1)  # of another type than the model's: analytic costs answer
    for rules in "default", "tiny":
        expected = Selector.analytic(provider="ck_tile", device="gfx950", rules=rules).select(other)
        for more in {}, {"device": "gfx950"}, {"db": tmp_path / "decisions.db"}:
            choice = Selector.load(conv, rules=rules, **more).select(other)
            assert (choice.decided_by, choice.config) == ("analytic", expected.config)
    with pytest.raises(kscout.InvalidArgument, match="unknown rule set 'tyni'"):
        Selector.load(conv, rules="tyni").select(other)
    with pytest.raises(kscout.Unsupported, match="fp16:nhwgc:pad=1: the model covers conv_fwd bf16 nhwgc only"):
        Selector.load(conv).select(other)
    with pytest.raises(kscout.InvalidArgument, match="unknown device policy 'all'"):
        Selector.load(model, devices="all")


def test_set_up_is_charged_over_calls_where_the_model_knows_it(model):
    selector = Selector.load(model, calls=100)
    assert any("not_charged" in warning for warning in selector.warnings), "a GEMM on a CPU has no set-up"
    choice = selector.select(PROBLEM)
    assert choice.setup_us is None and choice.config == Selector.load(model).select(PROBLEM).config
    with pytest.raises(kscout.InvalidArgument, match="calls=-1"):
        Selector.load(model, calls=-1)


def test_a_verdict_says_which_rule_refuses_a_config_of_any_source():
    config = "cublaslt_gemm_bf16_rcr_v130100__a66_64x64x64_st0_s9_acc_w0_o0_any_c1x1"
    selector = Selector.analytic(device="h200")
    verdict = selector.verdict("gemm:16x8x4616:bf16", config)
    assert (verdict.status, verdict.rule, verdict.since) == ("refused", "algorithm 66 of cuBLASLt 13.1.0, gemm", "cuBLASLt 13.1.0")
    assert "the split-K slices end before K" in verdict.because
    allowed = selector.verdict(Gemm(16, 8, 4608, "bf16"), kscout.Config(config))
    assert (allowed.status, allowed.rule, allowed.because, allowed.since) == ("allowed", None, None, None)
    assert selector.verdict("gemm:16x8x4608:bf16", config.replace("130100", "120900")).status == "unknown"


def test_a_choice_under_limits_keeps_them_or_is_an_error():
    selector = Selector.analytic()
    free = selector.select(PROBLEM)
    assert selector.select(PROBLEM, deterministic=True, workspace_limit=1 << 30).config == free.config
    ranked = selector.rank(PROBLEM, 3, deterministic=True)
    assert ranked[0].config == free.config
    with pytest.raises(kscout.InvalidArgument, match="workspace_limit=-1"):
        selector.select(PROBLEM, workspace_limit=-1)
    with pytest.raises(kscout.Unsupported, match="keeps the limits"):
        Selector.analytic(device="gfx942").select("gemm:64x64x64:bf16", deterministic=True)
    registry = kscout.Registry(workspace_limit=1 << 24, deterministic=True)
    assert registry.workspace_bytes(PROBLEM) <= 1 << 24
