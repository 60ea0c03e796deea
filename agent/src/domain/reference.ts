/** An image reference in its parts. */
export interface ImageReference {
  /** host and port, as the engine's rules read them; the public hub where the text names none */
  host: string;
  /** whether the text names a host at all */
  namesHost: boolean;
  /** path at the host; `library/` is written out for the public hub */
  repository: string;
  /** empty: none is named */
  tag: string;
  /** `sha256:...`; empty: none is named. With both, the digest decides */
  digest: string;
}

/** What a reference without a host means, and where that hub really answers. */
export const PUBLIC_HUB = {
  host: 'docker.io',
  answersAt: 'registry-1.docker.io',
  aliases: ['index.docker.io', 'registry-1.docker.io', 'registry.hub.docker.com', 'hub.docker.com'],
} as const;

/** Takes an image reference apart. It says what the text means; the engine judges whether it is well formed. */
export function parseReference(text: string): ImageReference {
  const [first = '', rest] = text.split(/\/(.*)/s);
  const namesHost = rest !== undefined && isHost(first);
  const host = namesHost ? canonicalHost(first) : PUBLIC_HUB.host;
  const [path = '', digest = ''] = (namesHost ? rest : text).split(/@(.*)/s);
  const colon = path.indexOf(':', path.lastIndexOf('/') + 1);
  const name = colon < 0 ? path : path.slice(0, colon);
  return {
    host,
    namesHost,
    repository: host === PUBLIC_HUB.host && !name.includes('/') ? `library/${name}` : name,
    tag: colon < 0 ? '' : path.slice(colon + 1),
    digest,
  };
}

/** Characters of a reference that is read at all. */
const REFERENCE_LENGTH = 512;
/** Of the path at a host. */
const PATH_SEGMENT = /^[a-z0-9]+(?:[._-]+[a-z0-9]+)*$/;

/**
 * Whether a text is a reference as registries define them. Names of images become parts of paths of the engine's API: no
 * other text may.
 */
export function isReference(text: string): boolean {
  if (text.length > REFERENCE_LENGTH || !/^[\w.:@[\]/-]+$/.test(text)) return false;
  const { host, repository, tag, digest } = parseReference(text);
  if (text.includes('@') && !/^sha256:[0-9a-f]{64}$/.test(digest)) return false;
  if (tag !== '' && !/^\w[\w.-]{0,127}$/.test(tag)) return false;
  if (!/^(?:[a-z0-9]+(?:[._-]+[a-z0-9]+)*|\[[0-9a-f:.]+\])(?::\d{1,5})?$/.test(host)) return false;
  return !/:$|:@/.test(text) && repository.split('/').every((segment) => PATH_SEGMENT.test(segment));
}

/** Whether a tag is the stand-in of a digest, which the agent alone gives. */
export function isStandIn(tag: string): boolean {
  return /^sha256-[0-9a-f]{64}$/.test(tag);
}

/** The reference in full: host, path, and a tag or a digest, so that every engine reads it the same way. */
export function formatReference({ host, repository, tag, digest }: Omit<ImageReference, 'namesHost'>): string {
  return `${host}/${repository}${digest ? `@${digest}` : `:${tag || 'latest'}`}`;
}

/** Whether a reference names one image for good. */
export function isPinned(reference: string): boolean {
  return /@sha256:[0-9a-f]{64}$/.test(reference);
}

/**
 * A tag that stands for a digest: an engine that did not itself pull from the host of a reference has no other way to
 * know the image under it. Undefined for a reference without a digest.
 */
export function standIn(reference: string): string | undefined {
  const { host, repository, digest } = parseReference(reference);
  if (!/^sha256:[0-9a-f]{64}$/.test(digest)) return undefined;
  return formatReference({ host, repository, tag: digest.replace(':', '-'), digest: '' });
}

/** One spelling of a host: lower case, the hub by one name, without the port that https has anyway. */
export function canonicalHost(host: string): string {
  const plain = host.toLowerCase().replace(/:443$/, '');
  return (PUBLIC_HUB.aliases as readonly string[]).includes(plain) ? PUBLIC_HUB.host : plain;
}

/** Whether a host is the machine itself, which engines trust without TLS. */
export function isLoopback(host: string): boolean {
  return /^(127(\.\d{1,3}){3}|\[::1\]|localhost)(:\d+)?$/.test(host);
}

function isHost(first: string): boolean {
  // What stands before an @ would be a user, whom no reference names.
  if (first.includes('@')) return false;
  return /[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase();
}
