import json
import unittest

import support
from orrery_lab.errors import LabError
from orrery_lab.topology import Topology


class TopologyOfTheLab(unittest.TestCase):
    def test_the_links_between_switches_are_both_directions_of_each(self):
        self.assertEqual(len(support.topology(leaves=4, spines=4, hosts=16).fabric_ports()), 32)

    def test_a_new_hash_seed_changes_the_seeds_and_nothing_else(self):
        before = support.topology()
        after = before.with_hash_seed(9)
        self.assertNotEqual([s.hash_seed for s in before.switches], [s.hash_seed for s in after.switches])
        self.assertEqual(len({s.hash_seed for s in after.switches}), len(after.switches))
        self.assertEqual((before.links, before.hosts), (after.links, after.hosts))
        self.assertEqual([s.ports for s in before.switches], [s.ports for s in after.switches])

    def test_the_file_for_the_daemons_says_what_the_document_said(self):
        fabric = support.topology()
        written = json.loads(fabric.file_text())
        self.assertEqual(written["schema"], 1)
        self.assertEqual([s["hash"]["seed"] for s in written["switches"]], [s.hash_seed for s in fabric.switches])
        self.assertEqual([tuple(link) for link in written["links"]], list(fabric.links))
        self.assertEqual([h["nics"][0]["address"] for h in written["hosts"]], [h.ports[0].address for h in fabric.hosts])

    def test_an_unknown_node_is_refused_with_the_known_ones(self):
        with self.assertRaises(LabError) as refused:
            support.topology().node("h99")
        self.assertIn("leaf1", str(refused.exception))

    def test_an_interface_name_too_long_for_the_kernel_is_refused(self):
        document = support.fabric()
        document["switches"][0]["ports"][0]["name"] = "a-name-beyond-all-measure"
        with self.assertRaises(LabError) as refused:
            Topology(document)
        self.assertIn("leaf1:a-name-beyond-all-measure", str(refused.exception))

    def test_what_the_lab_cannot_build_is_refused_by_name(self):
        two, six = support.fabric(), support.fabric()
        two["hosts"][0]["nics"].append(dict(two["hosts"][0]["nics"][0], name="eth1"))
        six["hosts"][1]["nics"][0]["address"] = "fd00::1"
        for document, words in ((two, "h1 has 2 NICs"), (six, "fd00::1")):
            with self.assertRaises(LabError) as refused:
                Topology(document)
            self.assertIn(words, str(refused.exception))


if __name__ == "__main__":
    unittest.main()
