"""The style of a page: quiet in light and dark, readable on a phone, without anything fetched."""

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--paper:#faf9f7;--card:#fff;--ink:#24231f;--quiet:#67645c;
--small:#4f4c45;--line:#e2dfd8;--said:#f3f1ec;--yes:#dcf0de;--yes2:#c2e3c7;--green:#276f38;--no:#f1efeb;
--no2:#e3e0d9;--grey:#b9b5ab;--text:#e6eef8;--text2:#f4ecd9;--blue:#7d9cc4;--image:#ece6f8;
--violet:#6b4fa3;--code:#f6f5f1}
@media(prefers-color-scheme:dark){:root{--paper:#151619;--card:#1c1e22;--ink:#e6e4df;
--quiet:#a09d95;--small:#c6c3ba;--line:#32343a;--said:#202226;--yes:#1f4029;--yes2:#2b5838;
--green:#6cc583;--no:#292b30;--no2:#383b42;--grey:#5c5f67;--text:#243449;--text2:#43391f;--blue:#6f93c4;
--image:#33294a;--violet:#b9a2ec;--code:#17181b}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
header.p,main,footer{max-width:56rem;margin:0 auto;padding:0 1rem}
header.p{padding-top:1.5rem}
h1{font-size:1.05rem;font-weight:600;margin:0;overflow-wrap:anywhere}
h2{font-size:1.05rem;font-weight:600;margin:0}
p{margin:.2rem 0}
a{color:inherit}
.q{color:var(--quiet);font-size:.85rem;overflow-wrap:anywhere}
.k{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1.1rem;position:sticky;top:0;z-index:1;
background:var(--paper);padding:.6rem 1rem;margin:.4rem auto 0;max-width:56rem;
border-bottom:1px solid var(--line);font-size:.85rem;color:var(--quiet)}
.k span{white-space:nowrap}
.k label{margin-left:auto;color:var(--ink);cursor:pointer;user-select:none;border-radius:99px;
border:1px solid var(--line);background:var(--card);padding:.1rem .7rem;white-space:nowrap}
#ids{position:absolute;opacity:0;pointer-events:none}
#ids:checked~.k label{background:var(--ink);color:var(--paper);border-color:var(--ink)}
#ids:focus-visible~.k label{outline:2px solid var(--blue);outline-offset:2px}
.e{display:inline-block;width:1.5em;height:1em;border-radius:3px;vertical-align:-.12em;
margin-right:.4em;background:linear-gradient(90deg,var(--a) 50%,var(--b) 50%)}
.e.y{--a:var(--yes);--b:var(--yes2);box-shadow:inset 0 -2px var(--green)}
.e.n{--a:var(--no);--b:var(--no2)}
.e.t{--a:var(--text);--b:var(--text2)}
.e.g{--a:var(--image);--b:var(--image);box-shadow:inset 0 0 0 1px var(--violet)}
table{border-collapse:collapse;width:100%;font-size:.85rem;margin:1rem 0}
th{font-weight:400;color:var(--quiet)}
th,td{text-align:right;padding:.25rem 0 .25rem .8rem;border-bottom:1px solid var(--line);
font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left;padding-left:0;overflow-wrap:anywhere}
section{padding:1.4rem 0 .4rem;scroll-margin-top:2.5rem}
section+section{border-top:1px solid var(--line);margin-top:1.6rem}
dl{display:flex;flex-wrap:wrap;gap:.3rem 1.6rem;margin:.7rem 0 .6rem}
dl div{display:flex;flex-direction:column-reverse}
dt{color:var(--quiet);font-size:.8rem}
dd{margin:0;font-size:1.1rem;font-variant-numeric:tabular-nums}
.m{display:flex;height:8px;border-radius:4px;overflow:hidden;background:var(--no2);
margin:0 0 1.1rem}
.m i{flex-basis:0;min-width:0}
.m .y{background:var(--green)}
.m .n{background:var(--grey);opacity:.55}
.m .g{background:var(--violet)}
.m .t{background:var(--blue)}
.d{margin:.9rem 0;content-visibility:auto;contain-intrinsic-size:auto 12rem}
.d h3{font-size:.8rem;font-weight:600;color:var(--quiet);margin:0 0 .2rem .1rem}
.u{margin-left:12%}
.u h3{text-align:right;margin-right:.1rem}
.a{margin-right:6%}
.c{width:fit-content;max-width:100%;
border:1px solid var(--line);border-radius:14px;background:var(--card);padding:.6rem .85rem}
.u .c{margin-left:auto;background:var(--said);border-bottom-right-radius:4px}
.a .c{border-bottom-left-radius:4px}
.b:not(:only-child){content-visibility:auto;contain-intrinsic-size:auto 24rem}
.b{white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.75;tab-size:4}
.o{max-width:100%;border:1px solid var(--line);border-left:3px solid var(--green);border-radius:8px;
background:var(--code);padding:.35rem .7rem .45rem;margin:.5rem 0}
.o.r{border-left-color:var(--grey);border-left-style:dashed}
.o h4{font-size:.75rem;font-weight:400;color:var(--quiet);margin:0}
.o .b,.s,[data-x]::before,i[data-u]::before{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,
"DejaVu Sans Mono",monospace}
.o .b{font-size:.88rem}
.y,.n,.t{border-radius:3px;padding:.1em 0;-webkit-box-decoration-break:clone;
box-decoration-break:clone}
.b .y{background:var(--yes);box-shadow:inset 0 -1px var(--green)}
.b .y:nth-child(even){background:var(--yes2)}
.b .n{background:var(--no)}
.b .n:nth-child(even){background:var(--no2)}
.b .t{background:var(--text)}
.b .t:nth-child(even){background:var(--text2)}
.b .s{font-size:.72rem;line-height:1;border:1px solid var(--grey);border-radius:99px;
padding:.12em .6em;margin:0 .15em;white-space:nowrap;background:none;color:var(--quiet);
box-shadow:none}
.b .s:nth-child(even){background:none}
.b .s.y,.b .s.y:nth-child(even){border-color:var(--green);color:var(--green);
background:var(--yes)}
.b .g{display:inline-flex;flex-direction:column;justify-content:center;min-width:9.5rem;
min-height:4.4rem;padding:.3rem .8rem;margin:.25rem .3rem .25rem 0;border-radius:8px;
border:1px solid var(--violet);color:var(--violet);background:var(--image);font-size:.8rem;
line-height:1.35;white-space:nowrap;vertical-align:middle}
i{font-style:normal}
.w{background:radial-gradient(circle,var(--small) .7px,transparent 1px) center/100% 1em no-repeat}
.l::after{content:"\\21b5";color:var(--small);font-size:.8em;padding:0 .1em}
.h::after{content:"\\2192";color:var(--small);font-size:.8em}
[data-x]::before{content:attr(data-x);font-size:.66em;color:var(--small);padding:0 .15em;
vertical-align:.1em}
i[data-u]::before{content:attr(data-u);font-size:.66em;border:1px solid var(--grey);
border-radius:3px;color:var(--small);padding:0 .2em;margin:0 .1em}
#ids:checked~main [data-i]::after{content:attr(data-i);font:.6rem/1 ui-monospace,Menlo,Consolas,
"DejaVu Sans Mono",monospace;color:var(--small);padding:0 .25em;vertical-align:.5em}
.z{border:1px dashed var(--grey);border-radius:8px;padding:.5rem .85rem;margin:.9rem 0}
footer{padding-top:1.5rem;padding-bottom:2rem}
@media(max-width:36rem){.u{margin-left:5%}.a{margin-right:0}.c{padding:.5rem .65rem}
.v{display:none}.k{gap:.3rem .8rem}}
@media print{.k{position:static}.k label{display:none}.d{content-visibility:visible}}
"""
