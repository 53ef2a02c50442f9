"""One Spark session in local mode for all tests of this folder."""

from collections.abc import Iterator
from typing import Any

import pytest

from neatrec.cooccurrence.spark import session as ours
from neatrec.errors import MissingDependencyError

QUICK = {
    # tiny data: what Spark spends on preparing itself is most of the time
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The active session, which the engine finds by itself."""
    patch = pytest.MonkeyPatch()
    plain = ours._settings
    patch.setattr(ours, "_settings", lambda *arguments: plain(*arguments) | QUICK)
    try:
        session = ours.connect("local[2]")
    except MissingDependencyError as error:
        pytest.skip(str(error))
    finally:
        patch.undo()
    yield session
    session.stop()
