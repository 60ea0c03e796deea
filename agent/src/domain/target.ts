import { BUILT_IN_REGISTRIES } from '../../../src/api/names.ts';
import type { MicroserviceView, RegistryView } from '../../../src/wire/agent.ts';
import { type Policy, type PolicyContext, refusal } from './policy.ts';
import { canonicalHost, isLoopback, PUBLIC_HUB, parseReference } from './reference.ts';

/** A registry that the agent itself speaks to. */
export interface RegistrySource {
  /** host, with port where it is not the scheme's own */
  host: string;
  /** absent: https, and where `insecure` allows it http after that */
  scheme?: 'http' | 'https';
  /** PEM bundle in base64, trusted besides the authorities of the system; empty: none */
  ca: string;
  /** plain http is allowed, and certificates are not checked */
  insecure: boolean;
  credentials?: { username: string; password: string };
  /** of a hub, which knows its users by it: sent with each request to the hub itself; empty: none */
  token?: string;
}

/** What is to be pulled, and how. */
export interface PullTarget {
  /** the reference as the engine knows the image afterwards */
  reference: string;
  /** for the engine itself, when it pulls */
  credentials?: { username: string; password: string; host: string };
  /** a registry that the engine cannot be configured to trust: the agent fetches from it, and the engine from the agent */
  relay?: RegistrySource;
}

/**
 * Where an image comes from. A reference that names no host is looked for at the host of its registry, unless that is
 * the public hub or the local cache. Credentials, authorities and `insecure` of a registry are for its own host only: a
 * reference to another one gets none of them. With `pullThroughAgent` the engine never asks a registry itself. Pure.
 */
export function pullTarget(
  reference: string,
  registry: RegistryView | undefined,
  { pullThroughAgent = false }: Partial<Pick<Policy, 'pullThroughAgent'>> = {},
): PullTarget {
  const from = registry && originOf(registry);
  const parsed = parseReference(reference);
  if (!registry || !from || (parsed.namesHost && parsed.host !== from.host))
    return { reference, ...(pullThroughAgent && { relay: anonymous(parsed.host) }) };
  const full = parsed.namesHost || from.host === PUBLIC_HUB.host ? reference : `${from.host}/${reference}`;
  const { username, password } = registry;
  const credentials = username !== '' ? { username, password } : undefined;
  // Engines trust the loopback interface by themselves.
  const insecure = registry.insecure || (pullThroughAgent && isLoopback(from.host));
  if (((registry.ca || registry.insecure) && !isLoopback(from.host)) || pullThroughAgent)
    return { reference: full, relay: { ...from, ca: registry.ca, insecure, credentials } };
  return { reference: full, credentials: credentials && { ...credentials, host: from.host } };
}

/** A registry of which no more than the host is known. */
const anonymous = (host: string): RegistrySource => ({ host, ca: '', insecure: isLoopback(host) });

/** What the image of a view is pulled by; undefined while it depends on a registry that is not known. Pure. */
export function pullReference(
  { imageId, registryId }: Pick<MicroserviceView, 'imageId' | 'registryId'>,
  registries: ReadonlyMap<number, RegistryView>,
): string | undefined {
  const registry = registries.get(registryId);
  const isKnown = registry !== undefined || BUILT_IN_IDS.has(registryId) || parseReference(imageId).namesHost;
  return isKnown ? pullTarget(imageId, registry).reference : undefined;
}

const BUILT_IN_IDS: ReadonlySet<number> = new Set(Object.values(BUILT_IN_REGISTRIES).map(({ id }) => id));

/**
 * A registry as a source of artifacts, which the agent itself pulls; undefined where it is no host. As engines do, the
 * agent trusts the loopback interface.
 */
export function artifactSource(registry: RegistryView): RegistrySource | undefined {
  const from = originOf(registry);
  if (!from) return undefined;
  const { type, username, password, ca } = registry;
  const insecure = registry.insecure || isLoopback(from.host);
  if (type === 'hub') return { ...from, ca, insecure, token: password };
  return { ...from, ca, insecure, ...(username && { credentials: { username, password } }) };
}

/** Whether the policy of a machine lets images, models and knowledge come from a registry. Pure. */
export function isAllowed(registry: RegistryView, { registries }: Pick<Policy, 'registries'>): boolean {
  const from = originOf(registry);
  return !registries || !from || registries.map(canonicalHost).includes(from.host);
}

/** What of a view's registry cannot be honoured, in one sentence, or undefined. Pure. */
export function registryNotHonoured(view: MicroserviceView, registry: RegistryView | undefined): string | undefined {
  const from = registry && originOf(registry);
  const { namesHost, host } = parseReference(view.imageId);
  if (!registry || !from || !namesHost || host === from.host) return undefined;
  const asked = [registry.username && 'credentials', registry.ca && 'ca', registry.insecure && 'insecure'];
  const names = asked.filter(Boolean).join(', ');
  return names ? `${names} are for ${from.host}, and the image comes from ${host}` : undefined;
}

/** Host and scheme of a registry; undefined for the local cache and for what is no host. */
function originOf({ id, url }: RegistryView): Pick<RegistrySource, 'host' | 'scheme'> | undefined {
  if (id === BUILT_IN_REGISTRIES.local.id) return undefined;
  const [, scheme, rest = ''] = /^(?:(https?):\/\/)?([^/]+)/i.exec(url) ?? [];
  // What stands before an @ would be a name and a password; they have fields of their own.
  const host = canonicalHost(rest.slice(rest.lastIndexOf('@') + 1));
  return host ? { host, scheme: scheme?.toLowerCase() as RegistrySource['scheme'] } : undefined;
}

/** Why a microservice may not run here, by the host that its image comes from among other rules, or undefined. */
export function viewRefusal(
  view: MicroserviceView,
  registries: ReadonlyMap<number, RegistryView>,
  context: PolicyContext,
): string | undefined {
  return refusal(view, pullTarget(view.imageId, registries.get(view.registryId)).reference, context);
}
