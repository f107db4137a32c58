"""Iceberg tables whose properties say where their files go: pyiceberg's own provider decides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lakes import GENERATIONS, IcebergLake, audit, put, rows, staged
from pyiceberg.table.locations import LocationProvider
from segments import numbers, segment, segments

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land

if TYPE_CHECKING:
    from pathlib import Path

NAME = r"p0-\d{20}-[0-9a-f]{32}\.parquet"
HASHED = "[01]{4}/[01]{4}/[01]{4}/[01]{8}"


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    lake = IcebergLake(tmp_path / "warehouse")
    put(lake.table(partition_by=["_kafka_topic"]), [0])
    return lake


class Elsewhere(LocationProvider):
    """Anybody's: puts files into a folder for each day, say."""

    def new_data_location(self, data_file_name: str, partition_key: Any = None) -> str:
        return f"{self.table_location}/elsewhere/{data_file_name}"


def files(lake: IcebergLake, root: Path) -> list[str]:
    """Return the files of the table below a folder, without the first one that landed."""
    paths = [task.file.file_path for task in lake.load().scan().plan_files()]
    return sorted(path.removeprefix(f"file://{root}/") for path in paths if "/data/t/" not in path)


@pytest.mark.parametrize(
    ("properties", "pattern"),
    [
        ({"write.data.path": "{root}/other"}, rf"other/_kafka_topic=t/{NAME}"),
        ({"write.data.path": "file://{root}/other/"}, rf"other/_kafka_topic=t/{NAME}"),
        (
            {"write.object-storage.enabled": "true"},
            rf"warehouse/lake/t/data/{HASHED}/_kafka_topic=t/{NAME}",
        ),
        (
            {
                "write.object-storage.enabled": "true",
                "write.object-storage.partitioned-paths": "false",
                "write.data.path": "file://{root}/other",
            },
            rf"other/{HASHED}-{NAME}",
        ),
        (
            {"write.py-location-provider.impl": f"{__name__}.Elsewhere"},
            rf"warehouse/lake/t/elsewhere/{NAME}",
        ),
    ],
)
def test_files_go_where_the_properties_say(
    lake: IcebergLake, tmp_path: Path, properties: dict[str, str], pattern: str
) -> None:
    with lake.opened() as table, table.transaction() as change:
        change.set_properties(
            {key: template.format(root=tmp_path) for key, template in properties.items()}
        )
    put(lake.table(), range(3))
    put(lake.table(), range(5))
    assert rows(lake) == numbers(range(5))
    landed = files(lake, tmp_path)
    assert len(landed) == 2
    assert all(re.fullmatch(pattern, path) for path in landed), landed
    assert audit(lake, segments(range(5))).findings == []
    before = set(tmp_path.rglob("*.parquet"))
    lake.table().discard([staged(lake.table(), [5, 6])])  # what does not land is removed there
    assert set(tmp_path.rglob("*.parquet")) == before
    assert lake.table().compact(1 << 20).files == 1
    [merged] = files(lake, tmp_path)
    assert re.fullmatch(pattern, merged)
    assert rows(lake) == numbers(range(5))
    assert put(lake.table(), range(7)).landed.messages == 2


def test_a_partitions_value_is_in_the_path_as_pyiceberg_has_it(
    lake: IcebergLake, tmp_path: Path
) -> None:
    with lake.opened() as table, table.update_schema() as schema:
        schema.union_by_name(pa.schema([("c", pa.string())]))
    with lake.opened() as table, table.update_spec() as spec:
        spec.add_field("c", "truncate[3]", "part").add_field("n", "bucket[4]", "b")
    with lake.opened() as table, table.transaction() as change:
        change.set_properties({"write.data.path": f"{tmp_path}/other"})
    data = pa.table({"n": [1, 1], "c": ["a/b%", None]})
    land([segment(data, offset=1, number=1)], table=lake.table(), generations=GENERATIONS)
    folders = [file.rpartition("/")[0] for file in files(lake, tmp_path)]
    assert folders == [
        "other/_kafka_topic=t/part=a%2Fb/b=0",
        "other/_kafka_topic=t/part=null/b=0",
    ]
    assert lake.load().scan(row_filter="c = 'a/b%'").to_arrow().num_rows == 1


class Broken(Elsewhere):
    """Cannot tell."""

    def new_data_location(self, data_file_name: str, partition_key: Any = None) -> str:
        raise KeyError("no folder for today")


def test_what_a_provider_raises_is_said(lake: IcebergLake) -> None:
    with lake.opened() as table, table.transaction() as change:
        change.set_properties({"write.py-location-provider.impl": f"{__name__}.Broken"})
    with pytest.raises(LakeError, match=r"no place for a file: KeyError\('no folder for today'\)"):
        put(lake.table(), [1])
