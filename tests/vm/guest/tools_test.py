#!/usr/bin/python3 -B
"""RDMA tools over soft-RoCE under the library: the same words and exit codes as without, counts equal to what the tool says and the wire
carries, planned source ports. Runs in the guest."""
import unittest

import tool_support as support
from tool_support import CLIENT_ADDRESS, CLIENT_ADDRESS6, SERVER_ADDRESS, SERVER_ADDRESS6, qp_flows, total

PERFTEST_PORT, PINGPONG_PORT = 18515, 18515


def perftest(tool, *options):
    common = [tool, "-x", "1", "-F", *options]
    return ([*common, "-d", support.SERVER_DEVICE], [*common, "-d", support.CLIENT_DEVICE, SERVER_ADDRESS], PERFTEST_PORT)


def pingpong(tool, *options):
    common = [tool, "-g", "1", *options]
    return ([*common, "-d", support.SERVER_DEVICE], [*common, "-d", support.CLIENT_DEVICE, SERVER_ADDRESS], PINGPONG_PORT)


# UCX 1.13 takes soft-RoCE's datagrams for IPv6 ones and drops others, and it connects by datagrams; hence the first GID.
UCX = ["env", "UCX_TLS=rc", "UCX_IB_GID_INDEX=0", "UCX_LOG_LEVEL=error"]
UCX_PORT = 13337


def ucx_perftest(*options):
    server = [*UCX, f"UCX_NET_DEVICES={support.SERVER_DEVICE}:1", "ucx_perftest"]
    return (server, [*UCX, f"UCX_NET_DEVICES={support.CLIENT_DEVICE}:1", "ucx_perftest", SERVER_ADDRESS, *options], UCX_PORT)


def mpirun(*program):
    rank = [["-np", "1", *UCX, f"UCX_NET_DEVICES={device}:1", *program] for device in (support.SERVER_DEVICE, support.CLIENT_DEVICE)]
    options = ["--mca", "pml", "ucx", "--mca", "osc", "^ucx", "--mca", "btl", "self", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
    return (None, ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "plm", "isolated", *options, *rank[0], ":", *rank[1]], 0)


class ToolsTest(unittest.TestCase):
    def setUp(self):
        self.maxDiff = None

    def check_unchanged(self, command, **settings):
        """Runs the pair without and with the library and compares; the recorded run."""
        plain_server, plain_client = support.run_pair(*command, {})
        self.assertEqual((plain_server.status, plain_client.status), (0, 0), plain_server.output + plain_client.output)
        recorded = support.run_recorded(*command, **settings)
        self.assertEqual((recorded.server.status, recorded.client.status), (0, 0), recorded.server.output + recorded.client.output)
        self.assertEqual(support.shape(recorded.server.output), support.shape(plain_server.output))
        self.assertEqual(support.shape(recorded.client.output), support.shape(plain_client.output))
        self.assertGreaterEqual(recorded.report["attachments"], 2)
        self.assertEqual(recorded.report["dropped"], 0)
        return recorded

    def check_queue_pairs(self, recorded, count, addresses=(CLIENT_ADDRESS, SERVER_ADDRESS)):
        """The flows of both sides: they lead to each other, and each told exactly what the wire carried."""
        client, server = (qp_flows(recorded.report, address) for address in addresses)
        self.assertEqual((len(client), len(server)), (count, count), recorded.report)
        for flow in client + server:
            ready, counted = flow["qp_events"][0], flow["qp"]
            self.assertEqual((flow["remote_port"], flow["gone"]), (support.ROCE_PORT, True))
            self.assertEqual((counted["completion_errors"], counted["failed_posts"]), (0, 0))
            wire = recorded.traffic[flow["local"], ready["dest_qpn"]]
            told = (counted["sends"] + counted["writes"] + counted["write_imms"], counted["reads"], flow["tx_bytes"])
            self.assertEqual(told, (wire.messages, wire.reads, wire.bytes), flow)
            self.assertLessEqual(wire.ports, {flow["local_port"]})
            self.assertEqual(ready["udp_sport"], flow["local_port"])
        numbers = {(flow["qp_events"][0]["qpn"], flow["qp_events"][0]["dest_qpn"]) for flow in client}
        self.assertEqual(numbers, {(flow["qp_events"][0]["dest_qpn"], flow["qp_events"][0]["qpn"]) for flow in server})
        self.assertEqual({flow["qp_events"][0]["device"] for flow in client}, {support.CLIENT_DEVICE})
        return client, server

    def test_write_bandwidth(self):
        recorded = self.check_unchanged(perftest("ib_write_bw", "-s", "65536", "-n", "60"))
        client, server = self.check_queue_pairs(recorded, 1)
        self.assertEqual((total(client, "writes"), total(client, "posted_sends"), total(client, "tx_bytes")), (60, 60, 60 * 65536))
        self.assertEqual(total(client, "send_completions"), 60)
        self.assertEqual((total(server, "posted_sends"), total(server, "tx_bytes")), (0, 0))

    def test_write_bandwidth_of_many_queue_pairs(self):
        recorded = self.check_unchanged(perftest("ib_write_bw", "-s", "4096", "-n", "40", "-q", "8"))
        client, _ = self.check_queue_pairs(recorded, 8)
        self.assertEqual([flow["qp"]["writes"] for flow in client], [40] * 8)
        self.assertEqual([flow["tx_bytes"] for flow in client], [40 * 4096] * 8)

    def test_read_bandwidth(self):
        recorded = self.check_unchanged(perftest("ib_read_bw", "-s", "16384", "-n", "60"))
        client, server = self.check_queue_pairs(recorded, 1)
        self.assertEqual((total(client, "reads"), total(client, "tx_bytes"), total(client, "rx_bytes")), (60, 0, 60 * 16384))
        self.assertEqual(total(server, "posted_sends"), 0)

    def test_send_latency(self):
        recorded = self.check_unchanged(perftest("ib_send_lat", "-s", "64", "-n", "50", "-e"))
        for side in self.check_queue_pairs(recorded, 1):
            self.assertEqual((total(side, "sends"), total(side, "tx_bytes")), (50, 50 * 64))
            self.assertEqual((total(side, "recv_completions"), total(side, "rx_bytes")), (50, 50 * 64))

    def test_rc_pingpong(self):
        recorded = self.check_unchanged(pingpong("ibv_rc_pingpong", "-s", "2048", "-n", "100", "-e"))
        for side in self.check_queue_pairs(recorded, 1):
            self.assertEqual((total(side, "sends"), total(side, "tx_bytes")), (100, 100 * 2048))
            self.assertEqual((total(side, "recv_completions"), total(side, "rx_bytes")), (100, 100 * 2048))
            self.assertGreaterEqual(total(side, "posted_recvs"), 100)

    def test_srq_pingpong(self):
        recorded = self.check_unchanged(pingpong("ibv_srq_pingpong", "-s", "1024", "-n", "96", "-q", "4", "-e"))
        enough = range(96, 96 + 4)  # it counts iterations over all queue pairs, and each may have a message under way at the end
        for side in self.check_queue_pairs(recorded, 4):
            sends, receives = total(side, "sends"), total(side, "recv_completions")
            self.assertIn(sends, enough)
            self.assertIn(receives, enough)
            self.assertEqual((total(side, "tx_bytes"), total(side, "rx_bytes")), (sends * 1024, receives * 1024))

    def test_planned_source_ports_are_on_the_wire(self):
        ports = [50001, 61234, 49152]
        plan = [f"remote={SERVER_ADDRESS},ordinal={ordinal},port={port}" for ordinal, port in enumerate(ports)]
        recorded = self.check_unchanged(perftest("ib_write_bw", "-s", "4096", "-n", "20", "-q", "4"), plan=plan)
        client, server = self.check_queue_pairs(recorded, 4)
        self.assertEqual([flow["local_port"] for flow in client[:3]], ports)
        self.assertEqual([flow["plan_flow_id"] for flow in client], [1, 2, 3, 0])
        self.assertEqual([flow["qp_events"][0]["planned"] for flow in client], [True] * 3 + [False])
        self.assertEqual([flow["plan_flow_id"] for flow in server], [0] * 4)

    def test_ucx_over_reliable_connections(self):
        recorded = self.check_unchanged(ucx_perftest("-t", "tag_bw", "-s", "16384", "-n", "40"))
        client, _ = self.check_queue_pairs(recorded, 1, (CLIENT_ADDRESS6, SERVER_ADDRESS6))
        self.assertGreaterEqual(total(client, "tx_bytes"), 40 * 16384)

    def test_open_mpi_over_ucx(self):
        recorded = self.check_unchanged(mpirun(support.MPI_EXCHANGE, "20", "65536"))
        sides = self.check_queue_pairs(recorded, 1, (CLIENT_ADDRESS6, SERVER_ADDRESS6))
        moved = total(sides[0] + sides[1], "tx_bytes") + sum(flow["rx_bytes"] for side in sides for flow in side if flow["qp"]["reads"])
        self.assertGreaterEqual(moved, 2 * 20 * 65536)

    def test_without_an_agent_the_tools_run_as_ever(self):
        command = perftest("ib_write_bw", "-s", "4096", "-n", "20", "-q", "2")
        plain = support.run_pair(*command, {})
        loaded = support.run_pair(*command, {"LD_PRELOAD": support.LIBRARY, "ORRERY_AGENT_SOCKET": "/nonexistent"})
        disabled = support.run_pair(*command, {"LD_PRELOAD": support.LIBRARY, "ORRERY_DISABLE": "1"})
        for runs in (loaded, disabled):
            for ran, ref in zip(runs, plain):
                self.assertEqual((ran.status, support.shape(ran.output)), (0, support.shape(ref.output)))


if __name__ == "__main__":
    support.bring_up_devices()
    unittest.main()
