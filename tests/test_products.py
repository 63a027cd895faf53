"""Products with weights that were laid out beforehand give what plain ones do, and are used where they pay."""

import platform

import pytest
import torch
from tiny import tiny_model, tiny_tokenizer
from torch import nn
from torch.nn import functional as F

from jakiro.models import products
from jakiro.models.products import (
    INTEL,
    OTHERS,
    Layout,
    Part,
    Product,
    fits_halves,
    join,
    lay_out,
    spared_bytes,
    usual_plan,
)
from jakiro.target import Target

PACKS = platform.machine().lower() in ("x86_64", "amd64") and torch.backends.mkldnn.is_available()
packs = pytest.mark.skipif(not PACKS, reason="weights are laid out on x86 alone")
COLUMNS, ONEDNN, HALVES = PLANS = [(Layout(way),) for way in ("columns", "onednn", "halves")]
plans = pytest.mark.parametrize("plan", [*PLANS, INTEL, OTHERS], ids=["columns", "onednn", "halves", "intel", "others"])


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 33)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("out", [320, 520, 2100])
@plans
@torch.inference_mode()
def test_a_product_is_the_linear_layer(shape, bias, out, plan):
    torch.manual_seed(0)
    layer = nn.Linear(256, out, bias=bias)
    layer.weight.copy_(layer.weight.bfloat16())
    x, residual = torch.randn(*shape, 256), torch.randn(shape[-1], out)
    product = Product(layer.weight, layer.bias, plan)
    torch.testing.assert_close(product(x), layer(x), atol=1e-5, rtol=1e-5)
    if not bias:
        rows = x.flatten(0, -2)[: len(residual)]
        torch.testing.assert_close(product.added(residual, rows), residual + layer(rows), atol=1e-5, rtol=1e-5)


@packs
@pytest.mark.parametrize(("processor", "plan"), [("AMD EPYC", OTHERS), ("Intel(R) Xeon(R) Processor", INTEL)])
def test_the_processor_decides_how_weights_are_laid_out(processor, plan, monkeypatch):
    monkeypatch.setattr(products, "device_name", lambda device: processor)
    assert usual_plan.__wrapped__() == plan
    monkeypatch.setattr(products, "FBGEMM", ())
    assert usual_plan.__wrapped__() == plan[1:], "a build without FBGEMM has no halves"


@packs
@pytest.mark.parametrize("way", ["columns", "onednn", "halves"])
def test_a_weight_takes_the_first_layout_that_it_is_large_enough_for(way, monkeypatch):
    calls = []
    monkeypatch.setattr(F, "linear", lambda *given: calls.append(given) or torch.zeros(1))
    plan = (Layout(way, 200 * 256), Layout("columns", 100 * 256))
    for size in (99, 100, 199, 200, 400):
        Product(torch.randn(size, 256).bfloat16().float(), plan=plan)(torch.randn(1, 5, 256))
    by_torch = {len(weight): weight for _, weight, _ in calls}
    assert list(by_torch) == [99, 100, 199] + ([200, 400] if way == "columns" else [])
    assert [size for size, weight in by_torch.items() if not weight.T.is_contiguous()] == [99]


@packs
def test_products_of_many_rows_are_made_with_the_weight_itself():
    weight = torch.randn(300, 256).bfloat16().float()
    product, x = Product(weight, plan=(Layout("halves", rows=64),)), torch.randn(65, 256)
    assert torch.equal(product(x), F.linear(x, weight))
    assert torch.equal(product(x[:64]), Product(weight, plan=HALVES)(x[:64]))


@packs
def test_halves_are_for_weights_that_float16_holds():
    """Those of a checkpoint in 16 bits, but for what a few tiny ones lose."""
    torch.manual_seed(0)
    weight = 0.02 * torch.randn(2100, 256)
    assert fits_halves(weight.bfloat16().float()) and fits_halves(weight.half().float()) and not fits_halves(weight)
    assert not fits_halves(1e6 * weight.bfloat16().float()), "beyond float16's range"
    assert Product(weight, plan=HALVES).nbytes == weight.nbytes
    assert Product(weight.bfloat16().float(), plan=HALVES).nbytes == weight.nbytes // 2


@packs
@pytest.mark.parametrize("plan", [INTEL, OTHERS], ids=["intel", "others"])
@torch.inference_mode()
def test_a_pass_of_the_embedded_target_reads_every_large_weight_in_float16(plan):
    layers = [nn.Linear(576, out, bias=False) for out in (576, 192, 192)]  # the smallest that it has
    for layer in layers:
        layer.weight.copy_(layer.weight.bfloat16())
    assert join(layers, plan), "one product for query, key and value"
    assert Product(layers[1].weight, plan=plan).nbytes == layers[1].weight.nbytes // 2


@packs
def test_what_a_pass_reads_is_counted_as_it_is_laid_out():
    model = nn.Sequential(nn.Linear(256, 2100, bias=False), nn.Linear(256, 64))
    model[0].weight.data = model[0].weight.data.bfloat16().float()
    assert spared_bytes(model) == 0
    lay_out(model, HALVES)
    assert spared_bytes(model) == model[0].weight.nbytes // 2  # float16 does not hold the other's
    lay_out(model, ONEDNN)
    assert spared_bytes(model) == 0


def projections(bias: bool = False) -> list[nn.Linear]:
    layers = [nn.Linear(64, size, bias=bias) for size in (96, 32, 64)]
    for layer in layers:
        layer.weight.data = layer.weight.data.half().float()
    return layers


@packs
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("plan", [HALVES, ONEDNN])
@torch.inference_mode()
def test_layers_that_read_the_same_multiply_once(bias, plan, monkeypatch):
    layers, products_made = projections(bias), []
    x, y = torch.randn(2, 1, 5, 64)
    expected = {name: [layer(given) for layer in layers] for name, given in (("x", x), ("y", y))}
    pack = products.pack
    counted = lambda packed: packed._replace(multiply=lambda x: products_made.append(x) or packed.multiply(x))  # noqa: E731
    monkeypatch.setattr(products, "pack", lambda *given: counted(pack(*given)))
    assert join(layers, plan)
    for order in ((0, 1, 2), (2, 0, 1)):
        for name, given in (("x", x), ("y", y)):
            found = {at: layers[at](given) for at in order}
            torch.testing.assert_close([found[at] for at in range(3)], expected[name], atol=1e-5, rtol=1e-5)
    assert len(products_made) == 4
    mixed = [layers[0](x), layers[1](y), layers[2](x), layers[0](x), layers[0](y)]
    right = [expected["x"][0], expected["y"][1], expected["x"][2], expected["x"][0], expected["y"][0]]
    torch.testing.assert_close(mixed, right, atol=1e-5, rtol=1e-5)
    assert spared_bytes(nn.ModuleList(layers)) == sum(64 * size * (2 if plan == HALVES else 0) for size in (96, 32, 64))


@packs
def test_layers_are_left_apart_where_their_weights_cannot_be_packed_together():
    one, other, third = projections()
    other.bias = nn.Parameter(torch.zeros(32))
    assert not join([one, other, third], HALVES), "one of them has a bias"
    other.bias, other.weight.data = None, torch.randn(32, 64)
    assert not join([one, other, third], HALVES), "float16 does not hold one of them"
    assert not join(projections(), COLUMNS) and not join(projections(), (Layout("halves", 1 << 20),))
    assert not any("forward" in vars(layer) for layer in (one, other, third))


@packs
def test_products_of_many_rows_and_those_with_gradients_are_the_layers_own():
    layers = projections()
    join(layers, (Layout("halves", rows=64),))
    many, learnt = torch.randn(65, 64), torch.randn(3, 64, requires_grad=True)
    assert torch.equal(layers[1](many), F.linear(many, layers[1].weight))
    layers[1](learnt).sum().backward()
    torch.testing.assert_close(learnt.grad, layers[1].weight.sum(dim=0).expand(3, -1))


@plans
def test_gradients_flow_through_a_product(plan):
    product, x = Product(torch.randn(2100, 256).half().float(), plan=plan), torch.randn(60, 256, requires_grad=True)
    product(x).sum().backward()
    torch.testing.assert_close(x.grad, product.weight.sum(dim=0).expand(60, -1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_are_left_to_torch(dtype):
    weight = torch.randn(520, 256, dtype=dtype)
    assert all(Product(weight, plan=plan)._packed is None for plan in PLANS)
    assert Product(weight, plan=COLUMNS).weight is weight


@packs
@pytest.mark.parametrize("plan", PLANS)
def test_a_models_layers_multiply_with_them_and_it_stays_what_it_was(plan):
    torch.manual_seed(0)
    model = tiny_model(hidden_size=64, intermediate_size=96, vocab_size=100).to(torch.bfloat16).to(torch.float32)
    ids = torch.arange(90)[None]
    before, state = model(ids).logits, {name: one.clone() for name, one in model.state_dict().items()}
    lay_out(model, plan)
    assert isinstance(model.lm_head.forward, Product) and (model.lm_head.forward._packed is None) == (plan == COLUMNS)
    feed = model.model.layers[0].mlp
    assert {type(one.forward) for one in (feed.gate_proj, feed.up_proj)} == {Product if plan == COLUMNS else Part}
    after = model(ids).logits
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)
    assert state.keys() == model.state_dict().keys()
    assert all((state[name] == one).all() for name, one in model.state_dict().items())


@packs
def test_a_large_model_keeps_no_second_copy(monkeypatch):
    model = tiny_model(hidden_size=64)
    monkeypatch.setattr(products, "MOST", 1000)
    lay_out(model)
    assert not any(isinstance(module.forward, Product) for module in model.modules())
    monkeypatch.setattr(products, "MOST", 1 << 30)
    lay_out(model)
    assert isinstance(model.lm_head.forward, Product)


@packs
def test_a_target_lays_out_what_it_has_read_and_nothing_that_it_was_given(tmp_path):
    """Trials of a training run decode with the model that the run's compiled losses read."""
    model = tiny_model(hidden_size=64)
    Target.wrap(model, graphs=False)
    assert not isinstance(model.lm_head.forward, Product)
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert isinstance(Target.load(tmp_path).model.lm_head.forward, Product)
