import os
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data/sample/openr1-math.parquet"

os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """A folder without settings of the machine."""
    for name in [name for name in os.environ if name.startswith("ASAP_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def traces():
    """Rows of the sample, and one of them without a chain, with odd texts."""
    rows = pyarrow.parquet.read_table(SAMPLE).slice(0, 12)
    odd = {name: [None] for name in rows.column_names} | {"problem": ["Wie viele? 🧮\r\n"]}
    odd["generations"] = [["no tags 🙂"]]
    return pyarrow.concat_tables([rows, pyarrow.table(odd, schema=rows.schema)])
