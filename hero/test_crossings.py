"""Tests crossings.py with a module for each way in which a crossing can be wrong, and one that is right."""

import pytest

from hero import crossings

# How a module in clock b makes its output `q` of `from_a`, a register of clock a; what is said of it
WRONG = {
    "plain": ("always @(posedge b) q <= from_a;", "no synchroniser"),
    "logic": ("(* keep, async_reg *) reg q_meta; always @(posedge b) {q, q_meta} <= {q_meta, from_a ^ d[1]};", "logic before it"),
    "bare": ("reg q_meta; always @(posedge b) {q, q_meta} <= {q_meta, from_a};", "without keep and async_reg"),
    "kept": ("(* keep *) reg q_meta; always @(posedge b) {q, q_meta} <= {q_meta, from_a};", "without keep and async_reg"),
    "reset": ("always @(posedge b or posedge from_a) if (from_a) q <= 1; else q <= d[1];", "enabled, reset or addressed"),
    "write": ("reg [3:0] words[0:3]; always @(posedge b) begin if (from_a) words[d[1:0]] <= d; q <= words[d[3:2]][0]; end",
              "a memory's write port"),
}
RIGHT = "(* keep, async_reg *) reg q_meta; always @(posedge b) {q, q_meta} <= {q_meta, from_a};"


def look(name, body):
    folder = crossings.TARGET / "crossings"  # not in /tmp, of which yosys has one of its own
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.sv"
    source.write_text(f"module a_{name} (input wire a, input wire b, input wire [3:0] d, output reg q);\n"
                      f"reg from_a; always @(posedge a) from_a <= d[0];\n{body}\nendmodule\n")
    return crossings.crossings(crossings.Design(crossings.netlist(f"a_{name}", [source], {})))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_crossing_is_found(name):
    body, complaint = WRONG[name]
    found, wrong = look(name, body)
    assert found and any(complaint in line for line in wrong), (found, wrong)


def test_a_synchroniser_is_right():
    assert look("right", RIGHT) == ({"q_meta": ("a", "b")}, [])


def test_a_crossing_without_constraint_is_found():
    found = {"nic.x.gray_meta": ("a", "b"), "nic.y.other_meta": ("a", "b")}
    assert crossings.unconstrained(found, "set_max_delay 8 -to *gray_meta*") == ["other_meta"]
