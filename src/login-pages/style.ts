/** The style of all pages of a login: light and dark as the browser asks for, from the width of a phone on. */
export const STYLE = `:root {
  color-scheme: light dark;
  --ground: light-dark(#f4f6f8, #14191f);
  --card: light-dark(#ffffff, #1d242c);
  --text: light-dark(#1a2027, #e6ebf0);
  --faint: light-dark(#55606c, #a5b1bd);
  --line: light-dark(#8a949f, #71808f);
  --accent: light-dark(#0b5c8a, #7cc4ee);
  --on-accent: light-dark(#ffffff, #10202b);
  --problem: light-dark(#a3122a, #ff9aa8);
}
* { box-sizing: border-box; }
body {
  margin: 0;
  min-height: 100vh;
  display: grid;
  place-items: start center;
  padding: clamp(0.75rem, 8vh, 6rem) 0.75rem 2rem;
  background: var(--ground);
  color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif;
}
main {
  width: 100%;
  max-width: 26rem;
  padding: 1.5rem;
  border: 1px solid light-dark(#d5dbe1, #323c47);
  border-radius: 0.75rem;
  background: var(--card);
  overflow-wrap: anywhere;
}
[hidden] { display: none !important; }
h1 { margin: 0 0 0.75rem; font-size: 1.4rem; line-height: 1.25; }
h1:focus { outline: none; }
p { margin: 0 0 1rem; }
label { display: block; margin: 0 0 1rem; color: var(--faint); }
input, textarea {
  display: block;
  width: 100%;
  min-height: 2.75rem;
  margin-top: 0.25rem;
  padding: 0.5rem 0.75rem;
  border: 1px solid var(--line);
  border-radius: 0.5rem;
  background: var(--card);
  color: var(--text);
  font: inherit;
}
textarea { margin: 0 0 1rem; font: 0.8rem/1.4 ui-monospace, monospace; }
button, .button {
  display: block;
  width: 100%;
  min-height: 2.75rem;
  margin: 0 0 0.75rem;
  padding: 0.6rem 1rem;
  border: 1px solid var(--accent);
  border-radius: 0.5rem;
  background: var(--accent);
  color: var(--on-accent);
  font: inherit;
  font-weight: 600;
  text-align: center;
  text-decoration: none;
  cursor: pointer;
}
button.plain { background: transparent; color: var(--accent); }
button:disabled { opacity: 0.6; cursor: progress; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.problem { color: var(--problem); font-weight: 600; }
.problem:empty { display: none; }
code, .codes { font-family: ui-monospace, monospace; font-size: 1.05rem; letter-spacing: 0.04em; }
.codes { display: grid; grid-template-columns: 1fr 1fr; gap: 0.4rem 1rem; margin: 0 0 1.25rem; padding: 0; list-style: none; }
svg { display: block; width: 100%; max-width: 14rem; height: auto; margin: 0 auto 1rem; border-radius: 0.5rem; background: #ffffff; }
svg path { fill: #000000; }
@media (max-width: 30rem) { main { padding: 1.1rem; } }
`;
