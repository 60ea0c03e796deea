import { AGENT_GROUP } from '../../../../src/api/names.ts';
import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import type { MicroserviceSource } from '../../domain/wanted.ts';
import type { Claims } from '../../state/token.ts';
import { LocalApiError } from './errors.ts';
import { allows, type Grant, isNamed, REACHES_ALL, reachOf } from './grants.ts';
import type { LocalAccess, LocalCaller } from './route.ts';
import { isAdmin, workloadOf } from './token.ts';

/** Where a request came from. */
export type Listener = 'socket' | 'loopback' | 'bridge';

/** What access needs of the agent. */
export interface AccessAgent {
  /** The view whose rules count: of a microservice that a controller wants here; of others a token is for their own routes alone. */
  viewWithRules(uuid: string): Pick<MicroserviceView, 'application' | 'serviceAccount'> | undefined;
  /** who wants a microservice: a controller, or the machine itself */
  sourceOf(uuid: string): MicroserviceSource;
  readonly tokens: {
    /** The claims of a token that this agent signed, that is valid now, and that was not revoked. */
    verify(token: string): Claims | undefined;
  };
}

/** Who asks, before it is known what for. */
export type IdentifiedCaller =
  | { kind: 'nobody' }
  | { kind: 'admin'; claims: Claims }
  | { kind: 'workload'; claims: Claims; microservice: string };

const NOBODY: IdentifiedCaller = { kind: 'nobody' };

/** Whose token an Authorization header has. A token for neither of both uses counts for none. */
export function identify(authorization: string | undefined, { tokens }: AccessAgent): IdentifiedCaller {
  const [, token] = /^Bearer (\S+)$/.exec(authorization ?? '') ?? [];
  const claims = token === undefined ? undefined : tokens.verify(token);
  if (!claims) return NOBODY;
  const microservice = workloadOf(claims);
  if (microservice !== undefined) return { kind: 'workload', claims, microservice };
  return isAdmin(claims) ? { kind: 'admin', claims } : NOBODY;
}

/** A request that reached a listener, as far as access depends on it. */
export interface Approach {
  identified: IdentifiedCaller;
  listener: Listener;
  agent: AccessAgent;
}

/** The caller of a route. Throws LocalApiError where the route is not for the caller, or not served by the listener. */
export function authorize(
  access: LocalAccess,
  parameters: Readonly<Record<string, string>>,
  { identified, listener, agent }: Approach,
): LocalCaller {
  if (access === 'open') {
    if (listener === 'bridge') throw new LocalApiError('FORBIDDEN', 'this route is not served to containers');
    return ANYONE;
  }
  const { claims, microservice } = requireToken({ identified, listener });
  if (microservice === undefined) {
    if (access !== 'workload') return { ...ANYONE, claims };
    throw new LocalApiError('FORBIDDEN', 'only a microservice can ask for what is its own, with its own token');
  }
  if (access === 'workload') return { ...ANYONE, claims, microservice, reach: ({ id }) => id === microservice };
  if (access === 'admin') throw forbidden();
  // The rules that the controller sent last count, not those that the token was made with.
  const view = agent.viewWithRules(microservice);
  const rules = view?.serviceAccount?.rules ?? [];
  const mayName = (...names: string[]) => allows(rules, access, names);
  const { name } = parameters;
  if (!view || !allows(rules, access) || (isNamed(access) && name !== undefined && !mayName(name)))
    throw new LocalApiError('FORBIDDEN', refusal(access));
  return { claims, microservice, reach: reachOf(view.application, rules, access, agent), mayName };
}

const ANYONE: LocalCaller = { microservice: '', reach: REACHES_ALL, mayName: () => true };

/** What exists shows to the admin alone, and only over the socket. Throws otherwise. */
export function requireAdmin(approach: Omit<Approach, 'agent'>): void {
  if (requireToken(approach).microservice !== undefined) throw forbidden();
}

/** Throws where there is no valid token, and where the token of the admin came by a listener that others reach. */
function requireToken({ identified, listener }: Omit<Approach, 'agent'>): { claims: Claims; microservice?: string } {
  if (identified.kind === 'nobody') throw new LocalApiError('UNAUTHORIZED', 'a valid token of this agent is required');
  if (identified.kind === 'admin' && listener !== 'socket')
    throw new LocalApiError('FORBIDDEN', 'the admin of the machine asks over the unix socket only');
  return identified;
}

const forbidden = () => new LocalApiError('FORBIDDEN', 'this route is for the admin of the machine only');

const refusal = ({ resource, verb }: Grant) =>
  `the role of this microservice does not allow it: ${verb} on ${resource} of the API group ${AGENT_GROUP}/v1`;
