"""The torch networks of the shipped suites, against plain numpy in float64, and the facts that are known of them."""

import hashlib

import numpy as np
import pytest
import torch

from tests.extras.suites import plain_networks
from tests.suites.kernel_files import load, suites_on_path

RESNET, BERT, GPT, FCOS = (load(f"networks/{name}") for name in ("resnet", "bert", "gpt", "fcos"))
ORACLES, RESNET_ORACLE = load("networks/transformer_oracles"), load("networks/resnet_oracle")
MAKERS = {"resnet50": RESNET.resnet50, "bert": BERT.bert, "gpt": GPT.gpt, "fcos": FCOS.fcos}
WORDS = 2**30
DIGESTS = {
    "resnet50": "2feec7ebe46af7b7",
    "bert": "d64fc20c506eb460",
    "gpt": "37b27ca08cf9f314",
    "fcos": "cbb149d813c6cbcc",
}
RANDOM = np.random.default_rng(17)


def weights_of(model):
    return {name: values.double().numpy() for name, values in model.state_dict().items()}


def words(*shape):
    return torch.from_numpy(RANDOM.integers(0, WORDS, shape))


def stages(images):
    sizes = zip((64, 128, 256), (8, 4, 2), strict=True)
    return [np.maximum(RANDOM.standard_normal((images, channels, side, side)), 0) for channels, side in sizes]


def test_resnet50_has_the_published_number_of_parameters_and_the_usual_names():
    model = RESNET.resnet50()
    assert sum(values.numel() for values in model.parameters()) == 25_557_032
    names = model.state_dict()
    assert len(names) == 320
    assert {"conv1.weight", "layer1.0.downsample.1.running_var", "layer4.2.conv3.weight", "fc.bias"} <= set(names)
    assert names["layer2.0.conv2.weight"].shape == (128, 128, 3, 3)


def test_resnet50_is_the_plain_one():
    images = RANDOM.standard_normal((2, 3, 32, 48))
    model = RESNET.resnet50("float64")
    expected = plain_networks.resnet50(images, weights_of(model))
    result = model(torch.from_numpy(images))
    assert np.abs(result["logits"].numpy() - expected).max() < 1e-11 * np.abs(expected).max()
    assert result["top1"].tolist() == expected.argmax(1).tolist()
    with suites_on_path():
        oracle = RESNET_ORACLE.classify(torch.from_numpy(images))
        agree(result, {name: values.numpy() for name, values in oracle.items()})


def agree(result, expected):
    """Require the outputs of an oracle, to the rounding of float64."""
    assert list(result) == list(expected)
    for name, values in expected.items():
        assert np.abs(result[name].numpy() - values).max() <= 1e-11 * np.abs(values).max(), name


def test_bert_is_its_oracles_with_padding_and_segments():
    text, lengths = words(2, 12), torch.tensor([12, 7])
    with suites_on_path():
        expected = ORACLES.read_bert(text, lengths)
    agree(BERT.bert("float64")(text, lengths), expected)


def test_gpt_is_its_oracles():
    text = words(2, 10)
    with suites_on_path():
        expected = ORACLES.read_gpt(text)
    agree(GPT.gpt("float64")(text), expected)


def test_the_cache_gives_the_logits_of_the_whole_text():
    model, text = GPT.gpt("float64"), words(3, 20)
    result = model(text)
    assert (result["cached"] - result["logits"]).abs().max() < 1e-12
    single = GPT.gpt("float32")(text)
    assert 0 < (single["cached"] - single["logits"]).abs().max() < 1e-4, "another order of sums has other bits"


def test_no_token_changes_the_logits_before_it():
    model, text = GPT.gpt("float64"), words(1, 16)
    other = text.clone()
    other[0, 10:] = words(6)
    before, after = (model(one)["logits"][0] for one in (text, other))
    assert torch.equal(before[:10], after[:10])
    assert not torch.equal(before[10:], after[10:])


def test_fcos_is_the_plain_one():
    model, features = FCOS.fcos("float64"), stages(2)
    scores, boxes = plain_networks.fcos(features, weights_of(model))
    result = model(*map(torch.from_numpy, features))
    assert np.abs(result["scores"].numpy() - scores).max() < 1e-12
    assert np.abs(result["boxes"].numpy() - boxes).max() < 1e-9
    assert float(result["mean_average_precision"]) == 1, "the objects are those that float64 finds"


def test_a_detector_whose_boxes_moved_has_a_lower_score():
    model, features = FCOS.fcos(), [torch.from_numpy(stage).float() for stage in stages(2)]
    assert float(model(*features)["mean_average_precision"]) > 0.99
    found = model.dense(features)
    moved = {**found, "boxes": found["boxes"] + 8.0}
    assert float(model.precision_of(moved, features)["mean_average_precision"]) < 0.7


@pytest.mark.parametrize("name", MAKERS)
def test_weights_have_the_same_bits_on_every_platform(name):
    digest = hashlib.blake2b(digest_size=8)
    for part, values in sorted(MAKERS[name]().state_dict().items()):
        digest.update(part.encode() + values.numpy().tobytes())
    assert digest.hexdigest() == DIGESTS[name]


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_drawn_does_not_depend_on_torchs_generator(name):
    state = torch.get_rng_state()
    MAKERS[name]()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "int8"])
@pytest.mark.parametrize("name", ["bert", "gpt", "fcos"])
def test_a_narrow_precision_is_near_and_not_equal(name, precision):
    arguments = {"bert": (words(2, 12), torch.tensor([12, 7])), "gpt": (words(2, 10),)}
    given = arguments.get(name) or [torch.from_numpy(stage).float() for stage in stages(1)]
    exact, narrow = (MAKERS[name](one)(*given) for one in ("float64", precision))
    output = "scores" if name == "fcos" else "logits"
    wanted = torch.float32 if precision == "int8" else getattr(torch, precision)
    assert narrow[output].dtype == wanted
    error = (narrow[output].double() - exact[output]).abs().mean() / exact[output].std()
    assert 1e-5 < error < 0.1
