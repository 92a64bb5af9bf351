"""The provider library's file name, as users of other languages write it down."""

import sys

NAME = {
    "linux": "libonnxruntime_providers_mlas.so",
    "darwin": "libonnxruntime_providers_mlas.dylib",
    "win32": "onnxruntime_providers_mlas.dll",
}[sys.platform]
