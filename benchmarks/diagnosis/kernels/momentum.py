"""A step of gradient descent with Nesterov momentum and weight decay, in float32."""

import numpy as np

f32 = np.float32


def momentum(weight, velocity, gradient, lr, beta, decay):
    """Return the weights and the velocity after one step."""
    total = gradient + f32(decay) * weight
    velocity = f32(beta) * velocity + total
    step = total + f32(beta) * velocity
    weight = weight - f32(lr) * step
    return {"weight": weight, "velocity": velocity}


def exact(weight, velocity, gradient, lr, beta, decay):
    """Return the same with the step written out."""
    total = gradient + decay * weight
    moved = beta * velocity + total
    return {"weight": weight - lr * (beta**2 * velocity + (1 + beta) * total), "velocity": moved}
