"""An interrupted benchmark goes on where it was."""

import subprocess
import sys
from pathlib import Path

import pytest

from jakiro.files import append_lines
from jakiro.measuring.journal import Journal
from jakiro.measuring.report import Sample

ONE = Sample("chat", "1", "vanilla", 0.0, 0, 5, 4, 0.1, 0.2, True, None, [4], [0.0, 0.2, 0.0])


def test_what_was_added_is_there_again(tmp_path):
    path = tmp_path / "bench.json.partial"
    Journal(path, {"prompts": 2}).add("a", [ONE])
    again = Journal(path, {"prompts": 2})
    assert "a" in again and "b" not in again and len(again) == 1 and again.samples() == [ONE]


def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    path = tmp_path / "bench.json.partial"
    journal = Journal(path, {})
    journal.add("a", [ONE])
    journal.add("b", [ONE])
    path.write_text(path.read_text()[:-9])
    again = Journal(path, {})
    assert "a" in again and "b" not in again
    again.add("b", [ONE])
    assert len(Journal(path, {})) == 2


def test_another_benchmark_is_refused(tmp_path):
    path = tmp_path / "bench.json.partial"
    Journal(path, {"prompts": 2}).add("a", [ONE])
    with pytest.raises(ValueError, match=r"beginning of another benchmark; delete it .*\(prompts was 2, is 3\)"):
        Journal(path, {"prompts": 3})
    assert len(Journal(path, {"prompts": 2})) == 1


@pytest.mark.parametrize(
    ("begun", "asked", "how"),
    [
        (["x" * 99, "y"], ["x" * 99], "prompts had 2 entries, has 1"),
        (["x" * 99 + "old"], ["x" * 99 + "new"], r"prompts\[0\] was …x{30}old', is …x{30}new'"),
        ("x" * 99, "x" * 98, r"prompts was …x{31}', is …x{30}'"),
        ([1, 2], [1], r"prompts was \[1, 2\], is \[1\]"),
    ],
)
def test_what_differs_is_seen_where_both_begin_alike(tmp_path, begun, asked, how):
    path = tmp_path / "bench.json.partial"
    Journal(path, {"prompts": begun}).add("a", [ONE])
    with pytest.raises(ValueError, match=rf"another benchmark.*\({how}\)"):
        Journal(path, {"prompts": asked})


def test_a_damaged_one_is_named(tmp_path):
    path = tmp_path / "bench.json.partial"
    Journal(path, {"prompts": 2}).add("a", [ONE])
    whole = path.read_bytes()
    for garbage in (b"{\n", b"\xff\n", b'["b", [{"a": 1}]]\n', b'["b", 5]\n', b'["b"]\n'):
        path.write_bytes(whole + garbage)
        with pytest.raises(ValueError, match=r"bench.json.partial is damaged .*: delete it"):
            Journal(path, {"prompts": 2})


@pytest.mark.parametrize("line", ['{"precious": 1}', "{}", "[]", "5"])
def test_a_file_that_is_none_of_a_benchmark_is_left(tmp_path, line):
    path = tmp_path / "bench.json.partial"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"bench.json.partial is damaged \(its first line is no plan .*: delete it"):
        Journal(path, {"prompts": 2})
    assert path.read_text() == line + "\n"


def test_another_benchmark_in_which_nothing_was_measured_is_written_over(tmp_path):
    path = tmp_path / "bench.json.partial"
    Journal(path, {"prompts": 2}).settle({"jakiro": {"depth": 3}})
    other = Journal(path, {"prompts": 3})
    assert other.settings is None and len(other) == 0
    other.add("a", [ONE])
    assert len(Journal(path, {"prompts": 3})) == 1


def test_what_was_chosen_is_there_again(tmp_path):
    path = tmp_path / "bench.json.partial"
    journal = Journal(path, {})
    assert journal.settings is None and Journal(path, {}).settings is None
    journal.settle({"jakiro": {"depth": 3}})
    journal.add("a", [ONE])
    again = Journal(path, {})
    assert journal.settings == again.settings == {"jakiro": {"depth": 3}}
    assert len(again) == 1 and again.samples() == [ONE]


def test_closing_removes_the_file(tmp_path):
    path = tmp_path / "bench.json.partial"
    journal = Journal(path, {})
    journal.close()
    assert not path.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file here that is always full")
def test_a_full_disk_is_named(tmp_path):
    path = tmp_path / "bench.json.partial"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"cannot write .*bench\.json\.partial .*No space left"):
        append_lines(path, [{"a": 1}])


def test_a_file_that_another_process_writes_is_refused(tmp_path):
    path = tmp_path / "bench.json.partial"
    journal = Journal(path, {"prompts": 2})
    begin = f"from jakiro.measuring.journal import Journal, Path; Journal(Path({str(path)!r}), {{'prompts': 1}})"
    other = subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True)
    assert f"another process is writing {path}" in other.stderr
    Journal(path, {"prompts": 2}).add("a", [ONE])  # the same process has it again
    journal.close()
    assert subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True).stderr == ""
