"""Small trainings with one planted fault each, and healthy ones."""

import torch
from torch import nn

# Makes of trainings, by the symptom to find first.
