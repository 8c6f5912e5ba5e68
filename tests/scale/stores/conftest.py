import os

import fsspec
import pytest
from moto.server import ThreadedMotoServer


@pytest.fixture(scope="session")
def endpoint():
    """The URL of an S3 server on this machine; the environment says how to reach it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        fsspec.filesystem("s3").mkdir("bucket")
        yield os.environ["AWS_ENDPOINT_URL"]
    server.stop()
