"""A real Iceberg REST catalog: Iceberg's own reference server, in a JVM, on top of a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaGateway

from columnar_kafka.lake.tables.iceberg.files import file_io_properties
from columnar_kafka.local.java import find_java, jars

if TYPE_CHECKING:
    from pathlib import Path

    from minio import Bucket
    from typing_extensions import Self

__all__ = ["IcebergRest"]

_VERSION = "1.10.1"
_JARS = f"""
<dependency org="org.apache.iceberg" name="iceberg-core" rev="{_VERSION}" conf="default">
  <artifact name="iceberg-core" type="jar"/>
  <artifact name="iceberg-core" type="jar" m:classifier="tests"/>
</dependency>
<dependency org="org.apache.iceberg" name="iceberg-aws" rev="{_VERSION}" conf="default"/>
<dependency org="org.apache.iceberg" name="iceberg-aws-bundle" rev="{_VERSION}" conf="default"/>
<dependency org="org.eclipse.jetty" name="jetty-servlet" rev="11.0.25" conf="default"/>
<dependency org="org.xerial" name="sqlite-jdbc" rev="3.50.3.0" conf="default"/>
<dependency org="org.slf4j" name="slf4j-simple" rev="2.0.17" conf="default"/>
"""


class IcebergRest:
    """A catalog with its tables in a bucket, for as long as a `with` block lasts."""

    def __init__(self, folder: Path, bucket: Bucket) -> None:
        """Keep the catalog's own database in a folder."""
        self._database = folder / "rest.db"
        self._bucket = bucket

    def __enter__(self) -> Self:
        classpath = sorted(map(str, jars(f"iceberg-rest-{_VERSION}", _JARS).glob("*.jar")))
        self._gateway = JavaGateway.launch_gateway(
            classpath=":".join(classpath),
            java_path=str(find_java().executable),
            die_on_exit=True,
        )
        try:
            self.uri = self._serve(self._gateway.jvm)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._gateway.shutdown()

    def place(self, name: str) -> Bucket:
        """Return the folder of a namespace."""
        return (self._bucket / name)._replace(catalog=self.uri)

    def _serve(self, jvm: Any) -> str:
        properties = jvm.java.util.HashMap()
        for key, value in {
            **file_io_properties(self._bucket.storage),
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "uri": f"jdbc:sqlite:{self._database}",
            "warehouse": str(self._bucket),
            "client.region": "us-east-1",
            "s3.path-style-access": "true",
        }.items():
            properties.put(key, value)
        catalog = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog("tests", properties, None)
        rest = jvm.org.apache.iceberg.rest
        servlet = rest.RESTCatalogServlet(rest.RESTCatalogAdapter(catalog))
        jetty = jvm.org.eclipse.jetty
        context = jetty.servlet.ServletContextHandler()
        context.addServlet(jetty.servlet.ServletHolder(servlet), "/*")
        server = jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(context)
        server.start()
        return f"http://127.0.0.1:{server.getConnectors()[0].getLocalPort()}"
