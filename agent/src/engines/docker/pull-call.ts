import { formatReference, isLoopback, parseReference } from '../../domain/reference.ts';
import type { DockerApiKind } from '../../engine-port/facts.ts';
import type { PullRequest } from '../../engine-port/images.ts';

/** How an engine is asked to pull. */
export interface PullCall {
  path: string;
  query: Record<string, string>;
  headers: Record<string, string>;
  /** milliseconds without a word after which the pull is given up */
  quiet: number;
}

const MINUTE = 60_000;

/** The call of a pull in the words of the engine. Pure. */
export function pullCall({ reference, platform, credentials }: PullRequest, kind: DockerApiKind): PullCall {
  const headers: Record<string, string> = {};
  if (credentials) {
    const { username, password, host } = credentials;
    const auth = JSON.stringify({ username, password, serveraddress: host });
    // URL-safe and padded; what the engine cannot decode it takes for no credentials.
    headers['x-registry-auth'] = Buffer.from(auth).toString('base64').replaceAll('+', '-').replaceAll('/', '_');
  }
  const parsed = parseReference(reference);
  return { headers, ...PATHS[kind](formatReference(parsed), platform, parsed.host) };
}

type Path = (reference: string, platform: string, host: string) => Omit<PullCall, 'headers'>;

/** References are written out in full: docker would pull every tag without one, and podman has no default host. */
const PATHS: Record<DockerApiKind, Path> = {
  docker: (reference, platform) => ({
    path: '/images/create',
    quiet: 5 * MINUTE,
    query: { fromImage: reference, ...(platform && { platform }) },
  }),
  // Docker trusts loopback by itself; podman needs an option, which only its own API has.
  podman: (reference, platform, host) => {
    const [os, arch, variant] = platform.split('/');
    return {
      path: '/libpod/images/pull',
      // Podman reports the start of a layer and then nothing until it is complete, however slow the link.
      quiet: 120 * MINUTE,
      query: {
        reference,
        ...(isLoopback(host) && { tlsVerify: 'false' }),
        ...(os && { os }),
        ...(arch && { arch }),
        ...(variant && { variant }),
      },
    };
  },
};
