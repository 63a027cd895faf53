"""The cache by itself; against a model it is tested in test_target."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from jakiro.cache import ROOM, KVCache, argument_of

SHAPES = [((2, 4), (2, 4)), None, ((3, 4), (3, 6)), ((2, 4), (2, 4))]
LAYERS = [layer for layer, pair in enumerate(SHAPES) if pair]


@pytest.fixture
def cache() -> KVCache:
    return KVCache(SHAPES, capacity=10, dtype=torch.float32, device="cpu")


def write(cache: KVCache, marks: list[int]) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Put rows that hold their mark, the layer beside it, and return what each layer gives the model."""
    seen = {}
    for layer in LAYERS:
        rows = torch.tensor(marks, dtype=torch.float32)[None, None, :, None] * 10 + layer
        seen[layer] = cache.update(
            *(rows.expand(1, h, -1, w) + bit / 2 for bit, (h, w) in enumerate(SHAPES[layer])), layer
        )
    return seen


def read(seen, layer: int) -> list[int]:
    """The marks that a layer was shown, after checking every head, width, key and value."""
    keys, values = seen[layer]
    (key_heads, key_width), (value_heads, value_width) = SHAPES[layer]
    assert keys.shape[:2] == (1, key_heads) and keys.shape[3] == key_width
    assert values.shape[:2] == (1, value_heads) and values.shape[3] == value_width
    marks = (keys[0, 0, :, 0] - layer) / 10
    assert (keys == keys[:, :1, :, :1]).all() and (values == keys[0, 0, :, 0][:, None] + 0.5).all()
    return marks.int().tolist()


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_a_models_forward_names_the_cache(name):
    model = SimpleNamespace(forward={"cache": lambda cache: cache, "past_key_values": lambda past_key_values: 0}[name])
    assert argument_of(model) == name


def test_rows_count_only_once_kept(cache):
    write(cache, [1, 2, 3])
    assert cache.length == 0
    cache.keep(0, range(3))
    assert cache.get_seq_length() == 3 and cache.get_mask_sizes(4, 0) == (7, 0)
    write(cache, [4, 5])
    seen = write(cache, [6])  # the next pass overwrites
    assert all(read(seen, layer) == [1, 2, 3, 6] for layer in LAYERS)


@pytest.mark.parametrize("rows", [[0], [0, 1], [0, 2], [0, 1, 4], [0, 3, 4], [1, 3]])
def test_keep_compacts_every_layer(cache, rows):
    write(cache, [1, 2])
    cache.keep(0, range(2))
    write(cache, [10, 11, 12, 13, 14])
    cache.keep(2, rows)
    seen = write(cache, [20])
    expected = [1, 2, *(10 + row for row in rows), 20]
    assert all(read(seen, layer) == expected for layer in LAYERS)


def test_a_tree_larger_than_the_room_moves_the_cache(cache):
    write(cache, [1, 2])
    cache.keep(0, range(2))
    cache.reserve(8)
    assert cache.capacity == 10
    cache.reserve(30)
    assert cache.capacity == 2 * ROOM
    seen = write(cache, list(range(3, 33)))
    assert all(read(seen, layer) == list(range(1, 33)) for layer in LAYERS)


def test_equal_layers_share_one_storage(cache):
    assert sorted(tuple(storage.shape) for storage in cache._storage.values()) == [
        (1, 3, 10, 4),
        (1, 3, 10, 6),
        (4, 2, 10, 4),
    ]
