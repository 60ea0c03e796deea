import { AGENT_GROUP } from '../../../../src/api/names.ts';
import type { Clock } from '../../../../src/lib/clock.ts';
import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import type { Identity } from '../../state/identity.ts';
import { LocalApiError } from './errors.ts';
import { allows, type Grant, REACHES_ALL, reachOf } from './grants.ts';
import type { LocalAccess, LocalCaller } from './route.ts';
import { isAdmin, tokenClaims, workloadOf } from './token.ts';

/** Where a request came from. */
export type Listener = 'socket' | 'loopback' | 'bridge';

/** What access needs of the agent. */
export interface AccessAgent {
  readonly identity: Identity;
  view(uuid: string): Pick<MicroserviceView, 'application' | 'serviceAccount'> | undefined;
}

/** The caller of a request, by its token. Throws ApiError where the route is not for the caller, or not served by the listener. */
export function authenticate(
  access: LocalAccess,
  authorization: string | undefined,
  { agent, clock, listener }: { agent: AccessAgent; clock: Clock; listener: Listener },
): LocalCaller {
  if (access === 'open') {
    if (listener === 'bridge') throw new LocalApiError('FORBIDDEN', 'this route is not served to containers');
    return { microservice: '', reach: REACHES_ALL };
  }
  const claims = tokenClaims(authorization, agent.identity, clock);
  const microservice = claims && workloadOf(claims);
  const grant = typeof access === 'object' ? access : undefined;
  if (access !== 'workload' && listener !== 'socket' && !(grant && microservice !== undefined))
    throw new LocalApiError('FORBIDDEN', 'this route is served on the unix socket only');
  if (!claims || (microservice === undefined && !isAdmin(claims)))
    throw new LocalApiError('UNAUTHORIZED', 'a valid token of this agent is required');
  if (microservice === undefined) {
    if (access !== 'workload') return { claims, microservice: '', reach: REACHES_ALL };
    throw new LocalApiError('FORBIDDEN', 'only a microservice can ask for what is its own, with its own token');
  }
  if (access === 'workload') return { claims, microservice, reach: ({ id }) => id === microservice };
  // The rules that the controller sent last count, not those that the token was made with.
  const view = agent.view(microservice);
  const rules = view?.serviceAccount?.rules ?? [];
  if (!view || !grant || !allows(rules, grant))
    throw new LocalApiError('FORBIDDEN', grant ? refusal(grant) : 'this route is for the admin of the machine only');
  return { claims, microservice, reach: reachOf(view.application, rules, grant) };
}

const refusal = ({ resource, verb }: Grant) =>
  `the role of this microservice does not allow it: ${verb} on ${resource} of the API group ${AGENT_GROUP}/v1`;
