"""dynamodb_append.py URL ENDPOINT ID... appends rows to the table at URL through the
DynamoDB table delta_log, and prints its version and the number of its files."""
import json
import os
import sys

from arro3.core import Array, DataType, Table
from deltalake import DeltaTable, write_deltalake

url, endpoint, ids = sys.argv[1], sys.argv[2], [int(i) for i in sys.argv[3:]]
options = {
    "AWS_ENDPOINT_URL": endpoint,
    "AWS_ENDPOINT_URL_DYNAMODB": endpoint,
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "AKIDINTEGRATION",
    "AWS_SECRET_ACCESS_KEY": "not-much-of-a-secret",
    "AWS_ALLOW_HTTP": "true",
    "AWS_S3_LOCKING_PROVIDER": "dynamodb",
    "DELTA_DYNAMO_TABLE_NAME": "delta_log",
}
os.environ.update(options)
if ids:
    rows = Table.from_pydict({"id": Array(ids, DataType.int64())})
    write_deltalake(url, rows, mode="append", storage_options=options)
table = DeltaTable(url, storage_options=options)
print(json.dumps({"version": table.version(), "files": len(table.file_uris())}))
