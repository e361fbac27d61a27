"""What differs when the transport is RoCE: where hosts are, what their rates and headers mean, what the guest is told, the live move."""

import unittest
from unittest import mock

import support
from orrery_demo import ideal, in_vm, live_move, options, placement, results, table
from orrery_demo.workload_roce import RoceWorkload
from orrery_lab import roce
from orrery_lab.errors import LabError
from orrery_lab.sites import Sites

MACHINE = {"processors": 1, "model": "a guest", "memory_bytes": 1, "kernel": "6", "system": "Debian"}
MOVED = {"failed_link": "leaf1:p3", "moved_queue_pairs": 2, "rerouted_queue_pairs": 3, "seconds_to_move": 1.25, "deferred_sends": 7, "held_ms": 3.5, "verified": True,
         "before_ms": [100.0], "after_ms": [200.0, 220.0], "problem": ""}


class WhereNodesAre(unittest.TestCase):
    def test_over_tcp_every_node_has_a_namespace_of_its_own(self):
        sites = Sites("a", support.topology())
        self.assertEqual(len(sites.namespaces()), 8)
        host = sites.topology.hosts[0]
        self.assertEqual((sites.netns(host), sites.interface(host, host.ports[0])), ("orr-a-h1", "eth0"))

    def test_over_roce_hosts_share_the_first_namespace_under_names_of_their_own(self):
        sites = Sites("a", support.topology(), "roce")
        shared = dict(sites.namespaces())[None]
        self.assertEqual([node.name for node in shared], ["h1", "h2", "h3", "h4"])
        self.assertEqual(len(sites.namespaces()), 5)
        names = [(sites.interface(h, h.ports[0]), sites.rdma_device(h), sites.routing_table(h)) for h in shared]
        self.assertEqual(len(set(names)), 4)
        self.assertEqual(sites.netns(sites.topology.node("leaf1")), "orr-a-leaf1")

    def test_a_shared_host_sends_by_the_table_of_its_interface_and_takes_in_what_comes_by_it(self):
        nic = support.topology().hosts[0].ports[0]
        lines = roce.host_lines("h1", nic, 1000, "169.254.1.1")
        self.assertIn("rule add pref 20 oif h1 lookup 1000", lines)
        self.assertIn("rule add pref 10 iif h1 lookup local", lines)
        self.assertTrue(all("table 1000" in line for line in lines if line.startswith("route")))

    def test_it_refuses_to_change_the_routing_of_a_machine_that_is_no_guest(self):
        with mock.patch.dict("os.environ", clear=True), self.assertRaises(LabError) as refused:
            roce.require_machine()
        self.assertIn("run-in-vm", str(refused.exception))


class Headers(unittest.TestCase):
    def test_a_packet_carries_the_largest_power_of_two_that_fits(self):
        self.assertEqual([ideal.roce_payload(mtu) for mtu in (256, 1500, 4155, 4156, 4200, 9000)], [256, 1024, 2048, 4096, 4096, 4096])

    def test_the_ideal_counts_roce_headers(self):
        # 2 * 7/8 * 1 MiB by 4154/4096 at 500 kB/s
        self.assertAlmostEqual(ideal.ideal_ms("all-reduce", 8, 1 << 20, 4_000_000, 4200, "roce"), 1_835_008 * 4154 / 4096 / 500, places=6)
        self.assertIn("RoCEv2 headers at 4096 bytes", ideal.explain("all-reduce", 8, 1 << 20, 4_000_000, 4200, "roce"))


class Programs:
    build_folder = "/build"

    def program(self, name):
        return "/build/bin/" + name

    def library(self, name):
        return "/build/lib/" + name


class Lab:
    def __init__(self):
        self.topology = support.topology()
        self.sites = Sites("a", self.topology, "roce")

    def agent_socket(self, host):
        return f"/run/{host}.sock"


class TheWorkload(unittest.TestCase):
    def _environment(self, scheme):
        lab, chosen = Lab(), options.parse(["--transport", "roce"])
        hosts = placement.place("interleaved", lab.topology)
        return RoceWorkload(chosen, Programs(), hosts)._environment(lab, scheme, 1, hosts[1])

    def test_each_rank_uses_its_hosts_device_and_no_other(self):
        environment = self._environment("ecmp")
        self.assertEqual((environment["NCCL_NET"], environment["NCCL_IB_HCA"], environment["NCCL_SOCKET_IFNAME"]), ("IB", "=rxe_h3", "h3"))
        self.assertNotIn("LD_PRELOAD", environment)

    def test_several_connections_per_peer_are_queue_pairs(self):
        environment = self._environment("ecmp_multi")
        self.assertEqual(environment["NCCL_IB_QPS_PER_CONNECTION"], "4")
        self.assertNotIn("NCCL_NSOCKS_PERTHREAD", environment)

    def test_orrery_adds_the_library_and_the_hosts_own_agent_and_nothing_else(self):
        plain, planned = self._environment("ecmp"), self._environment("orrery")
        self.assertEqual({k: v for k, v in planned.items() if k not in plain},
                         {"LD_PRELOAD": "/build/lib/liborrery_preload.so", "ORRERY_AGENT_SOCKET": "/run/h3.sock"})


class TheGuest(unittest.TestCase):
    def test_it_is_told_what_to_run_and_where_to_leave_the_results(self):
        with mock.patch.object(in_vm, "_run", return_value=1) as run, self.assertRaises(LabError):
            in_vm.measure(["--transport", "roce", "--json", "mine.json", "--quick", "--report=page.html", "--build", "x", "--seeds", "2"], Programs())
        words = run.call_args.args[0]
        demo = words[words.index(in_vm.DEMO) + 1:]
        self.assertEqual(demo[:-1], ["--transport", "roce", "--quick", "--seeds", "2", "--inside", "--build", "/build", "--json"])
        self.assertTrue(demo[-1].startswith(words[words.index("--out") + 1]))

    def test_each_end_of_a_guest_without_results_is_told_apart(self):
        words = [str(in_vm._failure(status)) for status in (in_vm.NO_VM, in_vm.TIME_OVER, in_vm.GUEST_DIED, 1)]
        self.assertEqual(len(set(words)), 4)


class Options(unittest.TestCase):
    def test_roce_has_a_fabric_a_driver_and_sizes_of_its_own(self):
        tcp, over_roce = options.parse([]), options.parse(["--transport", "roce"])
        self.assertEqual((tcp.leaves, tcp.hosts, tcp.driver), (4, 16, "ebpf"))
        self.assertEqual((over_roce.leaves, over_roce.spines, over_roce.hosts, over_roce.driver), (2, 4, 8, "entropy"))
        self.assertLess(over_roce.message_bytes, tcp.message_bytes)
        self.assertEqual(over_roce.as_document()["transport"], "roce")

    def test_what_the_guest_cannot_do_is_refused(self):
        for more in (["--workload", "torch"], ["--keep"]):
            with self.assertRaises(LabError):
                options.parse(["--transport", "roce", *more])


class TheLiveMove(unittest.TestCase):
    def _document(self, move):
        runs = [support.run("ecmp", 1, [200]), support.run("orrery", 1, [100])]
        return results.build(options.parse(["--transport", "roce"]), support.topology(), support.Workload(), runs, MACHINE, None, move)

    def test_it_is_part_of_the_results_and_of_the_table(self):
        text = table.render(self._document(MOVED))
        self.assertIn("leaf1:p3 failed under a running job. 3 queue pairs got another path, 2 of them by another source port", text)
        self.assertIn("Iteration mean 100 ms before, 210 ms after", text)
        self.assertIn("RDMA repeats", text)
        self.assertNotIn("TCP retransmits", text)

    def test_one_that_did_not_come_about_says_why(self):
        self.assertIn("Live move: no queue pair moved.", table.render(self._document(dict(MOVED, problem="no queue pair moved"))))

    def test_results_without_one_have_no_word_of_it(self):
        self.assertNotIn("Live move", table.render(self._document(None)))

    def test_iterations_are_before_or_after_the_failure_or_neither(self):
        move = live_move.LiveMove(failed_link="leaf1:p3", failed_s=10.5)
        outcome = support.Outcome([1000, 1000, 2000, 2000], True, starts_s=[8.0, 9.2, 10.3, 12.4])
        live_move._divide(move, outcome)
        self.assertEqual((move.before_ms, move.after_ms), ([1000, 1000], [2000]))


class FakeWatcher:
    def __init__(self, answers):
        self.answers = answers

    def ask(self, *_):
        return {"flows": self.answers.pop(0)}


def flow(name, port, moves=0, on_path="yes", tx_bytes=1 << 20):
    return {"src_host": name, "tx_bytes": tx_bytes, "on_path": on_path, "path": [f"{name}:eth0", port, "spine1:p1"], "held_ns": 5,
            "queue_pair": {"qpn": 17, "moves": moves, "deferred_sends": 3}}


class TheEpisode(unittest.TestCase):
    def _step(self, *answers):
        lab, move = Lab(), live_move.LiveMove()
        episode = live_move._Episode(lab, FakeWatcher(list(answers)), move, bytes_before=1 << 19)
        with mock.patch.object(live_move, "set_link") as set_link:
            for _ in answers:
                episode()
        return move, set_link

    def test_a_link_fails_once_every_host_sends_on_its_path_and_has_sent_enough(self):
        hosts = ["h1", "h2", "h3", "h4"]
        move, set_link = self._step([flow(h, "leaf1:p3") for h in hosts[:3]], [flow(h, "leaf1:p3", on_path="no") for h in hosts],
                                    [flow(h, "leaf1:p3", tx_bytes=1 << 18) for h in hosts])
        self.assertEqual(move.failed_link, "")
        set_link.assert_not_called()
        move, set_link = self._step([flow(h, "leaf1:p3") for h in hosts])
        self.assertEqual((move.failed_link, set_link.call_count), ("leaf1:p3", 1))

    def test_it_is_over_when_all_are_on_paths_without_that_link_and_what_was_seen_stays_seen(self):
        hosts = ["h1", "h2", "h3", "h4"]
        before = [flow(h, "leaf1:p3") for h in hosts]
        move, _ = self._step(before, [flow(h, "leaf1:p4", moves=1, on_path="no") for h in hosts])
        self.assertEqual((move.moved, move.rerouted, move.seconds), (4, 4, 0.0))
        move, _ = self._step(before, [flow(h, "leaf1:p5") for h in hosts])  # by rules of the switches
        self.assertEqual((move.moved, move.rerouted, move.seconds > 0), (0, 4, True))
        move, _ = self._step(before, [flow(h, "leaf1:p4", moves=1) for h in hosts], [])
        self.assertEqual((move.moved, move.deferred_sends, move.held_ns), (4, 12, 20))
        self.assertGreater(move.seconds, 0)


if __name__ == "__main__":
    unittest.main()
