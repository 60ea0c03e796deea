import { formatReference, isLoopback, parseReference } from '../../registries/reference.ts';
import type { EngineFacts, PullRequest } from '../port.ts';

/** How an engine is asked to pull. */
export interface PullCall {
  path: string;
  query: Record<string, string>;
  headers: Record<string, string>;
}

/** The call of a pull in the words of the engine. Pure. */
export function pullCall({ reference, platform, credentials }: PullRequest, kind: EngineFacts['kind']): PullCall {
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
const PATHS: Record<EngineFacts['kind'], Path> = {
  docker: (reference, platform) => ({
    path: '/images/create',
    query: { fromImage: reference, ...(platform && { platform }) },
  }),
  // Docker trusts loopback by itself; podman has to be told, which only its own API can.
  podman: (reference, platform, host) => {
    const [os, arch, variant] = platform.split('/');
    return {
      path: '/libpod/images/pull',
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
