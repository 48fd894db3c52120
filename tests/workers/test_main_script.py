"""Whether a new process would run our script again: told by the line that it is at, and what stands around it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GUARDED = {
    "a guard": 'if __name__ == "__main__":\n    ask()\n',
    "the other way around": "if '__main__' == __name__:\n    ask()\n",
    "a guard and more": 'if __name__ == "__main__" and True:\n    ask()\n',
    "within a function": 'def main():\n    ask()\nif __name__ == "__main__":\n    main()\n',
}
UNGUARDED = {
    "none": "ask()\n",
    "within a function": "def main():\n    ask()\nmain()\n",
    "otherwise": 'if __name__ == "something":\n    pass\nelse:\n    ask()\n',
    "before it": 'ask()\nif __name__ == "__main__":\n    pass\n',
    "in a thread": "import threading\nthread = threading.Thread(target=ask)\nthread.start(); thread.join()\n",
}


@pytest.fixture
def said(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    script = tmp_path / "script.py"
    script.write_text(
        "from weftrace.workers.main_script import only_here\n"
        f"def mine(): ...\ndef ask(): print(only_here(mine))\n{request.param}"
    )
    return subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.parametrize("said", GUARDED.values(), ids=GUARDED, indirect=True)
def test_a_guard_is_seen(said: str) -> None:
    assert said == "None\n"


@pytest.mark.parametrize("said", UNGUARDED.values(), ids=UNGUARDED, indirect=True)
def test_no_guard_is_told(said: str) -> None:
    assert "other processes import script.py to find the function" in said
    assert 'if __name__ == "__main__":' in said


def test_a_module_that_calls_while_it_is_imported_is_told(tmp_path: Path) -> None:
    """Its children would import it, and call again, and so on."""
    (tmp_path / "mine.py").write_text(
        "from weftrace.workers.main_script import only_here\ndef mine(): ...\nprint(only_here(mine))\n"
    )
    (tmp_path / "script.py").write_text("import mine\nprint(mine.only_here(mine.mine))\n")
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, timeout=60, check=True
    )
    first, second = done.stdout.splitlines()
    assert "other processes import mine to find the function" in first and second == "None"
