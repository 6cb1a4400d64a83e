r"""Repeated inputs made one."""

import torch

from kernelucb.regression.pooling import distinct_rows, pool
from problems import generator, normal, uniform


def test_pooled_inputs_do_not_depend_on_the_order_of_the_data():
    inputs = uniform(7, 2, 0)[torch.arange(20) % 7]
    noise = 0.5 + uniform(20, 1, 1)[:, 0]
    shuffled = torch.randperm(20, generator=generator(2))
    one = pool(inputs, normal(20, 3), noise)
    other = pool(inputs[shuffled], normal(20, 3)[shuffled], noise[shuffled])
    assert torch.equal(one.inputs, other.inputs)
    torch.testing.assert_close(one.residuals, other.residuals)
    torch.testing.assert_close(one.noise_std, other.noise_std)
    assert torch.equal(inputs[one.positions], one.inputs)


def test_distinct_rows_keep_the_order_in_which_they_come():
    places = torch.tensor([4, 1, 4, 0, 1, 5])
    first, index = distinct_rows(uniform(7, 2, 0)[places])
    assert first.tolist() == [0, 1, 3, 5]
    assert index.tolist() == [0, 1, 0, 2, 1, 3]
