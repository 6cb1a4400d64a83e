r"""One thread at a time: two updates at once raise an error instead of mixing."""

from threading import RLock


class Exclusive:
    r"""Guards an object that changes; copies and pickles get a guard of their own.

    Use it as ``with self._exclusive:`` around whatever reads or changes the object's state.

    Raises:
        RuntimeError: On entry, while another thread is inside.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # re-entrant: an interrupted call must not lock out its thread

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "Another thread is using this object; it is for one thread at a time. "
                "Guard it with a lock, or give each thread a copy."
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Exclusive"], tuple[()]]:
        return Exclusive, ()
