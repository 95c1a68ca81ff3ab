"""Makes the calls that come as lines of JSON on standard input, each in its own time, and prints what each came to."""

import concurrent.futures
import json
import sys
import time

import grpc

target, config = sys.argv[1:]
channel = grpc.insecure_channel(target, options=[("grpc.service_config", config)])


def perform(wish):
    began = time.monotonic()
    method = channel.unary_unary(f"/otp.v1.OtpService/{wish['rpc']}")
    try:
        answer, call = method.with_call(
            bytes.fromhex(wish["body"]), timeout=wish["seconds"], metadata=list(wish["metadata"].items())
        )
    except grpc.RpcError as refused:
        answer, call = b"", refused
    trailing = {name: value for name, value in call.trailing_metadata() or () if isinstance(value, str)}
    report = {
        "id": wish["id"],
        "code": call.code().value[0],
        "message": call.details() or "",
        "ms": 1000 * (time.monotonic() - began),
        "trailing": trailing,
        "body": answer.hex(),
    }
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


with concurrent.futures.ThreadPoolExecutor(32) as pool:
    for line in sys.stdin:
        pool.submit(perform, json.loads(line))
