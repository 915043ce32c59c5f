"""The mistakes that the suites of networks in torch catch. Each is a loss that a review could overlook."""

from tests.suites.plants import Plant

PLANTS = (
    Plant(
        "model/resnet50",
        "networks/resnet.py",
        "        return x.mean((2, 3))",
        "        return x.to(torch.bfloat16).mean((2, 3)).to(x.dtype)",
        "the mean over places is stored in bfloat16",
        ("*/float32",),
    ),
    Plant(
        "model/bert",
        "networks/bert.py",
        "EPS = 1e-12",
        "EPS = 1e-5",
        "the epsilon of the norms is that of another model",
        ("*/float32",),
    ),
    Plant(
        "model/gpt",
        "networks/transformer.py",
        "context = torch.softmax(scores + mask, -1) @ v",
        "context = (torch.softmax(scores + mask, -1).bfloat16() @ v.bfloat16()).to(v.dtype)",
        "attention adds up in bfloat16",
        ("*/float32",),
    ),
    Plant(
        "model/fcos",
        "networks/fcos.py",
        "distances = torch.exp(self.distances(towered)) * stride",
        "distances = torch.exp(self.distances(towered) + float(np.log(stride)))",
        "the stride is added to the exponent, which then has fewer bits behind the point",
        ("*/float16",),
    ),
    Plant(
        "model/resnet50_onnx",
        "networks/onnx_resnet.py",
        "epsilon=layer.eps",
        "epsilon=1e-4",
        "the exporter writes another epsilon",
        ("*/ORT_DISABLE_ALL",),
    ),
    Plant(
        "model/resnet50_8bit",
        "networks/compensated_resnet.py",
        "wanted = x - self.carried",
        "wanted = x + self.carried",
        "carried errors are added up, and not paid for",
        ("*/compensated",),
    ),
)
