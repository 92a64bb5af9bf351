"""float16 and bfloat16: what rounding a result to them adds to the float32 oracle's bound."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import TensorProto

import oracle


def limits(element_type: int) -> tuple[float, float, float]:
    """Unit roundoff, half the smallest denormal, and where rounding becomes infinity."""
    info = ml_dtypes.finfo(
        np.float16 if element_type == TensorProto.FLOAT16 else ml_dtypes.bfloat16
    )
    roundoff = float(info.eps) / 2
    return roundoff, float(info.smallest_subnormal) / 2, float(info.max) * (1 + roundoff / 2)


def narrowed(expected: oracle.Reference, element_type: int) -> oracle.Reference:
    """The oracle's answer once the result is rounded to the type."""
    roundoff, half_denormal, overflow = limits(element_type)
    assert np.all(expected.magnitude < overflow / 2)
    widened = expected.bound + roundoff * (np.abs(expected.value) + expected.bound) + half_denormal
    return oracle.Reference(expected.value, widened, expected.magnitude)
