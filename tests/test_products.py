"""Products with weights that were laid out beforehand give what plain ones do, and are used where they pay."""

import platform

import pytest
import torch
from tiny import tiny_model, tiny_tokenizer
from torch import nn
from torch.nn import functional as F

from jakiro.models import products
from jakiro.models.products import LARGE, Product, lay_out, prefers_columns
from jakiro.target import Target

PACKS = platform.machine().lower() in ("x86_64", "amd64") and torch.backends.mkldnn.is_available()
packs = pytest.mark.skipif(not PACKS, reason="weights are laid out on x86 alone")


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 33)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("out", "columns"), [(320, True), (320, False), (520, True), (520, False)])
@torch.inference_mode()
def test_a_product_is_the_linear_layer(shape, bias, out, columns):
    torch.manual_seed(0)
    layer = nn.Linear(256, out, bias=bias)
    x, residual = torch.randn(*shape, 256), torch.randn(shape[-1], out)
    product = Product(layer.weight, layer.bias, columns)
    torch.testing.assert_close(product(x), layer(x), atol=1e-5, rtol=1e-5)
    if not bias:
        rows = x.flatten(0, -2)[: len(residual)]
        torch.testing.assert_close(product.added(residual, rows), residual + layer(rows), atol=1e-5, rtol=1e-5)


@packs
@pytest.mark.parametrize(("processor", "columns"), [("AMD EPYC", False), ("Intel(R) Xeon(R) Processor", True)])
def test_the_processor_decides_how_weights_are_laid_out(processor, columns, monkeypatch):
    monkeypatch.setattr(products, "prefers_columns", prefers_columns.__wrapped__)
    monkeypatch.setattr(products, "device_name", lambda device: processor)
    weight = torch.randn(512, 256)
    product = Product(weight)
    assert (product.weight == weight).all()
    assert product.weight.T.is_contiguous() == columns and (product.packed is None) == columns


@packs
def test_onednn_multiplies_with_weights_that_are_worth_its_start(monkeypatch):
    calls = []
    monkeypatch.setattr(F, "linear", lambda *given: calls.append(given) or torch.zeros(1))
    for size in (256, LARGE // 256 - 1, LARGE // 256, 1024):
        Product(torch.randn(size, 256), columns=False)(torch.randn(1, 5, 256))
    assert [len(weight) for _, weight, _ in calls] == [256, LARGE // 256 - 1]
    assert all(weight.T.is_contiguous() for _, weight, _ in calls)


@pytest.mark.parametrize("columns", [True, False])
def test_gradients_flow_through_a_product(columns):
    product, x = Product(torch.randn(520, 256), columns=columns), torch.randn(60, 256, requires_grad=True)
    product(x).sum().backward()
    torch.testing.assert_close(x.grad, product.weight.sum(dim=0).expand(60, -1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_are_left_to_torch(dtype):
    weight = torch.randn(520, 256, dtype=dtype)
    assert all(Product(weight, columns=way).packed is None for way in (True, False))
    assert Product(weight, columns=True).weight is weight


@packs
@pytest.mark.parametrize("columns", [True, False])
def test_a_models_layers_multiply_with_them_and_it_stays_what_it_was(columns, monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(products, "LARGE", 1)
    model = tiny_model(hidden_size=64, vocab_size=100)
    ids = torch.arange(90)[None]
    before, state = model(ids).logits, {name: one.clone() for name, one in model.state_dict().items()}
    lay_out(model, columns)
    assert isinstance(model.lm_head.forward, Product) and (model.lm_head.forward.packed is None) == columns
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
