"""Style and script of the report. Light and dark follow the reader's system."""

STYLE = """
:root { color-scheme: light dark;
  --page:#f7f7f4; --card:#ffffff; --ink:#16181d; --quiet:#5d6270; --rule:#e2e2dc; --grid:#e9e9e4;
  --ecmp:#d9581f; --ecmp_multi:#0f9468; --orrery:#2468c9; --node:#3c404b;
  --heat0:#2f6fb3; --heat1:#6a9bd0; --heat2:#a4bfdd; --heat3:#c3ccd6; --heat4:#c9c8c2; --heat5:#efc39a; --heat6:#ea9a5c; --heat7:#da6a34; --heat8:#b3341f;
  --on-strong:#ffffff; --on-weak:#16181d; --inside:#ffffff;
  --v0:#2468c9; --v1:#d9581f; --v2:#0f9468; --v3:#8a4fc4; --v4:#b88600; --v5:#c2407a; --local:#8c909b; }
@media (prefers-color-scheme: dark) { :root {
  --page:#121418; --card:#1b1e24; --ink:#eceef2; --quiet:#9aa1af; --rule:#2d313a; --grid:#282c34;
  --ecmp:#ef7d45; --ecmp_multi:#35b98c; --orrery:#5b9bf0; --node:#c3c8d2;
  --heat0:#3f86d4; --heat1:#3a6ea6; --heat2:#38597d; --heat3:#434c58; --heat4:#53555a; --heat5:#7d5c3d; --heat6:#a8643a; --heat7:#d4683a; --heat8:#f0523a;
  --on-strong:#ffffff; --on-weak:#eceef2; --inside:#121418;
  --v0:#5b9bf0; --v1:#ef7d45; --v2:#35b98c; --v3:#b182e8; --v4:#d4a72c; --v5:#e873a5; --local:#7d838f; } }
* { box-sizing:border-box }
body { margin:0; background:var(--page); color:var(--ink); font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif }
main { max-width:1160px; margin:0 auto; padding:40px 24px 64px }
h1 { font-size:30px; line-height:1.2; margin:0 0 8px; letter-spacing:-.01em } h2 { font-size:20px; margin:0 0 4px }
p { margin:0 0 12px; max-width:75ch } .quiet { color:var(--quiet) } .lead { font-size:18px }
section { background:var(--card); border:1px solid var(--rule); border-radius:12px; padding:24px; margin-top:20px }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(190px,1fr)); gap:14px; margin-top:24px }
.tile { background:var(--card); border:1px solid var(--rule); border-radius:12px; padding:18px 20px }
.tile b { display:block; font-size:34px; line-height:1.15; font-weight:650; letter-spacing:-.02em } .tile span { color:var(--quiet); font-size:14px }
table { border-collapse:collapse; font-variant-numeric:tabular-nums } .scroll { overflow-x:auto }
.figures { width:100% } .figures th,.figures td { padding:7px 12px; text-align:right; border-bottom:1px solid var(--rule); white-space:nowrap }
.figures th:first-child,.figures td:first-child { text-align:left; padding-left:0 } .figures thead th { font-weight:600 } .figures td:first-child { color:var(--quiet) }
.figures tbody th { font-weight:400; color:var(--quiet) } .figures .orrery { font-weight:650 }
.key { display:flex; flex-wrap:wrap; gap:6px 20px; margin:10px 0 6px; font-size:14px; color:var(--quiet) } .key i { display:inline-block; width:14px; height:4px; border-radius:2px; margin-right:7px; vertical-align:middle }
.key i.box { width:14px; height:14px; border-radius:3px; margin-right:6px; vertical-align:-2px }
svg { width:100%; height:auto; display:block; overflow:visible } svg text { fill:var(--ink); font-size:13px } svg .axis { fill:var(--quiet); font-size:12.5px } svg .small { font-size:10.5px }
svg .inside { fill:var(--inside); font-size:11px; font-weight:600 } .grid { stroke:var(--grid); stroke-width:1 } .ideal { stroke:var(--quiet); stroke-width:1.5; stroke-dasharray:4 4 }
.curve { fill:none; stroke-width:2.4; stroke-linejoin:round } .curve.ecmp,.i-ecmp { stroke:var(--ecmp) } .curve.ecmp_multi { stroke:var(--ecmp_multi) } .curve.orrery { stroke:var(--orrery); stroke-width:3 }
.dot { fill-opacity:.6 } .dot.ecmp { fill:var(--ecmp) } .dot.ecmp_multi { fill:var(--ecmp_multi) } .dot.orrery { fill:var(--orrery) }
.node { fill:var(--node) } .cable { stroke-width:2.3; stroke-linecap:round }
.pair { display:grid; grid-template-columns:repeat(auto-fit,minmax(420px,1fr)); gap:28px } .pair h3 { font-size:15px; margin:8px 0 4px }
.halves { display:grid; grid-template-columns:repeat(auto-fit,minmax(380px,1fr)); gap:8px 32px } .matrix { width:100%; align-self:start; font-size:13.5px; border-spacing:3px; border-collapse:separate }
.matrix th { font-weight:600; text-align:center; padding:4px 6px } .matrix th:first-child,.matrix .name { text-align:left; color:var(--quiet); white-space:nowrap } .cell { text-align:center; border-radius:4px; padding:3px 6px }
.choices { display:flex; flex-wrap:wrap; gap:8px; margin:12px 0 } .choices button { font:inherit; font-size:14px; padding:4px 12px; border:1px solid var(--rule); border-radius:16px; background:none; color:var(--ink); cursor:pointer }
.choices button[aria-pressed=true] { background:var(--ink); color:var(--card); border-color:var(--ink) }
[hidden] { display:none !important }
@media print { body { background:#fff } section,.tile { break-inside:avoid } }
@media (max-width:640px) { main { padding:24px 12px } section { padding:16px } .pair,.halves { grid-template-columns:1fr } }
"""

STYLE += "".join(f".cable.heat{i} {{ stroke:var(--heat{i}) }} .cell.heat{i} {{ background:var(--heat{i}); color:var(--on-{'strong' if i in (0, 7, 8) else 'weak'}) }} "
                 f".box.heat{i} {{ background:var(--heat{i}) }}\n" for i in range(9))
STYLE += "".join(f".via.{name} {{ fill:var(--{name}) }} i.{name} {{ background:var(--{name}) }}\n" for name in ("v0", "v1", "v2", "v3", "v4", "v5", "local"))
STYLE += "".join(f"i.{name} {{ background:var(--{name}) }}\n" for name in ("ecmp", "ecmp_multi", "orrery"))

SCRIPT = """
document.querySelectorAll('.choices button').forEach(function (button) {
  button.addEventListener('click', function () {
    document.querySelectorAll('.choices button').forEach(function (b) { b.setAttribute('aria-pressed', b === button); });
    document.querySelectorAll('[data-seed]').forEach(function (part) { part.hidden = part.dataset.seed !== button.dataset.choice; });
  });
});
"""
