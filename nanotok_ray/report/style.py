"""The style of the page: quiet in light and dark, readable on a phone and on paper."""

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--paper:#faf9f7;--card:#fff;--ink:#24231f;--quiet:#66635b;
--line:#e2dfd8;--soft:#efece6;--c1:#3f6fb0;--c2:#2f8271;--c3:#b07a1e;--c4:#7a5bb5;--c5:#8d6a4f;
--c6:#8b8880;--c7:#6b9a34;--c8:#8fb0dc;--bad:#b3362b;--badpaper:#fbeae7;--good:#276f38;
--goodpaper:#e2f1e4;--yes:#dcf0de;--yes2:#c2e3c7;--no:#f1efeb;--no2:#e3e0d9;--text:#e6eef8;
--text2:#f4ecd9}
@media(prefers-color-scheme:dark){:root{--paper:#151619;--card:#1c1e22;--ink:#e6e4df;
--quiet:#a3a098;--line:#32343a;--soft:#25272c;--c1:#74a3e0;--c2:#55b8a2;--c3:#d9a54a;--c4:#a98fe0;
--c5:#bd9678;--c6:#85837c;--c7:#98c65c;--c8:#47648c;--bad:#ef8377;--badpaper:#3a211f;
--good:#6cc583;--goodpaper:#1f3526;--yes:#1f4029;--yes2:#2b5838;--no:#292b30;--no2:#383b42;
--text:#243449;--text2:#43391f}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-padding-top:3rem}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans",sans-serif;font-variant-numeric:tabular-nums;
overflow-wrap:anywhere}
header,main,footer{max-width:66rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2rem}
footer{padding-top:1rem;padding-bottom:3rem}
h1{font-size:1.35rem;line-height:1.3;font-weight:650;margin:.1rem 0 .4rem}
h2{font-size:1.2rem;font-weight:650;margin:0 0 .6rem}
h2 a{color:inherit;text-decoration:none}
h2 a:hover{text-decoration:underline}
h3{font-size:.95rem;font-weight:600;margin:1.6rem 0 .4rem}
h3 .quiet{font-weight:400}
section>h3:nth-of-type(1){margin-top:.8rem}
h4,h5{font-size:.78rem;font-weight:600;color:var(--quiet);margin:0 0 .15rem}
h5{font-weight:400}
p{margin:.3rem 0}
code,pre,.tok{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.86em}
pre{background:var(--soft);border-radius:8px;padding:.8rem 1rem;overflow-x:auto;line-height:1.45;
font-size:.8rem;margin:.5rem 0}
.pre{white-space:pre-wrap}
.quiet{color:var(--quiet);font-size:.85rem}
.lead{color:var(--quiet)}
.warn{background:var(--badpaper);border-left:4px solid var(--bad);border-radius:6px;
padding:.55rem .9rem;margin:.7rem 0;font-size:.92rem}
.badge{display:inline-block;font-size:.78rem;font-weight:600;border-radius:99px;
padding:.1rem .75rem;vertical-align:.15em;white-space:nowrap}
.badge.good{background:var(--goodpaper);color:var(--good)}
.badge.bad{background:var(--badpaper);color:var(--bad)}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.4rem,1fr));gap:.7rem;
margin:1.1rem 0}
.figures div{display:flex;flex-direction:column-reverse;background:var(--card);
border:1px solid var(--line);border-radius:10px;padding:.65rem .9rem .6rem}
.figures dt{color:var(--quiet);font-size:.8rem}
.figures dd{margin:0;font-size:1.55rem;line-height:1.25;font-weight:600;letter-spacing:-.01em;
white-space:nowrap}
nav{position:sticky;top:0;z-index:2;background:var(--paper);border-bottom:1px solid var(--line);
display:flex;gap:.2rem 1.1rem;overflow-x:auto;white-space:nowrap;padding:.55rem 1.25rem;
margin:1.2rem auto 0;max-width:66rem;font-size:.85rem;scrollbar-width:none}
nav a{color:var(--quiet);text-decoration:none}
nav a:hover{color:var(--ink);text-decoration:underline}
a:focus-visible,summary:focus-visible,.wide:focus-visible{outline:2px solid var(--c1);
outline-offset:2px;border-radius:3px}
section{padding:1.8rem 0 1.6rem;border-bottom:1px solid var(--line)}
section:last-child{border-bottom:0}
details{margin:.5rem 0;font-size:.9rem}
summary{cursor:pointer;color:var(--quiet);width:fit-content}
summary:hover{color:var(--ink)}
.pairs{margin:.6rem 0;font-size:.9rem}
.pairs div{display:grid;grid-template-columns:11rem 1fr;gap:0 1rem;padding:.15rem 0}
.pairs dt{color:var(--quiet)}
.pairs dd{margin:0}
.wide{overflow-x:auto;margin:.5rem 0 .7rem}
table{border-collapse:collapse;width:100%;font-size:.86rem}
th{font-weight:400;color:var(--quiet);white-space:nowrap;vertical-align:bottom}
th,td{text-align:right;padding:.32rem 0 .32rem 1.1rem;border-bottom:1px solid var(--line);
overflow-wrap:normal;white-space:nowrap;vertical-align:top}
th.left,td.left{text-align:left;white-space:normal;overflow-wrap:anywhere}
td.left{min-width:5.5rem}
th:first-child,td:first-child{padding-left:0}
tbody tr:last-child td{border-bottom:0}
.bar{display:flex;min-width:7rem;width:100%;height:.85rem;margin-top:.27rem;border-radius:3px;
overflow:hidden;background:var(--soft)}
.bar i{display:block;height:100%}
.bar i+i{border-left:1px solid var(--card)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.82rem;color:var(--quiet);
margin:.5rem 0}
.legend i{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.4rem;
vertical-align:-.08em}
.c1{background:var(--c1);fill:var(--c1)}.c2{background:var(--c2);fill:var(--c2)}
.c3{background:var(--c3);fill:var(--c3)}.c4{background:var(--c4);fill:var(--c4)}
.c5{background:var(--c5);fill:var(--c5)}.c6{background:var(--c6);fill:var(--c6)}
.c7{background:var(--c7);fill:var(--c7)}.c8{background:var(--c8);fill:var(--c8)}
.x1{background:var(--bad);fill:var(--bad)}
.yes{background:var(--good)}.no{background:var(--no2)}
.legend .t{background:linear-gradient(90deg,var(--text) 50%,var(--text2) 50%)}
.plot{margin:.3rem 0 .8rem;padding-left:3.6rem}
.plot .frame{position:relative;margin-right:.6rem}
.area,.area svg{position:absolute;inset:0;width:100%;height:100%}
.area svg{overflow:visible}
.ys{position:absolute;inset:0 auto 0 -3.6rem;width:3.2rem}
.ys span{position:absolute;right:0;max-width:100%;transform:translateY(50%);line-height:1;
white-space:nowrap;overflow:hidden;text-overflow:ellipsis;padding:1px 0}
.xs{position:relative;height:1.4rem;margin-right:.6rem}
.xs span{position:absolute;top:.3rem;transform:translateX(-50%);line-height:1;white-space:nowrap}
.xs .first{transform:none}
.xs .last{transform:translateX(-100%)}
.ys,.xs,.axis,.word{font-size:.75rem;color:var(--quiet)}
.axis{margin:0 .6rem .5rem -3.6rem}
.axis.x{text-align:right;margin:0 .6rem 0 0}
.word{position:absolute;transform:translate(.5rem,-.15rem);line-height:1;color:var(--ink);
white-space:pre;pointer-events:none}
.word.back{transform:translate(calc(-100% - .3rem),-.35rem)}
path{fill:none;vector-effect:non-scaling-stroke}
.grid{stroke:var(--line);stroke-width:1}
.curve{stroke:var(--c1);stroke-width:2;stroke-linejoin:round}
.curve.two{stroke:var(--c3)}
.dot{stroke:var(--c1);stroke-width:8;stroke-linecap:round}
.dot.two{stroke:var(--c3)}
.lanes{padding-left:8.5rem}
.lanes .ys{left:-8.5rem;width:8.1rem}
.lanes .frame{background:var(--card);border-radius:4px}
.again{stroke:var(--bad);stroke-width:1.5;vector-effect:non-scaling-stroke}
rect:hover{opacity:.75}
.v1{opacity:.25}.v2{opacity:.5}.v3{opacity:.75}
.tok{background:var(--text);border-radius:3px;padding:.05em .2em;white-space:break-spaces;
line-height:1.9}
.tok:nth-of-type(even){background:var(--text2)}
i{font-style:normal}
.doc{border:1px solid var(--line);border-radius:10px;background:var(--card);padding:.4rem 1rem;
margin:.5rem 0}
.turn{margin:.7rem 0}
.turn.u{margin-left:12%}
.turn.u h4{text-align:right}
.turn.a{margin-right:6%}
.said{width:fit-content;max-width:100%;border:1px solid var(--line);border-radius:12px;
padding:.45rem .8rem}
.u .said{margin-left:auto;background:var(--paper)}
.tool{border:1px solid var(--line);border-left:3px solid var(--quiet);border-radius:6px;
padding:.3rem .6rem;margin:.4rem 0;background:var(--paper)}
.b{white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.7;tab-size:4;font-size:.92rem}
.b .y,.b .n,.b .t{border-radius:3px;padding:.1em 0;-webkit-box-decoration-break:clone;
box-decoration-break:clone}
.b .y{background:var(--yes);box-shadow:inset 0 -1px var(--good)}
.b .y:nth-child(even){background:var(--yes2)}
.b .n{background:var(--no)}
.b .n:nth-child(even){background:var(--no2)}
.b .t{background:var(--text)}
.b .t:nth-child(even){background:var(--text2)}
.b .s,.b .s:nth-child(even){font-size:.72rem;line-height:1;border:1px solid var(--quiet);
border-radius:99px;padding:.12em .6em;margin:0 .15em;white-space:nowrap;background:none;
color:var(--quiet);box-shadow:none}
.b .s.y,.b .s.y:nth-child(even){border-color:var(--good);color:var(--good);background:var(--yes)}
.b .g{display:inline-block;padding:.6rem .9rem;margin:.2rem;border:1px solid var(--c4);
border-radius:8px;color:var(--c4);font-size:.8rem}
.w{background:radial-gradient(circle,var(--quiet) .7px,transparent 1px) center/100% 1em no-repeat}
.l::after{content:"\\21b5";color:var(--quiet);font-size:.8em;padding:0 .1em}
.h::after{content:"\\2192";color:var(--quiet);font-size:.8em}
[data-x]::before{content:attr(data-x);font-size:.66em;color:var(--quiet);padding:0 .15em}
i[data-u]::before{content:attr(data-u);font-size:.66em;border:1px solid var(--quiet);
border-radius:3px;color:var(--quiet);padding:0 .2em;margin:0 .1em}
@media(max-width:40rem){body{font-size:15px}header{padding-top:1.2rem}h1{font-size:1.1rem}
.figures{grid-template-columns:1fr 1fr;gap:.5rem}.figures dd{font-size:1.3rem}
.pairs div{grid-template-columns:7rem 1fr}
.lanes{padding-left:6.4rem}.lanes .ys{left:-6.4rem;width:6.1rem}
.bar{min-width:4.5rem}td.left{min-width:6rem}th,td{padding-left:.8rem}
.plot:not(.lanes){padding-left:3rem}.plot:not(.lanes) .ys{left:-3rem;width:2.7rem}
.plot .axis:not(.x){margin-left:-3rem}
.xs span:nth-child(even):not(.last){display:none}
.steps .xs span:nth-child(even):not(.last){display:inline}
.turn.u{margin-left:4%}.turn.a{margin-right:0}}
@media print{nav{display:none}body{background:#fff;font-size:10pt}
section,figure,tr,.doc{break-inside:avoid}details:not([open]){display:none}
.wide{overflow:visible}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
