// The page's looks and the few lines of script that it has; without script everything is shown at once.
#pragma once

namespace orrery::sim {

inline constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page:#f7f7f4; --card:#fff; --ink:#16181d; --quiet:#5d6270; --rule:#e2e2dc; --good:#0b7a52; --bad:#b3341f;
  --s0:#d9581f; --s1:#0f9468; --s2:#b88600; --s3:#8a4fc4; --s4:#c2407a; --s5:#6b7d1c; --s6:#3c404b; --s7:#7fb0e6; --s8:#2468c9; --s9:#0d8f9e; --s10:#12397a;
  --h0:#2f6fb3; --h1:#6a9bd0; --h2:#a4bfdd; --h3:#c3ccd6; --h4:#c9c8c2; --h5:#efc39a; --h6:#ea9a5c; --h7:#da6a34; --h8:#b3341f;
  --u0:#ecece7; --u1:#dde3c9; --u2:#cfdc9f; --u3:#e9d66b; --u4:#f2b441; --u5:#ea8a2f; --u6:#d95b28; --u7:#b5301f; --u8:#7a1020 }
@media (prefers-color-scheme: dark) { :root { --page:#121418; --card:#1b1e24; --ink:#eceef2; --quiet:#9aa1af; --rule:#2d313a; --good:#4fd1a0; --bad:#ff8d6b;
  --s0:#ef7d45; --s1:#35b98c; --s2:#d4a72c; --s3:#b182e8; --s4:#e873a5; --s5:#a9bd4b; --s6:#9aa1af; --s7:#a9cbf2; --s8:#5b9bf0; --s9:#3fc0cf; --s10:#3f6fd0;
  --h2:#38597d; --h3:#434c58; --h4:#53555a; --h5:#7d5c3d; --h6:#a8643a; --h7:#d4683a; --h8:#f0523a;
  --u0:#2a2e36; --u1:#3a4136; --u2:#4e5836; --u3:#6f6530; --u4:#94702c; --u5:#bb7a2b; --u6:#df8031; --u7:#ff9a4a; --u8:#ffd9a0 } }
body { margin:0; background:var(--page); color:var(--ink); font:16px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif }
main { max-width:1180px; margin:0 auto; padding:36px 24px 60px } h1 { font-size:27px; line-height:1.25; margin:0 0 8px }
h2 { font-size:20px; margin:0 0 4px } h3 { font-size:15px; margin:0 0 6px } p { margin:0 0 12px; max-width:86ch } .quiet { color:var(--quiet) }
section { background:var(--card); border:1px solid var(--rule); border-radius:12px; padding:22px; margin-top:18px }
.tiles { display:flex; flex-wrap:wrap; gap:14px; margin-top:16px } .tiles div { background:var(--card); border:1px solid var(--rule); border-radius:12px; padding:12px 18px }
.tiles b { display:block; font-size:25px; font-variant-numeric:tabular-nums } .tiles span { color:var(--quiet); font-size:14px }
.scroll { overflow-x:auto } table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; font-size:14.5px }
th,td { padding:6px 10px; text-align:right; border-bottom:1px solid var(--rule); white-space:nowrap } th:first-child,td:first-child,.words { text-align:left }
td.words { white-space:normal } .good { color:var(--good) } .bad { color:var(--bad) }
.key { display:flex; flex-wrap:wrap; gap:6px 18px; font-size:14px; margin:6px 0 10px } .key i { display:inline-block; width:14px; height:14px; border-radius:3px; margin-right:6px; vertical-align:-2px }
.pick { display:flex; flex-wrap:wrap; gap:6px; margin:4px 0 14px } .pick button { font:inherit; font-size:13.5px; padding:3px 12px; border-radius:99px; border:1px solid var(--rule); background:none; color:var(--quiet); cursor:pointer }
.pick button[aria-pressed=true] { background:var(--ink); color:var(--card); border-color:var(--ink) }
.panels { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(480px,100%),1fr)); gap:22px } .panels > div { min-width:0; max-width:720px }
.waves { display:grid; gap:2px } .chosen label { font-size:14px; color:var(--quiet) } select { font:inherit; font-size:14px; max-width:75% }
svg { width:100%; height:auto; display:block } svg text { fill:var(--ink); font-size:13px } svg .axis { fill:var(--quiet); font-size:12px } svg .tiny { font-size:10px }
.grid { stroke:var(--rule) } .ideal { stroke:var(--quiet); stroke-width:1.5; stroke-dasharray:4 4 } .curve { fill:none !important; stroke-width:2.3 } .pale { opacity:.4 }
.switch { fill:var(--card); stroke:var(--quiet) } .row { fill:none; pointer-events:all } .wave { fill:var(--s8); opacity:.85 }
@media print { section { break-inside:avoid } .pick, .chosen { display:none } }
)";

// Chips choose which schemes the panels show; a chosen NIC's levels of use become steps.
inline constexpr const char* kScript = R"(
const chips = [...document.querySelectorAll('.pick button')], panels = [...document.querySelectorAll('[data-scheme]')];
let shown = new Set((document.body.dataset.shown || '').split(' '));
function show() {
  for (const c of chips) c.setAttribute('aria-pressed', shown.has(c.dataset.of));
  for (const p of panels) p.hidden = !shown.has(p.dataset.scheme);
}
for (const c of chips) c.onclick = () => {
  shown.has(c.dataset.of) && shown.size > 1 ? shown.delete(c.dataset.of) : shown.add(c.dataset.of);
  show();
};
for (const s of document.querySelectorAll('.chosen select')) s.onchange = () => {
  const use = (s.value.match(/../g) || []).map(x => Math.min(parseInt(x, 16) / 250, 1.02)), w = 396 / Math.max(1, use.length);
  let d = 'M44 96';
  use.forEach((u, i) => d += 'V' + (96 - 70 * u).toFixed(1) + 'H' + (44 + w * (i + 1)).toFixed(1));
  s.closest('.chosen').querySelector('.wave').setAttribute('d', d + 'V96Z');
};
show();
)";

}  // namespace orrery::sim
