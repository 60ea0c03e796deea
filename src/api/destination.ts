/** Where what identifies us to a registry goes, and what we check about who is there. */
export interface Destination {
  /** host, with port where it is not the scheme's own; lower case */
  host: string;
  /** over TLS, with certificates checked */
  verified: boolean;
  /** authorities trusted besides those of the system, in whatever form both sides of a comparison have it; empty: none */
  ca: string;
}

interface Addressed {
  url: string;
  insecure?: boolean;
  ca?: string;
}

/** The destination of a registry, as the agent reads its url. */
export function destinationOf({ url, insecure = false, ca = '' }: Addressed): Destination {
  const [, scheme, host = ''] = /^(https?:\/\/)?([^/]*)/.exec(url.toLowerCase()) ?? [];
  return { host, verified: !insecure && scheme !== 'http://', ca };
}

/** Whether whoever could read along at `wanted` could do so at `allowed` already. */
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
