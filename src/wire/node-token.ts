/** The token that an agent signs for each request (docs/spec/agent-channel.md#node-token); times are in seconds. */
export const NODE_TOKEN = {
  lifetime: 60,
  maxLifetime: 600,
  tolerance: 10,
  algorithm: 'EdDSA',
  use: 'controller',
} as const;

/** Pieces of `skerry://host:port/<key>?tls=1&ca=sha256:<hex>`. */
export interface JoinString {
  controllerUrl: string;
  key: string;
  /** SHA-256 (hex) of the controller CA's DER, when the controller uses TLS with a private CA */
  caDigest?: string;
}

/** Reads a join string. Throws with a text that names what is wrong and never repeats the key. */
export function parseJoinString(text: string): JoinString {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new Error('the join string is not a URL; it looks like skerry://host:port/<provisioning key>');
  }
  if (url.protocol !== 'skerry:')
    throw new Error(`the join string starts with "${url.protocol}//", expected skerry://`);
  const key = decodeURIComponent(url.pathname.replace(/^\/+/, ''));
  if (!url.host) throw new Error('the join string names no host');
  if (!/^[A-Za-z0-9-]{8,255}$/.test(key)) throw new Error('the join string carries no valid provisioning key');
  const ca = url.searchParams.get('ca');
  if (ca !== null && !/^sha256:[0-9a-f]{64}$/.test(ca))
    throw new Error('the join string has a malformed ca=sha256:<hex>');
  return {
    controllerUrl: `${url.searchParams.get('tls') === '1' ? 'https' : 'http'}://${url.host}`,
    key,
    ...(ca && { caDigest: ca.slice('sha256:'.length) }),
  };
}

/** Writes what parseJoinString reads. */
export function formatJoinString({ controllerUrl, key, caDigest }: JoinString): string {
  const url = new URL(controllerUrl);
  const query = new URLSearchParams();
  if (url.protocol === 'https:') query.set('tls', '1');
  if (caDigest) query.set('ca', `sha256:${caDigest}`);
  const suffix = query.size > 0 ? `?${query.toString().replace('%3A', ':')}` : '';
  return `skerry://${url.host}/${key}${suffix}`;
}
