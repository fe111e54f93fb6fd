// The style sheet of the HTML report.
#ifndef TESSERA_CLIENT_CPP_LOAD_REPORT_STYLE_H_
#define TESSERA_CLIENT_CPP_LOAD_REPORT_STYLE_H_

namespace tessera::load {

// Colours c0 to c7 are told apart by the common forms of colour blindness, on either background.
inline constexpr char kReportStyle[] = R"css(
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --ink: #14181f; --soft: #5b6472; --line: #e3e6eb;
  --band: #eef0f4; --bad: #b3261e; --good: #18794e;
  --c0: #2563c9; --c1: #d9660b; --c2: #9aa3b0; --c3: #c62f2f; --c4: #7a56c5; --c5: #0f8f78; --c6: #b83280; --c7: #8a6d00; }
@media (prefers-color-scheme: dark) { :root { --page: #0f1216; --card: #171b21; --ink: #e8ebf0; --soft: #98a2b3;
  --line: #2a303a; --band: #1f252d; --bad: #ff8a80; --good: #5fd39a;
  --c0: #6ea8ff; --c1: #ffa057; --c2: #7d8796; --c3: #ff7b72; --c4: #b79cff; --c5: #4fd1b5; --c6: #f78fc4; --c7: #e0c04a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 24px; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 15px; margin: 0 0 8px; }
.sub { color: var(--soft); margin: 2px 0 20px; }
.grid { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px; margin: 0 0 16px;
  min-width: 0; overflow-x: auto; }
.grid .card { margin: 0; }
.grid { margin-bottom: 16px; }
.tiles { display: grid; gap: 12px; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); margin-bottom: 16px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.tile b { display: block; font-size: 22px; font-weight: 650; letter-spacing: -.02em; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.tile i { display: block; font-style: normal; color: var(--soft); font-size: 12px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 13.5px; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; }
th:first-child, td:first-child { text-align: left; }
tr:last-child td { border-bottom: 0; }
tr.head td { font-weight: 600; }
tr.knee td { background: var(--band); font-weight: 600; }
td.wrap { white-space: normal; text-align: left; overflow-wrap: anywhere; width: 99%; }
.bad { color: var(--bad); } .good { color: var(--good); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 0 0 6px; padding: 0; color: var(--soft);
  font-size: 13px; }
.legend li { display: flex; align-items: center; gap: 6px; }
.legend svg { width: 22px; height: 10px; }
.stages { display: flex; height: 26px; gap: 2px; border-radius: 6px; overflow: hidden; margin: 4px 0 10px; }
.stages div { min-width: 2px; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
.stages div, .key { background: var(--c); }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 7px; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 13px; font-family: inherit; font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--line); } svg .axis, svg .mark { stroke: var(--soft); }
svg .band { fill: var(--band); } svg .rule { stroke: var(--soft); stroke-dasharray: 2 4; }
svg .line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .dashed { stroke-dasharray: 5 5; }
svg .dot { fill: var(--c); stroke: var(--card); stroke-width: 1.5; }
svg .hit { fill: var(--c); opacity: 0; stroke: transparent; stroke-width: 9; } svg .hit:hover { opacity: 1; }
)css";

}  // namespace tessera::load

#endif  // TESSERA_CLIENT_CPP_LOAD_REPORT_STYLE_H_
