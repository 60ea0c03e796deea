/** The server that gets our credentials for a registry, and how it is authenticated. */
export interface Destination {
  /** host, with the port if it is not the default of the scheme; lower case */
  host: string;
  /** the connection uses TLS and certificates are checked */
  verified: boolean;
  /** trusted authorities besides those of the system, in any form that both sides of a comparison have; empty: none */
  ca: string;
}

interface Addressed {
  url: string;
  insecure?: boolean;
  ca?: string;
}

/** The destination of a registry; the agent reads the url in the same way. */
export function destinationOf({ url, insecure = false, ca = '' }: Addressed): Destination {
  const [, scheme, host = ''] = /^(https?:\/\/)?([^/]*)/.exec(url.toLowerCase()) ?? [];
  return { host, verified: !insecure && scheme !== 'http://', ca };
}

/** Whether every party that could read credentials sent to `wanted` could already read them at `allowed`. */
export function staysWithin(wanted: Destination, allowed: Destination): boolean {
  if (wanted.host !== allowed.host) return false;
  return !allowed.verified || (wanted.verified && (wanted.ca === '' || wanted.ca === allowed.ca));
}

/** The same as CEL over the spec before (`oldSelf`) and after (`self`); the rules of a CRD have no expressions for hosts. */
export const STAYS_WITHIN_CEL = (() => {
  const host = (spec: string) =>
    `${spec}.url.lowerAscii().replace('https://', '').replace('http://', '').split('/')[0]`;
  const open = (spec: string) =>
    `(has(${spec}.insecure) && ${spec}.insecure) || ${spec}.url.lowerAscii().startsWith('http://')`;
  const noOtherCa = `!has(self.ca) || self.ca == '' || (has(oldSelf.ca) && self.ca == oldSelf.ca)`;
  return `${host('self')} == ${host('oldSelf')} && (${open('oldSelf')} || (!(${open('self')}) && (${noOtherCa})))`;
})();
