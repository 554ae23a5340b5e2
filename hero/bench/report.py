"""Figures of a run: collected, printed as tables, and written as JSON in the form that all benches share."""

import json
import statistics


class Report:
    def __init__(self):
        self.rows = []

    def add(self, case, subject, metric, unit, values, ratio_to="", reference=None):
        """`values` of the rounds; `reference` is what `ratio_to` names. Returns the median."""
        values = list(values)
        median = statistics.median(values)
        self.rows.append({
            "case": case, "subject": subject, "metric": metric, "unit": unit, "median": median, "low": min(values),
            "high": max(values), "ratio_to": ratio_to, "ratio": median / reference if reference else None})
        return median

    def save(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.rows, indent=1) + "\n")


def table(title, head, rows):
    """Prints a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row) + " |", flush=True)
