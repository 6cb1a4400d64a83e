r"""Claims and stops inside other tools: a history in, claims out.

``core`` turns a history of runs into a band, a certified gap and a report; each other
module is an adapter for one tool and imports it (extra ``integrations``).
"""

from kernelucb.integrations.core import History, Settings

__all__ = ["History", "Settings"]
