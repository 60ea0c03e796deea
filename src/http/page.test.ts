import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { escapeHtml, htmlPage, PAGE_HEADERS } from './page.ts';

describe('a page', () => {
  test('shows title, paths and data as text, whatever is in them', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), (title, path, data) => {
        const page = htmlPage({ title, body: '', stylesheet: path, script: path, data: { api: data } });
        const plain = htmlPage({ title: '', body: '', stylesheet: '', script: '', data: { api: '' } });
        expect(page.match(/[<>"']/g)).toEqual(plain.match(/[<>"']/g));
      }),
    );
    expect(escapeHtml(`<a href="x" title='y'>&`)).toBe('&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;');
  });

  test('permits neither another origin, nor a script or a style in itself, nor a frame', () => {
    const policy = PAGE_HEADERS['content-security-policy'] ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*|data:|blob:/);
  });
});
