"""The peer that a user would write in an afternoon: AttentionService.Attend as a Python gRPC server around PyTorch.

    torch_server.py --stubs FOLDER [--threads N]

One request a call, no batching, no streams. Speaks Tessera's protocol, so tessera-load loads it as it loads the server
(--transport=unary). Prints the serving line that tessera-server prints. FOLDER holds tessera/v1/*_pb2.py.
"""

import argparse
import json
import sys
from concurrent import futures

import grpc
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa


def serve(stubs, threads):
    sys.path.insert(0, stubs)
    from tessera.v1 import attention_pb2, server_pb2, tensor_pb2

    dtypes = {
        tensor_pb2.DATA_TYPE_FLOAT32: torch.float32,
        tensor_pb2.DATA_TYPE_FLOAT16: torch.float16,
        tensor_pb2.DATA_TYPE_BFLOAT16: torch.bfloat16,
    }

    def attend(request, context):
        header = request.header
        if len(header.q_lengths) != 1:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "one sequence a call")

        def tensor(data, heads):
            flat = torch.frombuffer(bytearray(data), dtype=dtypes[header.dtype])
            return flat.view(1, -1, heads, header.head_dim).transpose(1, 2).cuda()

        causal = header.options.mask.kind == tensor_pb2.MASK_KIND_CAUSAL
        o = sdpa(tensor(request.q, header.q_heads), tensor(request.k, header.kv_heads),
                 tensor(request.v, header.kv_heads), is_causal=causal)
        data = o.transpose(1, 2).contiguous().view(torch.uint8).cpu().numpy().tobytes()
        return attention_pb2.AttendResponse(result=attention_pb2.AttendResult(o_bytes=len(data)), o=data)

    def get_server_info(request, context):
        return server_pb2.GetServerInfoResponse(version="by hand", backend="torch")

    def unary(function, request, response):
        return grpc.unary_unary_rpc_method_handler(function, request.FromString, response.SerializeToString)

    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(threads), options=unlimited)
    server.add_generic_rpc_handlers([
        grpc.method_handlers_generic_handler("tessera.v1.AttentionService", {
            "Attend": unary(attend, attention_pb2.AttendRequest, attention_pb2.AttendResponse)}),
        grpc.method_handlers_generic_handler("tessera.v1.ServerService", {
            "GetServerInfo": unary(get_server_info, server_pb2.GetServerInfoRequest,
                                   server_pb2.GetServerInfoResponse)}),
    ])
    port = server.add_insecure_port("127.0.0.1:0")
    torch.zeros(1, device="cuda")
    server.start()
    print(json.dumps({"event": "serving", "grpc_port": port, "metrics_port": 0}), flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--stubs", required=True)
    parser.add_argument("--threads", type=int, default=16)
    arguments = parser.parse_args()
    serve(arguments.stubs, arguments.threads)
