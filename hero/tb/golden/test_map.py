"""What is written from hero/registers.toml is as that says."""

from hero import registers


def test_files_are_those_of_the_map():
    assert registers.stale() == []


def test_a_file_that_was_edited_is_found(tmp_path, monkeypatch):
    path = tmp_path / "map.h"
    monkeypatch.setattr(registers, "files", lambda: {path: "right\n"})
    assert registers.stale() == [path]
    path.write_text("wrong\n")
    assert registers.stale() == [path]
    path.write_text("right\n")
    assert registers.stale() == []


def test_the_map_is_whole():
    numbers = [entry["number"] + k for entry in registers.REGISTERS for k in range(entry.get("words", 1))]
    assert numbers == list(range(64))
    assert all(reset in (0, kept) for _, _, kept, reset in registers.words()), "hero_regs clears all bits or sets them all"
    names = [name for name, *_ in registers.words()]
    assert len(set(names)) == 64
    for entry in registers.REGISTERS:
        assert len(entry.get("parts", [])) in (0, entry.get("words", 1))
    assert len({counter["name"] for counter in registers.COUNTERS}) == len(registers.COUNTERS) <= 32
    kinds = [counter["kind"] for counter in registers.COUNTERS]
    assert kinds == sorted(kinds, key=["verdict", "fault", "plain"].index), "drops come first, verdicts before"
