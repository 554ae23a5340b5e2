"""Tests import from the repository's root: hero.model, hero.bench."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
