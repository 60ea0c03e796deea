/**
 * The certificates that a server sends: its own chain, and the authority, which most chains leave out. A machine that joins knows the
 * authority by its digest alone, and takes it from here. Texts in PEM.
 */
export function servedChain(chain: string, authority: string | undefined): string {
  const blocks = (text: string) => text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const plain = (block: string) => block.replaceAll(/\s/g, '');
  const known = new Set(blocks(chain).map(plain));
  const missing = blocks(authority ?? '').filter((block) => !known.has(plain(block)));
  return [chain.trimEnd(), ...missing, ''].join('\n');
}
