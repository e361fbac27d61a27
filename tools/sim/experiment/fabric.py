"""The published fabric as a topology file: two leaves, two spines, two parallel links between each."""

LEAVES, SPINES, PARALLEL, HOSTS = 2, 2, 2, 32


def topology_yaml(nic_bps, uplink_bps, queue_bytes):
    per_leaf = HOSTS // LEAVES
    lines = ["schema: 1", f"name: published-{nic_bps // 10**9}-{uplink_bps // 10**9}", "mtu_bytes: 4096",
             f"defaults: {{rate_bps: {nic_bps}, queue_bytes: {queue_bytes}}}", "switches:"]
    for leaf in range(1, LEAVES + 1):
        ports = [f"{{name: p{i}}}" for i in range(1, per_leaf + 1)]
        ports += [f"{{name: u{i}, rate_bps: {uplink_bps}}}" for i in range(1, SPINES * PARALLEL + 1)]
        lines += [f"  - name: leaf{leaf}", "    tier: 1", f"    hash: {{function: murmur-5tuple, seed: {100 + leaf}}}", f"    ports: [{', '.join(ports)}]"]
    for spine in range(1, SPINES + 1):
        ports = [f"{{name: p{i}, rate_bps: {uplink_bps}}}" for i in range(1, LEAVES * PARALLEL + 1)]
        lines += [f"  - name: spine{spine}", "    tier: 2", f"    hash: {{function: murmur-5tuple, seed: {200 + spine}}}", f"    ports: [{', '.join(ports)}]"]
    lines.append("hosts:")
    lines += [f"  - {{name: h{h + 1}, nics: [{{name: eth0, address: 10.0.{h // per_leaf + 1}.{h % per_leaf + 1}}}]}}" for h in range(HOSTS)]
    lines.append("links:")
    lines += [f"  - [h{h + 1}:eth0, leaf{h // per_leaf + 1}:p{h % per_leaf + 1}]" for h in range(HOSTS)]
    for leaf in range(LEAVES):
        for spine in range(SPINES):
            for k in range(PARALLEL):
                lines.append(f"  - [leaf{leaf + 1}:u{spine * PARALLEL + k + 1}, spine{spine + 1}:p{leaf * PARALLEL + k + 1}]")
    return "\n".join(lines) + "\n"
