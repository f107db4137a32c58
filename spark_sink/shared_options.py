"""What the options of source and sink share: unknown and required ones, and those of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import CaseInsensitiveDict

from columnar_kafka.config import Hidden
from columnar_kafka.errors import ConfigError
from columnar_kafka.ingest.oauth import named_oauth_cb
from spark_sink.java_keys import refuse_java_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = [
    "CATALOG",
    "GROUP",
    "REGISTRY",
    "STORAGE",
    "HiddenOptions",
    "check_isolation",
    "client_config",
    "consumer_config",
    "refuse_unknown",
    "required",
    "with_prefix",
]

_PREFIX: Final = "kafka."
CATALOG: Final = "table.catalog."
STORAGE: Final = "table.storage."
REGISTRY: Final = "table.registry.key."
GROUP: Final = "spark-kafka-source"
"""A consumer must have a group. Ours never joins it: ACLs for this prefix match the name itself."""
_ISOLATION_LEVELS: Final = ("read_committed", "read_uncommitted")
_OWN_KEYS: Final = {
    "auto.offset.reset": 'set "startingOffsets"; a query keeps its offsets in its checkpoint',
    "enable.auto.commit": "a query keeps its offsets in its checkpoint",
}


class HiddenOptions(CaseInsensitiveDict):
    """Spark's options, whose text shows no values: see `Hidden`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.data: Hidden = Hidden()
        self.update(options)


def required(options: Mapping[str, str], key: str, example: str) -> str:
    """Return the value of a required option.

    Raises:
        ConfigError: it is missing.
    """
    value = options.get(key)
    if not value:
        raise ConfigError(f'option "{key}" is missing: .option("{key}", "{example}")')
    return value


def refuse_unknown(options: Mapping[str, str], known: Collection[str], *prefixes: str) -> None:
    """Check that the options are known; ``kafka.`` options are left to the client.

    Options with one of the `prefixes` are left to whoever reads them.

    Raises:
        ConfigError: naming an option that is not, and those that are.
    """
    lower = {name.lower() for name in known}
    for key in options:
        if key.lower() not in lower and not key.lower().startswith((_PREFIX, *prefixes)):
            raise ConfigError(
                f'option "{key}" does not exist; the options are {", ".join(sorted(known))}, '
                "and kafka.* for the Kafka client"
            )


def client_config(options: Mapping[str, str]) -> Hidden:
    """Return the Kafka client's configuration: every ``kafka.`` option, without the prefix.

    ``kafka.oauth_cb`` is imported by its name, here and wherever the result is unpickled.

    Raises:
        ConfigError: a key that only Java clients have; the text names librdkafka's. Or there is no
            function of that name.
    """
    config = with_prefix(options, _PREFIX)
    refuse_java_keys(config)
    if "oauth_cb" in config:
        config["oauth_cb"] = named_oauth_cb(config["oauth_cb"])
    return config


def consumer_config(options: Mapping[str, str]) -> Hidden:
    """Return a Kafka consumer's configuration.

    Raises:
        ConfigError: as `client_config`; or a key that says where to read, which queries know.
    """
    config = client_config(options)
    for key, hint in _OWN_KEYS.items():
        if key in config:
            raise ConfigError(f'option "kafka.{key}" cannot be set: {hint}')
    return config


def check_isolation(key: str, level: str) -> None:
    """Check the value of an option that is an isolation level.

    Raises:
        ConfigError: there is no such level.
    """
    if level not in _ISOLATION_LEVELS:
        raise ConfigError(
            f'option "{key}" is {level!r}: it must be {" or ".join(_ISOLATION_LEVELS)}'
        )


def with_prefix(options: Mapping[str, str], prefix: str) -> Hidden:
    """Return the options that begin with a prefix, without it."""
    return Hidden(
        {
            key[len(prefix) :]: value
            for key, value in options.items()
            if key.lower().startswith(prefix)
        }
    )
