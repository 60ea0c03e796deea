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
  return { headers, ...PATHS[kind](withTag(reference), platform) };
}

const PATHS: Record<EngineFacts['kind'], (reference: string, platform: string) => Omit<PullCall, 'headers'>> = {
  docker: (reference, platform) => ({
    path: '/images/create',
    query: { fromImage: reference, ...(platform && { platform }) },
  }),
  // Docker trusts loopback by itself; podman has to be told, which only its own API can.
  podman: (reference, platform) => {
    const [os, arch, variant] = platform.split('/');
    return {
      path: '/libpod/images/pull',
      query: {
        reference,
        ...(isLoopback(reference) && { tlsVerify: 'false' }),
        ...(os && { os }),
        ...(arch && { arch }),
        ...(variant && { variant }),
      },
    };
  },
};

function isLoopback(reference: string): boolean {
  return /^(127(\.\d{1,3}){3}|\[::1\]|localhost)(:\d+)?\//.test(reference);
}

/** Without a tag the engine would pull every tag of the repository. */
function withTag(reference: string): string {
  const last = reference.slice(reference.lastIndexOf('/') + 1);
  return last.includes(':') || last.includes('@') ? reference : `${reference}:latest`;
}
