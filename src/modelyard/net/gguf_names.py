"""Names for what a GGUF header holds as numbers or free text: quantizations and licenses. Pure."""

from __future__ import annotations

import re
from typing import Final

from modelyard.core.text import clean

UNKNOWN: Final = "Unknown"

_LONGEST_LICENSE: Final = 64

# By `general.file_type`, as llama.cpp numbers them. The numbers left out were never used, or are no longer.
_QUANTIZATIONS: Final = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
}
_LLAMA: Final = re.compile(r"llama[ _-]?(3(?:\.\d)?)(?!\d)")
_MIT: Final = re.compile(r"\bmit\b")


def quantization(file_type: int) -> str:
    """Return the quantization that llama.cpp calls a file type by; `Unknown` for a number without a name."""
    return _QUANTIZATIONS.get(file_type, UNKNOWN)


def license_name(text: str) -> str:
    """Return one spelling for the licenses that many models have, and others as they are written."""
    lower = text.lower()
    if "apache" in lower:
        return "apache-2.0"
    if llama := _LLAMA.search(lower):
        return f"llama-{llama[1]}-community"
    if "gemma" in lower:
        return "gemma"
    # A word of its own: the letters are in "limited", too.
    return "mit" if _MIT.search(lower) else clean(text, _LONGEST_LICENSE)
