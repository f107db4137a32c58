"""Credentials of an object store that a Spark already has, as options of the sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_sink.shared_options import STORAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["storage_options"]

_S3A: Final = "spark.hadoop.fs.s3a."
_SAME: Final = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint.region": "aws_region",
}


def storage_options(spark: SparkSession) -> dict[str, str]:
    """Return options of the sink that open S3 as Spark's own files do.

    They are those of the session's configuration for `s3a`: ``spark.hadoop.fs.s3a.access.key`` and
    ``secret.key``, ``session.token``, ``endpoint``, ``endpoint.region``, ``path.style.access``,
    ``connection.ssl.enabled``. What is not set is left out, and then the environment of driver and
    executors counts, or the machine's role. Settings in Hadoop's own files, or of a single bucket,
    are not read.

    >>> frame.writeStream.format("columnar_lake").options(
    ...     path="s3://bucket/lake", **spark_sink.storage_options(spark)
    ... )  # doctest: +SKIP
    """
    options = {name: _get(spark, key) for key, name in _SAME.items()}
    has_tls = (_get(spark, "connection.ssl.enabled") or "true").lower() != "false"
    endpoint = _get(spark, "endpoint")
    if endpoint:
        if "://" not in endpoint:
            endpoint = f"{'https' if has_tls else 'http'}://{endpoint}"
        options["aws_endpoint_url"] = endpoint
        options["aws_allow_http"] = "true" if endpoint.startswith("http://") else None
    if by_path := _get(spark, "path.style.access"):
        is_virtual = by_path.lower() == "false"
        options["aws_virtual_hosted_style_request"] = "true" if is_virtual else "false"
    return {STORAGE + name: value for name, value in options.items() if value}


def _get(spark: SparkSession, key: str) -> str | None:
    return spark.conf.get(_S3A + key, None)
