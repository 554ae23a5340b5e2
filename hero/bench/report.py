"""Figures of a run: collected, printed as tables, and written as JSON in the form that all benches share."""

import json
import statistics


class Report:
    def __init__(self):
        self.rows, self.text = [], []

    def add(self, case, subject, metric, unit, values, ratio_to="", reference=None):
        """`values` of the rounds; `reference` is what `ratio_to` names. Returns the median."""
        values = list(values)
        median = statistics.median(values)
        self.rows.append({
            "case": case, "subject": subject, "metric": metric, "unit": unit, "median": median, "low": min(values),
            "high": max(values), "ratio_to": ratio_to, "ratio": median / reference if reference else None})
        return median

    def table(self, title, head, rows):
        """Prints a Markdown table."""
        lines = [f"### {title}", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
        print("\n" + "\n".join(lines), flush=True)
        self.text.append("\n".join(lines))

    def save(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.rows, indent=1) + "\n")

    def document(self, path):
        """Puts the tables between the marks of bench-hero in a page; ValueError without marks."""
        begin, end = "<!-- begin: bench-hero -->", "<!-- end: bench-hero -->"
        head, found, rest = path.read_text().partition(begin)
        _, found_end, tail = rest.partition(end)
        if not found or not found_end:
            raise ValueError(f"{path} has no lines {begin} and {end}")
        path.write_text(f"{head}{begin}\n" + "\n\n".join(self.text) + f"\n{end}{tail}")
