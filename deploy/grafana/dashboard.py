"""Writes dashboards/tessera.json, the dashboard that Grafana loads, from the panels below.

    python3 deploy/grafana/dashboard.py            writes it
    python3 deploy/grafana/dashboard.py --check    fails where the file differs from what would be written

Queries take plain metrics, not recorded ones, so that the dashboard works without rules, for any choice of servers.
A panel whose queries may rightly return nothing says so on the screen (`nothing`).
"""

import json
import pathlib
import sys

from layout import DATASOURCE, choice, panel, place
from promql import chosen, gauge, mean, quantile, rate

FILE = pathlib.Path(__file__).parent / "dashboards" / "tessera.json"

# Refusals that are the caller's own doing, or of connections that no call has come over yet.
NO_FAILURE = "invalid|not_found|conflict|precondition|unauthenticated|tenant|token|connections|file_descriptors"
FAILED = f"({rate('tessera_rejected_total', reason=f'!~{NO_FAILURE}')} + {rate('tessera_expired_total')})"
ANSWERED = rate("tessera_stage_seconds_count", stage="send")
MEMORY = "tessera_pinned_memory_bytes"
DEVICE_MEMORY = "tessera_device_memory_bytes"

RED_WHEN_LOW = [(None, "red"), (1, "green")]

ROWS = [
    (
        "Are we serving",
        [
            panel(
                "Servers up",
                "Of the servers that Prometheus knows, those it reaches.",
                [(f"sum({chosen('up')})", "up"), (f"count({chosen('up')})", "known")],
                kind="stat",
                width=4,
                height=4,
                steps=RED_WHEN_LOW,
            ),
            panel(
                "Answered",
                "Calls whose answer was sent to its last byte.",
                [(ANSWERED, "answered")],
                kind="stat",
                unit="reqps",
                width=4,
                height=4,
            ),
            panel(
                "Failed",
                "Share of calls refused for want of room, expired, or broken. Calls that were wrong, or that their"
                " callers gave up, are not in it.",
                [(f"{FAILED} / clamp_min({FAILED} + {ANSWERED}, 1e-9)", "failed")],
                kind="stat",
                unit="percentunit",
                width=4,
                height=4,
                steps=[(None, "green"), (0.01, "orange"), (0.05, "red")],
            ),
            panel(
                "Queue p99",
                "Time from admission to launch that one call in a hundred exceeds.",
                [(quantile(0.99, "tessera_stage_seconds", stage="queue"), "p99")],
                kind="stat",
                unit="s",
                width=4,
                height=4,
                steps=[(None, "green"), (0.2, "orange"), (1, "red")],
                nothing="no calls",
            ),
            panel(
                "Calls in a batch",
                "Mean.",
                [(mean("tessera_batch_requests"), "mean")],
                kind="stat",
                width=4,
                height=4,
                nothing="no batches",
            ),
            panel(
                "Useful FLOP/s",
                "Of all devices; masked-out tiles are not counted.",
                [(rate("tessera_flops_total"), "FLOP/s")],
                kind="stat",
                unit="flops",
                width=4,
                height=4,
            ),
            panel(
                "Calls by outcome",
                "Answered; refused; expired; cancelled by their callers. A call counts once, where it ends.",
                [
                    (ANSWERED, "answered"),
                    (rate("tessera_rejected_total", reason="!~connections|file_descriptors"), "refused"),
                    (rate("tessera_expired_total"), "expired"),
                    (rate("tessera_cancelled_total"), "cancelled"),
                ],
                unit="reqps",
                stacked=True,
            ),
            panel(
                "RPCs by code",
                "RPCs ended. Many calls may share one AttendStream.",
                [
                    (
                        rate("grpc_server_handled_total", "grpc_method, grpc_code") + " > 0",
                        "{{grpc_method}} {{grpc_code}}",
                    )
                ],
                unit="reqps",
                nothing="no RPC has ended",
            ),
            panel(
                "Servers",
                "Builds and devices. Different revisions side by side: a roll-out is under way.",
                [
                    (f"sum by (instance, version, revision, backend) ({chosen('tessera_build_info')})", ""),
                    (f"sum by (instance, device, name, kernel) ({chosen('tessera_device_info')})", ""),
                ],
                kind="table",
            ),
        ],
    ),
    (
        "How fast",
        [
            *(
                panel(
                    f"p{percent} by stage",
                    "receive, queue, send: of calls. copy_in, compute, copy_out: of batches; near 0 on a"
                    " CPU, which computes where the tensors are.",
                    [(quantile(percent / 100, "tessera_stage_seconds", "stage"), "{{stage}}")],
                    unit="s",
                    nothing="no calls",
                )
                for percent in (50, 95, 99)
            ),
            panel(
                "Where the time goes",
                "Mean of each stage: a call's time, but for the wire and the client.",
                [(mean("tessera_stage_seconds", "stage"), "{{stage}}")],
                unit="s",
                stacked=True,
                nothing="no calls",
            ),
            panel(
                "Unary RPCs",
                "Attend, from its begin to its end in the server. Of AttendStream this would be a stream's"
                " life, so it is not here.",
                [
                    (quantile(q, "grpc_server_handling_seconds", grpc_method="Attend"), f"p{round(q * 100)}")
                    for q in (0.5, 0.95, 0.99)
                ],
                unit="s",
                nothing="no unary calls",
            ),
            panel(
                "Queue time by server",
                "p95. One server far above the others: its callers do not balance.",
                [(quantile(0.95, "tessera_stage_seconds", "instance", stage="queue"), "{{instance}}")],
                unit="s",
                nothing="no calls",
            ),
        ],
    ),
    (
        "How full",
        [
            panel(
                "Calls waiting",
                "Together against --max_queue_requests: those in the queue, and steps that wait for their turn on a"
                " sequence.",
                [
                    (gauge("tessera_queue_requests"), "queue {{instance}}"),
                    (gauge("tessera_turn_requests"), "turn {{instance}}"),
                ],
            ),
            panel(
                "Bytes admitted",
                "Messages and calls held (--max_inflight_bytes), and of them those of waiting calls"
                " (--max_queue_bytes); memory shared with callers (--max_region_bytes).",
                [
                    (gauge("tessera_inflight_bytes"), "in flight {{instance}}"),
                    (gauge("tessera_queue_bytes"), "queue {{instance}}"),
                    (gauge("tessera_turn_bytes"), "turn {{instance}}"),
                    (gauge("tessera_region_bytes", kind="used"), "regions {{instance}}"),
                ],
                unit="bytes",
            ),
            panel(
                "Staging memory",
                "Part in use of --staging_bytes, where tensors are received and answered from.",
                [(f"{gauge(MEMORY, kind='used')} / {gauge(MEMORY, kind='capacity')}", "{{instance}}")],
                unit="percentunit",
                maximum=1,
            ),
            panel(
                "Device memory",
                "Part of each device's arena in use.",
                [
                    (
                        f"{gauge(DEVICE_MEMORY, 'instance, device', kind='used')}"
                        f" / ({gauge(DEVICE_MEMORY, 'instance, device', kind='capacity')} > 0)",
                        "{{instance}} device {{device}}",
                    )
                ],
                unit="percentunit",
                maximum=1,
                nothing="no device with memory of its own (CPU backend)",
            ),
            panel(
                "Resident memory",
                "Of the process.",
                [(gauge("process_resident_memory_bytes"), "{{instance}}")],
                unit="bytes",
            ),
            panel(
                "File descriptors",
                "Part in use; each connection takes one.",
                [(f"{gauge('process_open_fds')} / {gauge('process_max_fds')}", "{{instance}}")],
                unit="percentunit",
            ),
        ],
    ),
    (
        "How well batched",
        [
            panel(
                "Calls in a batch",
                "Small ones while calls wait: types, heads or masks differ, or a bound is reached.",
                [
                    (mean("tessera_batch_requests"), "mean"),
                    (quantile(0.5, "tessera_batch_requests"), "p50"),
                    (quantile(0.95, "tessera_batch_requests"), "p95"),
                ],
                nothing="no batches",
            ),
            panel(
                "Query tokens in a batch",
                "Against --max_batch_tokens.",
                [(mean("tessera_batch_tokens"), "mean"), (quantile(0.95, "tessera_batch_tokens"), "p95")],
                nothing="no batches",
            ),
            panel("Batches", "By kernel.", [(rate("tessera_batches_total", "kernel"), "{{kernel}}")], unit="ops"),
        ],
    ),
    (
        "How much of the hardware",
        [
            panel(
                "Useful FLOP/s",
                "By kernel and type, of all devices.",
                [(rate("tessera_flops_total", "kernel, dtype"), "{{kernel}} {{dtype}}")],
                unit="flops",
                stacked=True,
                width=6,
            ),
            panel(
                "Memory traffic",
                "Bytes a second between device memory and kernel, by the traffic model; compare with the"
                " device's bandwidth.",
                [(rate("tessera_hbm_bytes_total", "kernel"), "{{kernel}}")],
                unit="Bps",
                width=6,
            ),
            panel(
                "Tiles skipped",
                "Part of all tiles that masks made unnecessary: near half for long causal sequences.",
                [(f"{rate('tessera_tiles_total', result='skipped')} / {rate('tessera_tiles_total')}", "skipped")],
                unit="percentunit",
                maximum=1,
                width=6,
                nothing="no batches",
            ),
            panel(
                "Cores busy",
                "CPU seconds a second of the process.",
                [(rate("process_cpu_seconds_total", "instance"), "{{instance}}")],
                width=6,
            ),
            panel(
                "Devices up",
                "Of each server; one that is lost comes back only with a new start of the process.",
                [(gauge("tessera_device_up"), "{{instance}}")],
                width=6,
            ),
            panel(
                "Tensor bytes received",
                "By messages: each is copied once, into staging memory. In regions: read where callers have them.",
                [
                    (rate("tessera_copied_bytes_total", "direction"), "{{direction}}"),
                    (rate("tessera_region_payload_bytes_total", "memory", direction="read"), "{{memory}}"),
                ],
                unit="Bps",
                width=6,
            ),
        ],
    ),
    (
        "Who is refused and why",
        [
            panel(
                "Refused",
                "By reason. invalid, not_found, conflict, precondition: the caller is wrong; internal: the server is."
                " unauthenticated, tenant, token: it has no good token, another's, or no longer one."
                " byte_budget, staging, queue, device_memory, kv_pages: no room now."
                " connections, file_descriptors: connections, not calls. regions: too many, or too much memory.",
                [(rate("tessera_rejected_total", "reason"), "{{reason}}")],
                unit="reqps",
                stacked=True,
            ),
            panel(
                "Expired",
                "By where the call was when its deadline passed. receive and send: a slow caller or network.",
                [(rate("tessera_expired_total", "where"), "{{where}}")],
                unit="reqps",
                stacked=True,
            ),
            panel(
                "Cancelled",
                "By where the call was when its caller gave up. Clients that keep deadlines by themselves cancel,"
                " so many of these are deadlines, too.",
                [(rate("tessera_cancelled_total", "where"), "{{where}}")],
                unit="reqps",
                stacked=True,
            ),
        ],
    ),
    (
        "What stays on the server",
        [
            panel(
                "KV pages in use",
                "Part of each profile's pages. At 1 calls that append are refused with reason kv_pages.",
                [
                    (
                        f"{gauge('tessera_kv_pages', 'instance, profile', state='used')}"
                        f" / {gauge('tessera_kv_pages', 'instance, profile')}",
                        "{{instance}} {{profile}}",
                    )
                ],
                unit="percentunit",
                maximum=1,
                nothing="no profile (--kv_profiles)",
            ),
            panel(
                "KV pages on the host",
                "By profile. Of sequences that were unused for longest when others needed room; they come back with"
                " their next use. Calls that append are refused where the host has no room either.",
                [(gauge("tessera_kv_host_pages", "instance, profile"), "{{instance}} {{profile}}")],
                nothing="no profile (--kv_profiles)",
            ),
            panel(
                "KV pages moved",
                "To the host for others' sake, and back to the device. Many of both: sequences in use take turns in too"
                " few pages.",
                [(rate("tessera_kv_moved_pages_total", "instance, profile, to"), "{{instance}} {{profile}} to {{to}}")],
                nothing="no profile (--kv_profiles)",
            ),
            panel(
                "Resident sequences",
                "By profile. They end by a release or with their lease.",
                [(gauge("tessera_kv_sequences", "instance, profile"), "{{instance}} {{profile}}")],
                nothing="no profile (--kv_profiles)",
            ),
        ],
    ),
]


def dashboard():
    return {
        "id": None,
        "uid": "tessera",
        "title": "Tessera",
        "tags": ["tessera"],
        "schemaVersion": 38,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "timezone": "",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                choice("namespace", "Namespace", "namespace"),
                choice("instance", "Server", "instance"),
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "Restarts",
                    "enable": True,
                    "datasource": DATASOURCE,
                    "iconColor": "red",
                    "step": "15s",
                    "expr": f"changes({chosen('process_start_time_seconds')}[1m]) > 0",
                    "titleFormat": "{{instance}} started",
                }
            ]
        },
        "panels": place(ROWS),
    }


def main():
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" in sys.argv[1:]:
        if FILE.read_text() != text:
            sys.exit(f"{FILE} is not what {__file__} writes: run it")
    else:
        FILE.write_text(text)


if __name__ == "__main__":
    main()
