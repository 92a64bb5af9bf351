"""Names for the array types that the package's signatures use."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Float32Array: TypeAlias = npt.NDArray[np.float32]
Float64Array: TypeAlias = npt.NDArray[np.float64]
Uint8Array: TypeAlias = npt.NDArray[np.uint8]
